"""How things look: tables on stdout, progress on stderr, the same words on a terminal and in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 120


def console(stderr: bool = False) -> Console:
    """A console that neither guesses colours for numbers nor folds lines for a pipe that has no width."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else PIPED_WIDTH)


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
    """One line that moves on a terminal, a line per micro-batch elsewhere; on stderr, so that stdout stays clean."""

    def __init__(self) -> None:
        self.console = console(stderr=True)
        self.live = Live(console=self.console, transient=True, refresh_per_second=4)
        self.began = time.monotonic()
        self.last = (0.0, 0)
        self.batches = -1

    def __enter__(self) -> ProgressLine:
        if self.console.is_terminal:
            self.live.start()
        self.say("starting Spark")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def __call__(self, status: dict[str, Any]) -> None:
        if status["batches"] != self.batches:
            self.batches = status["batches"]
            self.say(self.line(status))

    def say(self, line: str) -> None:
        if self.console.is_terminal:
            self.live.update(Text(line, style="dim"))
        else:
            self.console.print(line, markup=False)

    def line(self, status: dict[str, Any]) -> str:
        now, read = time.monotonic() - self.began, rows_in(status)
        rate = (read - self.last[1]) / max(now - self.last[0], 1e-6)
        self.last = now, read
        return (
            f"{now:6.1f} s  micro-batch {status['batches']}: {read:,} rows in ({rate:,.0f} rows/s), "
            f"{rows_out(status):,} rows out"
        )


def rows_in(status: dict[str, Any]) -> int:
    """Rows read from the streams; what steers the job (`_control`) is no stream."""
    return sum(source["total_rows"] for name, source in status["sources"].items() if not name.startswith("_"))


def rows_out(status: dict[str, Any]) -> int:
    """Rows delivered, those of queries that have gone since included."""
    dropped = status.get("dropped", {}).get("total_rows", 0)
    return dropped + sum(query["total_rows"] for query in status["queries"].values())
