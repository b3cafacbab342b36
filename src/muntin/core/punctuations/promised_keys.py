"""The keys that one side of a join has promised not to send, each with from when and until when."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.core.arrivals import FOREVER
from muntin.core.storage import Memory
from muntin.kernels.promises import NONE, TP, UNTIL, Table, carry_over, clear_table, table_layout


@dataclass(frozen=True)
class PromisedKeysImage:
    """What another process needs, beside the memory, to go on with a table of keys."""

    name: str
    room: int
    sweep_at: int


class PromisedKeys:
    """A hash table that is made anew for what still binds: when it is full, and after half a binding time."""

    def __init__(self, memory: Memory, image: PromisedKeysImage | None = None):
        self._memory = memory
        self._name = image.name if image else memory.name("promises")
        self._room = image.room if image else 1
        self._sweep_at = image.sweep_at if image else -FOREVER
        layout = table_layout(self._room)
        self.table = Table(*(memory.arrays(self._name, layout) if image else memory.allocate(self._name, layout)))
        if image is None:
            clear_table(self.table)

    @property
    def image(self) -> PromisedKeysImage:
        return PromisedKeysImage(self._name, self._room, self._sweep_at)

    def __len__(self) -> int:
        """Promises that are remembered."""
        return int(self.table.used[0])

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.table)

    def reserve(self, more: int, now: int, binding_us: int) -> None:
        """Make room for so many promises; what has lapsed goes first."""
        if 2 * (len(self) + more) > len(self.table.keys):
            self._rebuild(more, now, binding_us)

    def sweep(self, now: int, binding_us: int) -> None:
        """Let go of what has lapsed, if that is due."""
        if now >= self._sweep_at and len(self):
            self._rebuild(0, now, binding_us)

    def _rebuild(self, more: int, now: int, binding_us: int) -> None:
        """Copy what still binds into a table that fits it: each promise is copied a bounded number of times."""
        old, name = self.table, self._name
        lasting = int(((old.info[:, TP] != NONE) & (old.info[:, UNTIL] >= now)).sum())
        self._room = lasting + max(more, lasting // 2, 1)
        self._name = self._memory.name("promises")
        self.table = Table(*self._memory.allocate(self._name, table_layout(self._room)))
        clear_table(self.table)
        carry_over(old, self.table, now)
        self._memory.discard(name)
        self._sweep_at = now + max(1, binding_us // 2)
