"""Whether Spark's half of a checkpoint is whole: its logs, its lists of files, its state.

offsets/7               what micro-batch 7 reads; written before it runs
commits/7               it is done; names the state that it has left
sources/0/7             files that it took from source 0
state/0/1/8_<id>.*      what shard 1 kept after it: a changelog, now and then a whole copy
.7.crc                  Hadoop's sums of the bytes of each of them: CRC32, one for every 512
"""

from __future__ import annotations

import json
import re
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any

from muntin.spark.store import Location, store_of

_STATE = re.compile(r"(\d+)_[0-9a-f-]+\.(changelog|zip)")
_SUM, STEP = 4, 512
"""Bytes of one of Hadoop's sums, and bytes that it is of."""


def is_cut_short(file: Path) -> bool:
    """Whether a file of Spark's has another length than its sums are for, as after a power cut; its bytes are not
    read."""
    sums = file.parent / f".{file.name}.crc"
    try:
        size, there = file.stat().st_size, sums.stat().st_size
    except FileNotFoundError:
        return not file.exists()
    return size == 0 or (there > 0 and there != 8 + _SUM * -(-size // STEP))


def damage_of(file: Location) -> str | None:
    """What is wrong with the bytes of a file of Spark's; None where nothing is."""
    try:
        data = store_of(file).read(file)
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if not data:
        return "it is empty"
    sums = file.parent / f".{file.name}.crc"
    if not isinstance(sums, Path) or not sums.exists() or sums.stat().st_size == 0:
        return None
    return None if _fits(data, sums.read_bytes()) else f"its bytes do not match their sums in {sums.name}"


def _fits(data: bytes, sums: bytes) -> bool:
    if sums[:4] != b"crc\0" or len(sums) < 8:
        return False
    step = int.from_bytes(sums[4:8], "big")
    if not step or len(sums) != 8 + _SUM * -(-len(data) // step):
        return False
    parts = (data[at : at + step] for at in range(0, len(data), step))
    return all(zlib.crc32(part).to_bytes(_SUM, "big") == sums[8 + _SUM * n :][:_SUM] for n, part in enumerate(parts))


class SparkHalf:
    """The folder in which Spark keeps its half of one pipeline; each file is looked at once."""

    def __init__(self, folder: Location, reads_state: bool = True):
        self.folder = folder
        self._reads_state = reads_state
        """Whether all bytes of the state are read, or only its files looked at."""
        self._known: dict[str, str | None] = {}

    def numbers(self, log: str) -> list[int]:
        """The entries of a log."""
        place = self.folder / log
        return sorted(int(file.name) for file in store_of(place).files(place) if file.name.isdigit())

    def damage(self, *path: str) -> str | None:
        """What is wrong with a file, its own form apart."""
        name = "/".join(path)
        if name not in self._known:
            file = self._file(name)
            if isinstance(file, Path) and name.startswith("state/") and not self._reads_state:
                self._known[name] = "it is cut short" if is_cut_short(file) else None
            else:
                self._known[name] = damage_of(file)
        return self._known[name]

    def _file(self, name: str) -> Location:
        file = self.folder
        for part in name.split("/"):
            file = file / part
        return file

    def entry(self, log: str, number: int) -> list[Any] | str:
        """An entry of a log, line for line after its version; or what is wrong with it."""
        if (found := self.damage(log, str(number))) is not None:
            return found
        file = self.folder / log / str(number)
        try:
            version, *lines = store_of(file).read(file).decode().splitlines()
            if re.fullmatch(r"v\d+", version) is None or not lines:
                return "it is cut short"
            return [line if line == "-" else json.loads(line) for line in lines]
        except ValueError:
            return "it is not what Spark wrote"

    @cached_property
    def sources(self) -> int:
        """How many sources the streaming query has, as most of its offsets say."""
        counts = [len(entry) for n in self.numbers("offsets") if isinstance(entry := self.entry("offsets", n), list)]
        place = self.folder / "sources"
        return max(counts) - 1 if counts else len(store_of(place).folders(place))

    def damage_of_offset(self, number: int) -> str | None:
        entry = self.entry("offsets", number)
        if isinstance(entry, str):
            return entry
        return None if len(entry) - 1 == self.sources else f"it has {len(entry) - 1} sources of {self.sources}"

    def damage_of_commit(self, number: int) -> str | None:
        entry = self.entry("commits", number)
        return entry if isinstance(entry, str) else None

    def damage_to_go_on(self, batch: int) -> tuple[Location, str] | None:
        """What must be whole so that a micro-batch can run once more: its input, and the state of before."""
        if (wrong := self.damage_of_offset(batch)) is not None:
            return self.folder / "offsets" / str(batch), wrong
        return self.damage_of_lists(batch) or (self.damage_of_end(batch - 1) if batch else None)

    def damage_of_end(self, batch: int) -> tuple[Location, str] | None:
        """What must be whole so that another micro-batch can follow: Spark's commit, and the state that it names."""
        if (wrong := self.damage_of_commit(batch)) is not None:
            return self.folder / "commits" / str(batch), wrong
        return self.damage_of_state(batch)

    # -- lists of files -------------------------------------------------------------------------------------------

    def taken(self, number: int) -> dict[int, int]:
        """For each source of files, the last list that belongs to a micro-batch and those before it."""
        entry = self.entry("offsets", number)
        lines = [] if isinstance(entry, str) else entry[1:]
        return {n: line["logOffset"] for n, line in enumerate(lines) if isinstance(line, dict) and "logOffset" in line}

    def lists(self, source: int) -> dict[int, str]:
        """The lists of a source by number; one that holds all before it counts for them."""
        place = self.folder / "sources" / str(source)
        names = [file.name for file in store_of(place).files(place)]
        return {int(name.split(".")[0]): name for name in sorted(names) if name.split(".")[0].isdigit()}

    def damage_of_lists(self, number: int) -> tuple[Location, str] | None:
        """A list that is needed up to a micro-batch, and what is wrong with it."""
        return next((found for source, last in self.taken(number).items() if (found := self._lost(source, last))), None)

    def _lost(self, source: int, last: int) -> tuple[Location, str] | None:
        """Needed are the last one that holds all before it, and those after it."""
        names = self.lists(source)
        begins = max((n for n, name in names.items() if name.endswith(".compact") and n <= last), default=0)
        for listed in range(begins, last + 1):
            name = names.get(listed, str(listed))
            if (found := self.damage("sources", str(source), name)) is not None:
                return self.folder / "sources" / str(source) / name, found
        return None

    # -- state ----------------------------------------------------------------------------------------------------

    def damage_of_state(self, number: int) -> tuple[Location, str] | None:
        """A file of the state after a micro-batch that is needed to load it, and what is wrong with it."""
        for operator, partition in self._stores(number):
            version = number + 1
            while version > 0 and (state := self._ids(version - 1, operator, partition)) is not None:
                place, wrong = f"state/{operator}/{partition}", None
                if self.damage(place, f"{version}_{state}.zip") is None:
                    break
                if (wrong := self.damage(place, f"{version}_{state}.changelog")) is not None:
                    return self._file(f"{place}/{version}_{state}.changelog"), wrong
                version -= 1
        return None

    def _stores(self, number: int) -> list[tuple[str, int]]:
        entry = self.entry("commits", number)
        ids = {} if isinstance(entry, str) else (entry[0].get("stateUniqueIds") or {})
        return [(operator, n) for operator, of in ids.items() for n in range(len(of))]

    def _ids(self, number: int, operator: str, partition: int) -> str | None:
        """The id of a shard's state after a micro-batch; None where its commit is no more."""
        entry = self.entry("commits", number)
        if isinstance(entry, str):
            return None
        found = (entry[0].get("stateUniqueIds") or {}).get(operator) or []
        return found[partition][0] if partition < len(found) and found[partition] else None

    def other_damage(self) -> list[tuple[Path, str]]:
        """Whole or not: the files of the state that no micro-batch names, as those that say what it looks like."""
        if not isinstance(self.folder, Path):
            return []
        files = [file for file in sorted((self.folder / "state").rglob("*")) if file.is_file() and file.name[0] != "."]
        named = {self._file(name) for name in self._known}
        found = ((file, damage_of(file)) for file in files if file not in named)
        return [(file, wrong) for file, wrong in found if wrong is not None]

    def version_of(self, file: Path) -> int | None:
        """The number of the micro-batch before which a file of the state belongs; None for one about all of it."""
        found = _STATE.match(file.name)
        return None if found is None else int(found[1])
