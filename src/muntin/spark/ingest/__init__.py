"""The way in: from a stream's source to frames for the shards.

`sources` makes streaming DataFrames of streams, `own_columns` chooses from the columns that a source brings. `packing`
turns the rows of an input partition into one frame for each (join, side, shard). `arrival` says when rows have come to
their source. `dead_letters` makes the tables of rows that were turned away.
"""

from muntin.spark.ingest import dead_letters, packing, sources
from muntin.spark.ingest.arrival import with_arrival
from muntin.spark.ingest.dead_letters import event_time, iso
from muntin.spark.ingest.own_columns import choose_columns
from muntin.spark.ingest.packing import Packed, as_batches
from muntin.spark.ingest.sources import FILE_FORMATS, with_sources

__all__ = [
    "FILE_FORMATS",
    "Packed",
    "as_batches",
    "choose_columns",
    "dead_letters",
    "event_time",
    "iso",
    "packing",
    "sources",
    "with_arrival",
    "with_sources",
]
