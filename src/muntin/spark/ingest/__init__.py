"""Sources, and the rows of an input partition packed for the shards; dead letters."""

from muntin.spark.ingest import dead_letters, packing, sources
from muntin.spark.ingest.dead_letters import event_time, iso
from muntin.spark.ingest.packing import Packed, as_batches
from muntin.spark.ingest.sources import FILE_FORMATS

__all__ = ["FILE_FORMATS", "Packed", "as_batches", "dead_letters", "event_time", "iso", "packing", "sources"]
