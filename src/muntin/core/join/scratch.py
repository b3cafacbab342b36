"""Room for pairs, used again and again: fresh memory costs a page fault for each page. One user at a time."""

from __future__ import annotations

from muntin.kernels.join import Pairs, empty_pairs

_SCRATCH: list[Pairs] = []


def scratch(room: int) -> Pairs:
    """Room for so many pairs at least."""
    if not _SCRATCH or len(_SCRATCH[0].ts) < room:
        _SCRATCH[:] = [empty_pairs(room)]
    return _SCRATCH[0]


def fresh_scratch(room: int) -> Pairs:
    """Room for so many pairs; what the room before has, stays."""
    _SCRATCH[:] = [empty_pairs(room)]
    return _SCRATCH[0]
