"""When each row leaves: lists of (place, slot) in order of place, one *lane* for each age at which rows leave.

Rows of one lane stay equally long, so those that are due are a prefix of it. A lane is a chain of blocks; all lanes
take their blocks from one pool, so that many lanes cost no more than one:

    lanes[lane] = head block, first live entry in it, tail block, entries in the tail, live entries

All memory is in plain arrays (`Times`), so that it can lie in a file. Nothing here allocates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.compiled import inlined, kernel

BLOCK = 128
USED, FREE, FREE_COUNT = 0, 1, 2
"""Where `Times.control` keeps: blocks ever used, chain of free blocks, how many those are."""
HEAD, START, TAIL, END, LIVE = 0, 1, 2, 3, 4


class Times(NamedTuple):
    control: Int64s
    lanes: Int64s
    after: Int32s
    """The block after each block."""
    at: Int64s
    homes: Int32s


def times_layout(lanes: int, blocks: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of a pool, in the order of `Times`."""
    return [
        ((3,), "int64"),
        ((lanes, 5), "int64"),
        ((blocks,), "int32"),
        ((blocks, BLOCK), "int64"),
        ((blocks, BLOCK), "int32"),
    ]


def clear_times(times: Times) -> None:
    """Make zeroed arrays lists without entries."""
    times.control[FREE] = -1
    times.lanes[:, HEAD] = -1


def spare_blocks(times: Times) -> int:
    return len(times.after) - int(times.control[USED]) + int(times.control[FREE_COUNT])


@kernel
def _next_block(control, lanes, after, lane):
    """Give a lane a fresh tail block; the pool must have one to spare."""
    block = control[FREE]
    if block >= 0:
        control[FREE] = after[block]
        control[FREE_COUNT] -= 1
    else:
        block = control[USED]
        control[USED] += 1
    after[block] = -1
    if lanes[lane, HEAD] < 0:
        lanes[lane, HEAD], lanes[lane, START] = block, 0
    else:
        after[lanes[lane, TAIL]] = block
    lanes[lane, TAIL], lanes[lane, END] = block, 0


@kernel
def append_listed(times, lanes_of, places, slots):
    """List entries that are in order of place within each lane; the pool must have room."""
    control, lanes, after, at, homes = times
    for n in range(len(places)):
        lane = lanes_of[n]
        if lanes[lane, END] == BLOCK or lanes[lane, HEAD] < 0:
            _next_block(control, lanes, after, lane)
        end, block = lanes[lane, END], lanes[lane, TAIL]
        at[block, end], homes[block, end] = places[n], slots[n]
        lanes[lane, END] = end + 1
        lanes[lane, LIVE] += 1


@inlined
def due(lanes, at, lane, until):
    """How many entries at the head of a lane, within its first block, have a place up to `until`."""
    block = lanes[lane, HEAD]
    if block < 0:
        return 0
    start = lanes[lane, START]
    end = lanes[lane, END] if block == lanes[lane, TAIL] else BLOCK
    n = start
    while n < end and at[block, n] <= until:
        n += 1
    return n - start


@inlined
def pop(control, lanes, after, lane, count):
    """Take `count` entries of the first block away."""
    lanes[lane, START] += count
    lanes[lane, LIVE] -= count
    block = lanes[lane, HEAD]
    end = lanes[lane, END] if block == lanes[lane, TAIL] else BLOCK
    if lanes[lane, START] == end:
        lanes[lane, HEAD] = after[block] if block != lanes[lane, TAIL] else -1
        lanes[lane, START] = 0
        after[block] = control[FREE]
        control[FREE] = block
        control[FREE_COUNT] += 1


def relabel_times(old: Times, new: Times, becomes: Mapping[int, int]) -> None:
    """Copy a pool into an empty one of the same size whose lanes are numbered otherwise; lanes left out are empty."""
    new.control[:], new.after[:], new.at[:], new.homes[:] = old.control, old.after, old.at, old.homes
    for was, lane in becomes.items():
        new.lanes[lane] = old.lanes[was]


def grow_times(old: Times, new: Times) -> None:
    """Copy a pool into a larger empty one; blocks keep their numbers."""
    arrays: list[tuple[Int64s | Int32s, Int64s | Int32s]] = list(zip(old, new, strict=True))
    for was, becomes in arrays:
        becomes[: len(was)] = was


def pack_times(old: Times, new: Times) -> None:
    """Copy all lanes into an empty pool of another size, tightly."""
    listed = int(old.lanes[:, LIVE].sum())
    lanes_of, places, slots = np.zeros(listed, np.int64), np.zeros(listed, np.int64), np.zeros(listed, np.int32)
    _list(old, lanes_of, places, slots)
    append_listed(new, lanes_of, places, slots)


@kernel
def _list(times, lanes_of, places, slots):
    """All entries, lane after lane."""
    _, lanes, after, at, homes = times
    listed = 0
    for lane in range(len(lanes)):
        block, n = lanes[lane, HEAD], lanes[lane, START]
        while block >= 0:
            last = block == lanes[lane, TAIL]
            end = lanes[lane, END] if last else BLOCK
            while n < end:
                lanes_of[listed], places[listed], slots[listed] = lane, at[block, n], homes[block, n]
                listed += 1
                n += 1
            block, n = (np.int64(-1) if last else np.int64(after[block])), 0


@kernel
def ages(times, first, last, now, ends, counts):
    """Add up the entries of lanes `first` to `last` by age: `counts[i]` those from `ends[i - 1]` up to below `ends[i]`.

    A block that lies in one slice counts as a whole.
    """
    _control, lanes, after, at, _homes = times
    for lane in range(first, last):
        block, n = lanes[lane, HEAD], lanes[lane, START]
        band = len(ends) - 1
        while block >= 0:
            tail = block == lanes[lane, TAIL]
            end = lanes[lane, END] if tail else BLOCK
            while n < end:
                while band > 0 and now - at[block, n] < ends[band - 1]:
                    band -= 1
                if band == 0 or now - at[block, end - 1] >= ends[band - 1]:
                    counts[band] += end - n
                    n = end
                else:
                    counts[band] += 1
                    n += 1
            block, n = (np.int64(-1) if tail else np.int64(after[block])), 0
