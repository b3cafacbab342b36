"""The commands of the documentation run one after the other, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def commands(page: str) -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def demo_output() -> str:
    text = (ROOT / "README.md").read_text()
    return re.findall(r"<!-- demo output -->\n```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0]


def timeless(text: str) -> set[str]:
    """The lines of a text but for those that tell a time; blanks do not count."""
    return {" ".join(line.split()) for line in text.splitlines() if not line.strip().startswith("seconds ")}


@pytest.mark.parametrize(
    "page",
    [pytest.param("README.md", marks=pytest.mark.spark), pytest.param("docs/tuning.md", marks=pytest.mark.stand_in)],
)
def test_the_commands_of_a_page_run_in_order_in_one_folder(
    muntin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
):
    """`make demo` as what it stands for; `make test` is what runs this. Other tests run `muntin` as a process."""
    monkeypatch.chdir(tmp_path)
    for command in commands(page):
        command = command.replace("make demo", "muntin demo")
        if command.startswith("make "):
            continue
        assert command.startswith("muntin ")
        code, out, err = muntin(*command.split()[1:])
        assert code == 0 and out.strip(), f"{command}\n{err}"
        if command == "muntin demo":
            assert timeless(demo_output()) <= timeless(out), "the README shows what the demo prints"
