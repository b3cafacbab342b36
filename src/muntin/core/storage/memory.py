"""Where the operator's large arrays and tables live: on the heap, or wherever a `Memory` of the shell puts them.

The operator names what it keeps and gives it back by name; it never assumes that the bytes are its own process's. A
memory in files makes the state survive the process (spark/shard/hot_state.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import AnyArray

Layout = Sequence[tuple[tuple[int, ...], str]]
"""Shapes and numpy type names of arrays that are kept together."""
Arrays = list[AnyArray]


class Memory(Protocol):
    """Arrays and tables by name. A name is used once: what grows moves to a new name."""

    def name(self, what: str) -> str:
        """A name not used before."""

    def allocate(self, name: str, layout: Layout) -> Arrays:
        """Zeroed arrays."""

    def arrays(self, name: str, layout: Layout) -> Arrays:
        """The arrays allocated before, perhaps by another process."""

    def keep(self, name: str, table: pa.Table) -> pa.Table:
        """The same table, kept."""

    def table(self, name: str) -> pa.Table:
        """A table kept before, perhaps by another process."""

    def discard(self, name: str) -> None: ...


@dataclass(frozen=True)
class SidesImage:
    """An array of each side, kept together under one name, with the length of each."""

    name: str
    sizes: list[int]


class Stored:
    """Arrays of the same length that are kept together in a memory."""

    def __init__(self, memory: Memory, name: str, arrays: Arrays):
        self._memory = memory
        self._name = name
        self._arrays = arrays

    @classmethod
    def keep(cls, memory: Memory, arrays: Sequence[AnyArray]) -> Self:
        """Copy arrays."""
        name = memory.name(cls.__name__.lower())
        kept = memory.allocate(name, [(a.shape, a.dtype.name) for a in arrays])
        for target, values in zip(kept, arrays, strict=True):
            target[:] = values
        return cls(memory, name, kept)

    @classmethod
    def open(cls, memory: Memory, image: Sequence[Any], columns: Layout) -> Self:
        """Those of an image; `columns` are the shapes and types of one row."""
        name, rows, *more = image
        return cls(memory, name, memory.arrays(name, [((rows, *shape), kind) for shape, kind in columns]), *more)

    @property
    def image(self) -> tuple[Any, ...]:
        """What another process needs, beside the memory, to go on with them: their name and how many rows they have."""
        return self._name, len(self._arrays[0])

    def __len__(self) -> int:
        return len(self._arrays[0])

    @property
    def arrays(self) -> Arrays:
        return self._arrays

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self._arrays)

    def discard(self) -> None:
        self._memory.discard(self._name)


def flat(*kinds: str) -> Layout:
    """Columns of single values, by their types."""
    return [((), kind) for kind in kinds]


def kept_anew(memory: Memory, what: str, name: str | None, table: pa.Table) -> tuple[str | None, pa.Table]:
    """A small table that was kept under `name`, if under any, and has changed: kept again, if it has rows."""
    if name is not None:
        table = table.take(pa.array(range(table.num_rows), pa.int64()))  # off the file
        memory.discard(name)
    if not table.num_rows:
        return None, table
    name = memory.name(what)
    return name, memory.keep(name, table.combine_chunks())


class Heap:
    """Memory of this process: nothing survives it."""

    def __init__(self) -> None:
        self._count = 0

    def name(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"

    def allocate(self, name: str, layout: Layout) -> Arrays:
        return [_aligned(shape, kind) for shape, kind in layout]

    def arrays(self, name: str, layout: Layout) -> Arrays:
        raise KeyError(name)

    def keep(self, name: str, table: pa.Table) -> pa.Table:
        return table

    def table(self, name: str) -> pa.Table:
        raise KeyError(name)

    def discard(self, name: str) -> None:
        pass


def _aligned(shape: tuple[int, ...], kind: str) -> AnyArray:
    """Zeros that begin with a cache line."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    octets = np.zeros(size + 64, np.uint8)
    start = -octets.ctypes.data % 64
    return octets[start : start + size].view(kind).reshape(shape)
