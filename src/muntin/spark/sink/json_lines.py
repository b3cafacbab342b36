"""Lines of JSON in files, written as rows come and exactly once: `--output DIR` with eager delivery.

A file `<query>/b<batch>.jsonl` belongs to one micro-batch; the files of one that was not committed are written anew.
Rows of aggregates, dead letters and punctuations come with the commit, as Parquet.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa

from muntin.formats import json_lines
from muntin.model import Settings
from muntin.plan import Plan
from muntin.spark.checkpoint import BatchOutcome, Publisher
from muntin.spark.sink.parquet import ParquetFolders, beside_rows, rows_of
from muntin.spark.store import crash_points

SUFFIX = ".jsonl"


class JsonLines(ParquetFolders):
    name = "json lines"
    noun = "files of JSON lines"
    summary = "with SET delivery = 'eager': lines of JSON in DIR/<query>/, written as rows come"
    takes_batches = False
    takes_eager = True
    _open: dict[str, BinaryIO]

    def schemas(self, plan: Plan, settings: Settings) -> dict[str, pa.Schema]:
        """Lines of JSON have no schema; aggregates are not among them."""
        summed = {name for name, query in plan.queries.items() if query.aggregation is not None}
        return {n: s for n, s in rows_of(plan, None).items() if n in summed} | beside_rows(plan, settings)

    def attached(self, pipeline: int, publisher: Publisher) -> Self:
        mine = super().attached(pipeline, publisher)
        mine._open = {}
        return mine

    def begin(self) -> None:
        prefix = self.publisher.prefix
        for file in self.folder.glob(f"*/{prefix}*{SUFFIX}"):
            number = file.stem.removeprefix(prefix)
            if number.isdigit() and not self.publisher.is_committed(int(number)):
                file.unlink()

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        if name not in self._open:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            self._open[name] = (self.folder / name / f"{self.publisher.prefix}{batch:010d}{SUFFIX}").open("wb")
        with crash_points.durable("rows delivered"):
            self._open[name].write(json_lines(table))
            self._open[name].flush()

    def hand_over(self, done: BatchOutcome) -> None:
        done.written += [str(Path(file.name).relative_to(self.folder)) for file in self._open.values()]
        self.close()

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
