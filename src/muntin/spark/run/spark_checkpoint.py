"""What Muntin does with Spark's own checkpoint of a streaming query that is not running: read its state, and begin
another one where it ended.

Nothing here writes into a state store: state is written by a micro-batch. Offsets are text, one line for each source.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.core.resharding import OldJoin
from muntin.model import MuntinError
from muntin.spark import processor
from muntin.spark.exchange import decode
from muntin.spark.run.verify import last_number
from muntin.spark.shard import SeedProcessor, Split
from muntin.spark.store import sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = "gid int, frame binary"
SEED = "seed"


def small_states(spark: SparkSession, folder: Path) -> Iterator[tuple[int, bytes]]:
    """The small state of each group."""
    for row in _state(spark, folder, "meta").selectExpr("key.gid AS gid", "value.frame AS frame").collect():
        yield int(row["gid"]), bytes(row["frame"])


def chunks(spark: SparkSession, folder: Path) -> DataFrame:
    """The chunks of all groups: gid, id, frame."""
    columns = "key.gid AS gid", "user_map_key.id AS id", "user_map_value.frame AS frame"
    return _state(spark, folder, "chunks").selectExpr(*columns)


def _state(spark: SparkSession, folder: Path, variable: str) -> DataFrame:
    """A state variable as it was after the last committed micro-batch."""
    return spark.read.format("statestore").option("stateVarName", variable).load(str(folder))


def seed(
    spark: SparkSession,
    old: Path,
    new: Path,
    joins: Mapping[int, OldJoin],
    metas: Sequence[tuple[int, bytes]],
    shards: tuple[int, int],
) -> int:
    """Run the first micro-batch of a checkpoint: it puts the state of another one together, over other shards. How
    many rows have come."""
    place = new / SEED
    place.mkdir(parents=True)
    split = chunks(spark, old).mapInArrow(Split(dict(joins), *shards).run, DDL)
    split.write.parquet(str(place / "parts"))
    columns = [pa.array([gid for gid, _ in metas], pa.int32()), pa.array([frame for _, frame in metas], pa.binary())]
    pq.write_table(pa.table(columns, names=["gid", "frame"]), place / "metas.parquet", row_group_size=16)
    rows: list[int] = []

    def collect(frame: Any, batch: int) -> None:
        if batch:
            raise MuntinError("the state came in several micro-batches")
        rows.extend(decode(row["frame"], "a report").header["moved"] for row in frame.collect())

    spark.conf.set("spark.sql.shuffle.partitions", str(shards[1]))
    source = spark.readStream.format("parquet").option("recursiveFileLookup", "true").schema(DDL)
    seeded = source.load(str(place)).groupBy("gid").transformWithState(SeedProcessor(), processor.DDL, "Append", "None")
    writer = seeded.writeStream.foreachBatch(collect).outputMode("append").option("checkpointLocation", str(new))
    writer.trigger(availableNow=True).start().awaitTermination()
    shutil.rmtree(place)
    return sum(rows)


def carry_offsets(old: Path, new: Path) -> None:
    """Let a checkpoint of one micro-batch go on with the sources of another one, where that has come to.

    The messages of the control stream begin anew: the last source has read none.
    """
    ours, theirs = new / "offsets" / "0", old / "offsets" / str(last_number(old / "commits"))
    head, sources = ours.read_text().splitlines()[:2], theirs.read_text().splitlines()[2:]
    ours.write_text("\n".join([*head, *sources[:-1], "-"]))
    (ours.parent / ".0.crc").unlink(missing_ok=True)
    sync_folder(ours.parent)
    shutil.rmtree(new / "sources")
    (new / "sources").mkdir()
    for number in range(len(sources) - 1):
        if (old / "sources" / str(number)).exists():
            shutil.copytree(old / "sources" / str(number), new / "sources" / str(number))
