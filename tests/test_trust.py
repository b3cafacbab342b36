"""What `docs/security.md` promises: who is believed, and what nobody can make Muntin do."""

from __future__ import annotations

import ast
import os
import pickle
from pathlib import Path

import pytest

from muntin.kernels.compiled import code_folder, is_trusted
from muntin.model import MuntinError, Window
from muntin.spark.checkpoint import identity
from muntin.spark.exchange.packed import packed, unpacked
from muntin.spark.shard.hot_state import hot_root
from muntin.spark.sink.hub_place import HubPlace
from muntin.spark.store import private_folder
from muntin.web.server import WebOptions

PACKAGE = Path(__file__).parents[1] / "src" / "muntin"
TREES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
PICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
PACKED = PACKAGE / "spark" / "exchange" / "packed.py"
"""The one place that reads pickles, of what Spark brings to its tasks, and makes only plans of them."""


def names(tree: ast.AST) -> set[str]:
    """Modules that are imported, and functions that are called by their names."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(f"{node.func.id}()")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.add(f".{node.func.attr}()")
    return found


def test_no_pickle_is_read_but_what_spark_brings_to_its_tasks():
    readers = {path for path, tree in TREES.items() if names(tree) & PICKLES}
    assert readers == {PACKED}
    assert [path for path, tree in TREES.items() if ".read_pickle()" in names(tree)] == []
    assert [path for path in TREES if "np.load(" in path.read_text()] == [], "it reads pickles"
    loading = [n for n in ast.walk(TREES[PACKED]) if isinstance(n, ast.Attribute) and n.attr in ("load", "loads")]
    assert len(loading) == 1, "by the reader that makes only plans"


def test_no_text_is_run_as_code():
    assert [path for path, tree in TREES.items() if names(tree) & {"eval()", "exec()", "compile()", ".system()"}] == []


def test_no_program_is_started_through_a_shell():
    wrong = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "shell":
                wrong.append(path)
    assert wrong == []


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch /tmp/owned",)


@pytest.mark.parametrize("value", [Evil(), os.getcwd, pickle.Unpickler, identity.check_names, MuntinError])
def test_what_tasks_are_told_makes_nothing_but_plans(value: object):
    """Neither what other packages have, nor functions of ours, nor classes from where no plans are."""
    if value is MuntinError:
        value = MuntinError  # a class of the model: it may be named, and does nothing
        assert unpacked(packed(value)) is MuntinError
        return
    with pytest.raises(MuntinError, match="no plan"):
        unpacked(packed(value))


def test_values_of_the_model_come_back_from_what_tasks_are_told():
    assert unpacked(packed((Window(1, 2), {"a": None}))) == (Window(1, 2), {"a": None})


# -- folders ----------------------------------------------------------------------------------------------------------


def test_a_folder_of_ours_is_entered_by_nobody_else(tmp_path: Path):
    before = os.umask(0)
    try:
        made = private_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_could_read_is_closed(tmp_path: Path):
    (tmp_path / "a").mkdir(mode=0o755)
    assert private_folder(tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_could_have_filled_is_refused(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(MuntinError, match="can be written by others"):
        private_folder(tmp_path / "a")


def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(MuntinError, match="belongs to somebody else"):
        private_folder(tmp_path / "link")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_hot_states_are_not_put_into_a_folder_that_somebody_else_has_made(tmp_path: Path):
    (tmp_path / f"muntin-{os.getuid()}").mkdir(mode=0o700)
    os.chown(tmp_path / f"muntin-{os.getuid()}", 12345, 12345)
    with pytest.raises(MuntinError, match="belongs to somebody else"):
        hot_root("id", tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_machine_code_is_not_taken_from_where_others_can_write(tmp_path: Path):
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.py").write_text("x = 1\n")
    roots = [tmp_path / "theirs", tmp_path / "ours"]
    theirs = code_folder(sources, roots)
    assert theirs is not None and theirs.is_relative_to(roots[0]) and is_trusted(theirs)
    theirs.chmod(0o777)
    ours = code_folder(sources, roots)
    assert ours is not None and ours.is_relative_to(roots[1])
    theirs.chmod(0o755)
    os.chown(theirs, 12345, 12345)
    assert code_folder(sources, roots) == ours


def test_nothing_listens_but_on_loopback_unless_asked():
    assert HubPlace().bind == HubPlace.of({}).bind == "127.0.0.1"
    assert WebOptions().host == "127.0.0.1"
