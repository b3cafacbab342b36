"""The status of a run as Python has it: the JSON of `muntin status`, and a picture in a notebook."""

from __future__ import annotations

from typing import Any

from muntin.model.records import to_json
from muntin.page import framed, plan_document
from muntin.spark.run.picture import plans_in_force
from muntin.spark.run.status import JobStatus
from muntin.spark.store import Location


class StatusReport(dict[str, Any]):
    """The status of a job. It is what `muntin status --json` shows; a notebook shows the picture of the plan in force,
    with what has been measured."""

    def __init__(self, record: JobStatus, checkpoint: Location):
        super().__init__(to_json(record))
        self.record = record
        self._checkpoint = checkpoint

    @property
    def text(self) -> str:
        """The state of the job and the rows of each query, in a few lines."""
        job = self.record
        read = ", ".join(f"{source.total_rows:,} rows of {name}" for name, source in job.streams_read.items())
        width = max((len(name) for name in job.queries), default=0)
        lines = [f"{job.state} ({job.mode}), micro-batch {job.batch}, plan {job.epoch}: read {read or 'nothing'}"]
        lines += [f"  {name:<{width}}  {query.total_rows:>12,} rows" for name, query in job.queries.items()]
        return "\n".join(lines + ([job.error] if job.error else []))

    def _repr_html_(self) -> str:
        return framed(plan_document(plans_in_force(self._checkpoint), "The job", self.text, dict(self)))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)
