"""Machine code is never older than any of the sources that it was made of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.kernels.compiled import SOURCES, code_folder, possible_roots, sources_digest


@pytest.fixture
def sources(tmp_path):
    """A copy of the kernels' sources."""
    copy = tmp_path / "muntin" / "kernels"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.mark.parametrize("name", sorted(path.name for path in SOURCES.glob("*.py")))
def test_a_change_in_any_kernel_file_changes_the_folder(sources, name):
    before = sources_digest(sources)
    assert before == sources_digest(SOURCES)
    (sources / name).write_text((sources / name).read_text() + "\n")
    assert sources_digest(sources) != before


def test_a_new_folder_removes_those_of_other_sources(sources, tmp_path):
    root = tmp_path / "root"
    first = code_folder(sources, [root])
    assert code_folder(sources, [root]) == first
    (first / "code").write_text("")
    (sources / "new.py").write_text("")
    second = code_folder(sources, [root])
    assert [second] == list(root.iterdir()) and second != first


def test_where_one_root_cannot_be_written_the_next_is_used_and_without_any_nothing_is_kept(sources, tmp_path):
    (tmp_path / "file").write_text("")
    blocked = tmp_path / "file" / "root"
    folder = code_folder(sources, [blocked, tmp_path / "root"])
    assert folder is not None and folder.parent == tmp_path / "root"
    assert code_folder(sources, [blocked]) is None


def test_installations_do_not_share_a_root_in_the_home(sources):
    assert possible_roots(sources)[-1] != possible_roots(SOURCES)[-1]


@pytest.mark.slow
def test_a_kernel_has_the_present_code_of_a_function_of_another_file(tmp_path):
    kernels = tmp_path / "muntin" / "kernels"
    kernels.mkdir(parents=True)
    for package in (kernels.parent, kernels):
        (package / "__init__.py").write_text("")
    shutil.copy(SOURCES / "compiled.py", kernels)
    (kernels / "caller.py").write_text(
        "from muntin.kernels.compiled import kernel\nfrom muntin.kernels.part import part\n"
        "@kernel\ndef call():\n    return part()\n"
    )

    def call(answer: int) -> tuple[str, list[Path]]:
        (kernels / "part.py").write_text(
            f"from muntin.kernels.compiled import inlined\n@inlined\ndef part():\n    return {answer}\n"
        )
        run = "import numba, muntin.kernels.caller as c; print(c.call(), c.call.stats.cache_hits and 'kept' or 'new')"
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run([sys.executable, "-c", run], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip(), list((kernels / "__pycache__" / "machine_code").iterdir())

    first, before = call(1)
    again, same = call(1)
    second, after = call(2)
    assert (first, again, second) == ("1 new", "1 kept", "2 new")
    assert before == same != after and len(after) == 1
