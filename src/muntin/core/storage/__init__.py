"""Where a shard keeps things: arrays and tables in memory, and the durable log of immutable chunks."""

from muntin.core.storage.arrow_bytes import Payload, pack, read_table, table_bytes, unpack
from muntin.core.storage.chunks import ChunkKind, ChunkLog
from muntin.core.storage.memory import Arrays, Heap, Layout, Memory, Stored, flat
from muntin.core.storage.merging import first_to_merge
from muntin.core.storage.slots import Slotted, slot_layout
from muntin.core.storage.stored_rows import RANGE_BITS, RANGES, StoredRows, distinct
from muntin.core.storage.time_runs import TimeRun, leave_all, pass_all, take_all

__all__ = [
    "RANGES",
    "RANGE_BITS",
    "Arrays",
    "ChunkKind",
    "ChunkLog",
    "Heap",
    "Layout",
    "Memory",
    "Payload",
    "Slotted",
    "Stored",
    "StoredRows",
    "TimeRun",
    "distinct",
    "first_to_merge",
    "flat",
    "leave_all",
    "pack",
    "pass_all",
    "read_table",
    "slot_layout",
    "table_bytes",
    "take_all",
    "unpack",
]
