"""Results that one shard has delivered and another has not come to, where work spans micro-batches.

With `output_order = 'global'` a row waits until all shards that feed its query have come to its time. Where a shard has
left work to the next micro-batch, rows of the others wait for longer than theirs, whose state is committed: so they
are kept in a file beside the manifests, one for each micro-batch that ends with some, before its manifest is written.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from muntin.core.storage import pack, read_table, table_bytes, unpack
from muntin.spark.checkpoint import FOLDER, DamageError
from muntin.spark.exchange import FrameError, FrameKind, decode, encode
from muntin.spark.store import Location, crash_points, store_of

Source = tuple[int, int]
"""A join and a shard."""
Held = Mapping[str, Mapping[Source, list[pa.Table]]]
"""For each query and shard the rows that wait, in order of time."""


class HeldResults:
    """The files of one pipeline."""

    def __init__(self, checkpoint: Location):
        self._folder = checkpoint / FOLDER / "held"

    def keep(self, batch: int, held: Held) -> int:
        """Keep what waits after a micro-batch; how many rows that are. What an older one has kept is given back."""
        named = [(query, source, pa.concat_tables(t)) for query, of in held.items() for source, t in of.items() if t]
        rows = sum(table.num_rows for _, _, table in named)
        if rows:
            header = {"batch": batch, "tables": [[query, *source] for query, source, _ in named]}
            data = encode(FrameKind.DELIVERY, header, pack([table_bytes(table) for _, _, table in named]))
            with crash_points.durable("held results"):
                store_of(self._folder).put(self._file(batch), data)
        for old in store_of(self._folder).files(self._folder):
            if int(old.stem) < batch - 1 or (not rows and int(old.stem) == batch):
                store_of(old).remove(old)
        return rows

    def load(self, batch: int, rows: int | None = None) -> dict[str, dict[Source, list[pa.Table]]]:
        """What waits after a micro-batch; `rows` is how many there must be, where that is known."""
        file, found = self._file(batch), dict[str, dict[Source, list[pa.Table]]]()
        if store_of(file).exists(file):
            try:
                frame = decode(store_of(file).read(file), str(file))
            except FrameError as error:
                raise _damaged(file, "is damaged") from error
            if frame.header["batch"] != batch:
                raise _damaged(file, f"is that of micro-batch {frame.header['batch']}")
            names = frame.header["tables"]
            for (query, join, shard), data in zip(names, unpack(frame.payload, len(names)), strict=True):
                found.setdefault(query, {})[(join, shard)] = [read_table(data)]
        there = sum(table.num_rows for of in found.values() for tables in of.values() for table in tables)
        if rows is not None and rows != there:
            raise _damaged(file, f"has {there} rows instead of {rows}" if there else "is missing")
        return found

    def _file(self, batch: int) -> Location:
        return self._folder / f"{batch:010d}.frame"


def _damaged(file: Location, what: str) -> DamageError:
    hint = "restore the checkpoint from a back-up, or start with another --checkpoint and --output"
    return DamageError(f"{file}, rows on their way to the output, {what}", hint=hint)
