"""A few thousand spoilt inputs of each kind: refused in our words, or taken; nothing else. `make fuzz` has more.

MUNTIN_FUZZ_FIRST takes other cases than the usual ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzz.fuzzing import TARGETS, fuzz

FIRST = int(os.environ.get("MUNTIN_FUZZ_FIRST", "0"))
CASES = {"frames": 2000, "values": 1000, "hub": 300, "statements": 250, "job files": 80, "files": 150, "requests": 60,
         "page": 100}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_spoilt_input_is_refused_or_taken_and_nothing_else(name: str, tmp_path: Path):
    found = fuzz(name, range(FIRST, FIRST + CASES[name]), tmp_path)
    assert not found.faults, found.faults[0]
    assert found.cases == CASES[name]


def test_a_fault_is_told_with_the_line_that_brings_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Broken:
        def run(self, dice: object) -> None:
            raise KeyError("x")

        def close(self) -> None: ...

    monkeypatch.setitem(TARGETS, "broken", lambda folder: Broken())
    found = fuzz("broken", range(5, 6), tmp_path)
    assert found.faults[0].startswith('PYTHONPATH=src:tests python -m fuzz.fuzzing "broken" 5\n')
    assert "KeyError: 'x'" in found.faults[0]
