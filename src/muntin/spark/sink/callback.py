"""A callable of the user's gets the rows as Arrow tables: `Job.start(sink=...)`, at least once."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa

from muntin.core.storage import read_table
from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint import BatchOutcome
from muntin.spark.sink.counting import NONE
from muntin.spark.sink.sink import OutputRequest, SendTables, Sink, Stager

BATCH_BITS = 40
"""The callable gets the pipeline's number above these bits of the batch's, so that no number comes twice."""


class CallbackSink(Sink):
    name = "callable"
    spelling = "sink=CALLABLE"
    noun = "a callable"
    summary = "only from Python: sink(query, table, batch_id) gets Arrow tables"
    exactly_once = False
    on_command_line = False

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        if request.output not in (None, NONE):
            raise UsageError("rows go either to an output or to a sink, not to both")
        assert request.callback is not None
        self._callback = request.callback
        self._calling = threading.Lock()
        """One for all pipelines: the callable is called by one at a time."""

    @classmethod
    def takes(cls, request: OutputRequest) -> bool:
        return request.callback is not None

    @property
    def description(self) -> str:
        return "a sink"

    def default_checkpoint(self) -> str | Path | None:
        raise UsageError("a run with a sink needs a checkpoint", hint="start(sink=..., checkpoint='...')")

    def stager(self, batch: int) -> Stager:
        return SendTables()

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        with self._calling:
            try:
                self._callback(name, table, self.pipeline << BATCH_BITS | batch)
            except BaseException as error:  # Spark waits for ever for a thread that is left with no ordinary exception
                ordinary = "a run with the same checkpoint hands the micro-batch over once more"
                leaving = "a sink stops the run with an ordinary exception; run.stop() stops it from another thread"
                raise MuntinError(
                    f"the sink raised {type(error).__name__}{f' ({error})' if str(error) else ''} with rows of {name}",
                    hint=ordinary if isinstance(error, Exception) else leaving,
                ) from error

    def hand_over(self, done: BatchOutcome) -> None:
        for staged in sorted(done.staged, key=lambda staged: (staged.name, staged.part)):
            self.deliver(staged.name, read_table(staged.table or b""), done.batch)
