"""How things look: tables on stdout, progress on stderr, the same words on a terminal and in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from muntin.model import Stream

if TYPE_CHECKING:
    from muntin.spark.run import JobStatus, StatusReport

PIPED_WIDTH = 120
MANY_LATE, MUCH_LATE = 100, 0.01
"""Late rows, and their share of all, from which on somebody should look."""


class Screen(Console):
    """Where the reader of a pipe has gone, progress goes on in silence, and a command that answers ends (`main`)."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        if not self.stderr:
            raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """A console that neither guesses colours for numbers nor folds lines for a pipe that has no width."""
    stream = sys.stderr if stderr else sys.stdout
    return Screen(stderr=stderr, highlight=False, width=None if stream.isatty() else PIPED_WIDTH)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """Numbers to the right, with separators; everything else to the left."""
    rows = [list(row) for row in rows]
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for n, name in enumerate(header):
        numeric = bool(rows) and all(isinstance(row[n], int | float) or row[n] is None for row in rows)
        made.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for row in rows:
        made.add_row(*(shown(value) for value in row))
    return made


def shown(value: Any) -> Text:
    """Text that is printed as it is: a value with brackets in it is not markup."""
    if value is None:
        return Text("")
    if isinstance(value, bool | str):
        return Text(str(value))
    return Text(f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if isinstance(value, float) else str(value))


class ProgressLine:
    """One line that moves on a terminal, a line per micro-batch elsewhere; on stderr, so that stdout stays clean.

    `quiet` leaves warnings alone.
    """

    def __init__(self, quiet: bool = False, streams: Collection[Stream] = ()) -> None:
        self.console = console(stderr=True)
        self.quiet = quiet
        self.live = Live(console=self.console, transient=True, refresh_per_second=4)
        self.began = time.monotonic()
        self.rows_before = 0
        """What runs before this one have read."""
        self._job_began = 0.0
        self._last: tuple[float, int] | None = None
        """When the line before was made, and the rows by then."""
        self._batches = -1
        self._late = LateRows(streams)
        self._ahead: set[str] = set()
        """Streams of which it was said that they are ahead of the clock."""
        self._gone: set[str] = set()
        """Files of which it was said that they are gone."""

    def __enter__(self) -> ProgressLine:
        if self.console.is_terminal and not self.quiet:
            self.live.start()
        self.say("starting Spark")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    @property
    def seconds(self) -> float:
        """Since the beginning, with the start of Spark."""
        return time.monotonic() - self.began

    def job_starts(self) -> None:
        """Spark is there; the first micro-batch is still to come."""
        self._job_began = self.seconds
        self.say("starting the job")

    def __call__(self, report: StatusReport) -> None:
        status = report.record
        if status.batches == self._batches:
            return
        if self._batches < 0:  # a run that goes on counts from where it was
            self.rows_before = status.rows_in - sum(source.rows for source in status.streams_read.values())
            self._last = self._job_began, self.rows_before
        self._batches = status.batches
        self.say(self.line(status))
        if (warning := self._late.warning(status)) is not None:
            self.note(warning, important=True)
        self._warn_once(status)

    def _warn_once(self, status: JobStatus) -> None:
        """Say once of each stream that it has met a row of a time that is far ahead of the clock, and once of each
        file that it is gone."""
        from muntin.cli.status import ahead_of_clock, files_gone, too_early

        for line in (*too_early(status, self._ahead), *files_gone(status, self._gone)):
            self.note(line, important=True)
        self._ahead |= ahead_of_clock(status).keys()
        self._gone |= {file for source in status.sources.values() for file in source.vanished or ()}

    def say(self, line: str) -> None:
        """What is going on; it goes with the next line where it can."""
        if self.quiet:
            return
        if self.console.is_terminal:
            self.live.update(Spinner("dots", Text(line, style="dim")))
        else:
            self.console.print(line, markup=False)

    def note(self, line: str, important: bool = False) -> None:
        """What has happened; it stays."""
        if important or not self.quiet:
            self.console.print(line, markup=False, soft_wrap=True)

    def line(self, status: JobStatus) -> str:
        now, read = self.seconds, status.rows_in
        then, before = self._last or (0.0, 0)
        rate = (read - before) / max(now - then, 1e-6)
        self._last = now, read
        return (
            f"{now:6.1f} s  micro-batch {status.batches}: {read:,} rows in ({rate:,.0f} rows/s), "
            f"{status.rows_out:,} rows out"
        )


class LateRows:
    """Says once that many rows come late, and why that may be."""

    def __init__(self, streams: Collection[Stream]) -> None:
        self._streams = streams
        self._has_warned = False

    def warning(self, status: JobStatus) -> str | None:
        late, read = status.dead_letters.get("late", 0), status.rows_in
        if self._has_warned or late < MANY_LATE or late < MUCH_LATE * read:
            return None
        self._has_warned = True
        from muntin.spark.ingest import sources

        said = f"warning: {late:,} of {read:,} rows came too late and are dead letters; "
        misplaced = next(filter(None, map(sources.misplaced_file, self._streams)), None)
        if misplaced is None:
            return said + (
                "if they are wanted, raise LATENESS in CREATE STREAM, and start with a new checkpoint. Where one row "
                "was far ahead of all others, SET max_ahead = '1 hour' turns such rows away"
            )
        return said + (
            f"files are read by modification time, not by name, and {misplaced}. Touch the files in order, or raise "
            "LATENESS in CREATE STREAM, and start with a new checkpoint"
        )
