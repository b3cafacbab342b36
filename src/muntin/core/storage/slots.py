"""Keys of 128 bits by number (`kernels.slots`), in arrays that grow."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from muntin.core.storage.memory import Layout
from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.hash_table import table_size
from muntin.kernels.slots import CONTROLS, FREE, LIVE, USED, Slots, fill_table, find_slots


def slot_layout(room: int) -> Layout:
    """Shapes and types of slots with room for so many keys, in the order of `Slots`."""
    table = table_size(room)
    return [((CONTROLS,), "int64"), ((table,), "int32"), ((room, 2), "int64"), ((room,), "int64"), ((room,), "int64")]


class Slotted(ABC):
    """Whatever is kept by slots."""

    slots: Slots

    def _clear(self) -> None:
        """Make zeroed arrays slots without keys."""
        self.slots.control[FREE] = -1
        self.slots.table[:] = -1

    def _carry_over(self, old: Slots) -> None:
        """Take over the keys of slots with less room."""
        for was, now in zip(old[2:], self.slots[2:], strict=True):
            now[: len(was)] = was
        self.slots.control[:], self.slots.table[:] = old.control, -1
        fill_table(self.slots, old.table[old.table >= 0])

    @abstractmethod
    def _grow(self) -> None:
        """Make room for as many keys again."""

    @property
    def live(self) -> int:
        """Keys that there are."""
        return int(self.slots.control[LIVE])

    @property
    def opened(self) -> Int64s:
        """The slots in use."""
        return np.flatnonzero(self.slots.refs[: int(self.slots.control[USED])] > 0)

    def _find(self, h1: Int64s, h2: Int64s) -> tuple[Int32s, Int64s]:
        """The slot of each key, and the places of the keys that are new, the first of each."""
        found, born = np.zeros(len(h1), np.int32), np.zeros(len(h1), np.int64)
        done, new = find_slots(self.slots, h1, h2, 0, found, born)
        while done < len(h1):
            self._grow()
            done, more = find_slots(self.slots, h1, h2, done, found, born[new:])
            new += more
        return found, born[:new]
