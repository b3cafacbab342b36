"""Where a shard keeps its arrays, its tables and its durable chunks.

`Memory` hands out named arrays and tables; the heap is one, files of the shell are another.
`StoredRows` are the rows of a side by number, and `TimeQueue` is what waits in time order.
`ChunkLog` names the immutable chunks that must be durable, and says when each can go.
Nothing here knows what a join is.
"""

from muntin.core.storage.arrow_bytes import Payload, pack, read_table, table_bytes, unpack
from muntin.core.storage.chunks import Chunk, ChunkKind, ChunkLog
from muntin.core.storage.memory import Arrays, Heap, Layout, Memory, SidesImage, Stored, flat, kept_anew
from muntin.core.storage.merging import first_to_merge
from muntin.core.storage.slots import Slotted, slot_layout
from muntin.core.storage.stored_rows import RANGE_BITS, RANGES, StoredRows, TableImage, distinct, with_columns
from muntin.core.storage.time_queues import QueueImage, TimeQueue, leave_all, pass_all, take_all
from muntin.core.storage.time_runs import TimeRuns

__all__ = [
    "RANGES",
    "RANGE_BITS",
    "Arrays",
    "Chunk",
    "ChunkKind",
    "ChunkLog",
    "Heap",
    "Layout",
    "Memory",
    "Payload",
    "QueueImage",
    "SidesImage",
    "Slotted",
    "Stored",
    "StoredRows",
    "TableImage",
    "TimeQueue",
    "TimeRuns",
    "distinct",
    "first_to_merge",
    "flat",
    "kept_anew",
    "leave_all",
    "pack",
    "pass_all",
    "read_table",
    "slot_layout",
    "table_bytes",
    "take_all",
    "unpack",
    "with_columns",
]
