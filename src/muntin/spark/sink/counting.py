"""`--output none`: rows are counted and discarded, for measuring."""

from __future__ import annotations

import pyarrow as pa

from muntin.model import Query, UsageError
from muntin.spark.sink.sink import OutputRequest, Sink

NONE = "none"


class CountingSink(Sink):
    """Results are counted where they are found, unless the tasks make the rows of a query."""

    name = "counting"
    spelling = NONE
    noun = "nowhere"
    summary = "count the rows and discard them, for measuring"
    exactly_once = True
    layouts = ("queries", "sliced")

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        self.counts_in_shards = not request.makes_rows

    @classmethod
    def takes(cls, request: OutputRequest) -> bool:
        return request.output in (None, NONE)

    def check(self, query: Query) -> None:
        what = "has aggregates" if query.aggregation else "asks for rows since a time" if query.since_us else None
        if self.counts_in_shards and what is not None:
            message = f"{query.name} {what}, and this run only counts rows where they are found"
            raise UsageError(message, hint="run the job with an output folder, or with this query in the job file")

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        pass
