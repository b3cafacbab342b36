"""A micro-batch that is too large for the machine is refused while it comes, before the kernel ends a process for it.

What a micro-batch brings to a shard is in memory as frames, as rows, sorted, in chunks and in the index: about twelve
times the bytes of its frames, measured with rows of four numbers. As many shards are at work as there are cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from muntin.core.policy import LimitError

COPIES = 16
"""How many times the bytes of its frames a micro-batch may take, with something to spare for the state."""
CGROUP = Path("/sys/fs/cgroup/memory.max")


def taken(frames: Iterable[bytes], limit: int | None) -> list[bytes]:
    """The frames of a micro-batch, as long as they are not more than `limit` bytes, or what the machine bears."""
    most, size = limit or machine_limit(), 0
    found = []
    for frame in frames:
        size += len(frame)
        if size > most:
            raise LimitError(
                f"a micro-batch brings more than {most:,} bytes to one shard, "
                + ("its share of batch_limit" if limit else "more than this machine can join at once"),
                hint="raise SET batch_limit, or take a machine with more memory, and run the job again: nothing is "
                "lost. To cut what comes into smaller micro-batches, write maxBytesPerTrigger = '256m' or "
                "maxFilesPerTrigger in the WITH of the stream, and begin with a new checkpoint",
            )
        found.append(frame)
    return found


@cache
def machine_limit() -> int:
    """What a micro-batch may bring to a shard on this machine where the job does not say."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        text = CGROUP.read_text().strip()
        memory = min(memory, int(text)) if text.isdecimal() else memory
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return memory // (COPIES * cores)
