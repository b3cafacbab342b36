"""Runs fuzzers, all of them: `PYTHONPATH=src:tests python -m fuzz.fuzzing --cases 100000`; `... frames 17` is one case.

A case may succeed or raise a `MuntinError`; anything else is a fault, and so are a process that dies and a case that
does not end. Cases go to a child process in lots, which notes the case that it is at: so a fault has a number also
where the child is no more.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz import text_targets, wire_targets
from muntin.model import MuntinError

TARGETS: dict[str, Callable[[Path], Any]] = {
    "statements": lambda folder: text_targets.Statements(),
    "job files": text_targets.JobFiles,
    "values": lambda folder: text_targets.Values(),
    "frames": lambda folder: wire_targets.Frames(),
    "files": wire_targets.Files,
    "requests": wire_targets.Requests,
    "hub": lambda folder: wire_targets.HubMessages(),
    "page": wire_targets.Page,
}
SHARES = {
    "statements": 25,
    "job files": 10,
    "values": 10,
    "frames": 25,
    "files": 10,
    "requests": 5,
    "hub": 10,
    "page": 5,
}
"""Of a hundred cases."""
LOT = 2000
HANG_S = 120.0
"""No case takes so long, on however busy a machine, unless it hangs."""
SHOWN = 2000


@dataclass
class Found:
    """What the cases of a target came to."""

    cases: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    slowest: int = -1
    faults: list[str] = field(default_factory=list)


def fuzz(name: str, numbers: range, folder: Path, at: Callable[[int], None] = lambda number: None) -> Found:
    """Run cases of a target in this process."""
    found, target = Found(), TARGETS[name](folder)
    for number in numbers:
        at(number)
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        began = time.monotonic()
        try:
            target.run(random.Random(f"{name} {number}"))
        except MuntinError:
            found.refused += 1
        except Exception:
            case = repr(text_targets.LAST[0])[:SHOWN] if text_targets.LAST else ""
            found.faults.append(f"{again(name, number)}\n{case}\n{traceback.format_exc()}")
        took = time.monotonic() - began
        found.cases += 1
        if took > found.slowest_s:
            found.slowest_s, found.slowest = took, number
    faulthandler.cancel_dump_traceback_later()
    target.close()
    return found


def again(name: str, number: int) -> str:
    return f'PYTHONPATH=src:tests python -m fuzz.fuzzing "{name}" {number}'


def in_child(name: str, numbers: range) -> str:
    """Run a lot in a process of its own; what it says, and the fault where it died."""
    with tempfile.NamedTemporaryFile(prefix="muntin-fuzz-") as note:
        lot = [str(numbers.start), str(len(numbers)), note.name]
        done = subprocess.run(
            [sys.executable, "-m", "fuzz.fuzzing", name, "--lot", *lot], capture_output=True, text=True
        )
        if done.returncode in (0, 1):
            return done.stdout
        number = int(Path(note.name).read_text() or numbers.start)
        return f"FAULT {again(name, number)}: the process ended with {done.returncode}\n{done.stderr[-SHOWN:]}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", nargs="?", choices=TARGETS)
    parser.add_argument("number", nargs="?", type=int)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--lot", nargs=3, metavar=("FIRST", "COUNT", "NOTE"))
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="muntin-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        if args.number is not None:
            return told(args.target, fuzz(args.target, range(args.number, args.number + 1), folder))
        if args.lot:
            first, count, note = int(args.lot[0]), int(args.lot[1]), os.open(args.lot[2], os.O_WRONLY)
            write = lambda number: os.pwrite(note, f"{number:<12}".encode(), 0)  # noqa: E731
            return told(args.target, fuzz(args.target, range(first, first + count), folder, write))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    faults = 0
    for name in [args.target] if args.target else TARGETS:
        count = args.cases if args.target else args.cases * SHARES[name] // 100
        for start in range(args.first, args.first + count, LOT):
            said = in_child(name, range(start, min(start + LOT, args.first + count)))
            print(said, end="", flush=True)
            faults += said.count("FAULT ")
    print(f"{args.cases} cases, {faults} faults")
    return 1 if faults else 0


def told(name: str, found: Found) -> int:
    for fault in found.faults[:10]:
        print(f"FAULT {fault}")
    slow = f"slowest {found.slowest_s:.2f} s (case {found.slowest})"
    print(f"{name}: {found.cases} cases, {found.refused} refused, {len(found.faults)} faults, {slow}")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
