"""`muntin top`: the numbers of the page in a terminal, again and again."""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from muntin.cli.checkpoint import a_checkpoint
from muntin.model import UsageError

if TYPE_CHECKING:
    from rich.console import Group

    from muntin.spark.run import JobStatus, JoinStatus
    from muntin.web.live import LiveJob

SUMMARY = "watch a job in a terminal: rates, slices as bars, what waits, dead letters"
EXAMPLE = """\
examples:
  muntin top --checkpoint ckpt
  muntin top --checkpoint ckpt --once > now.txt

Ctrl-C ends it; the job does not notice. It works over ssh."""
BAR = 30
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEAST_LINES = 6


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=a_checkpoint, required=True, metavar="DIR", help="that of the job")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="how often to look (%(default)g)")
    parser.add_argument("--once", action="store_true", help="show it once and end")


def execute(args: argparse.Namespace) -> int:
    from rich.live import Live

    from muntin.cli.screen import console
    from muntin.web.live import LiveJob

    if not 0.1 <= args.every <= 3600:
        raise UsageError(f"--every cannot be {args.every:g}", hint="write a number of seconds from 0.1 to 3600")
    job, out, view = LiveJob(args.checkpoint), console(), TopView()
    shown = view.of(job, out.height)
    if args.once or not out.is_terminal:
        out.print(shown)
        return 0
    with Live(shown, console=out, screen=True, auto_refresh=False) as live, suppress(KeyboardInterrupt):
        while True:
            time.sleep(args.every)
            live.update(view.of(job, out.height), refresh=True)
    return 0


class TopView:
    """What a screen shows; rates are those between two looks at the job."""

    def __init__(self) -> None:
        self._before: JobStatus | None = None
        self._rates: dict[str, float] = {}

    def of(self, job: LiveJob, height: int) -> Group:
        from rich.console import Group
        from rich.text import Text

        from muntin.cli.screen import table
        from muntin.cli.status import headlines, order, response

        status = job.view().record
        self._note(status)
        parts: list[Any] = [Text(line) for line in headlines(status)]
        parts.append(Text(self._work(status)))
        queries = sorted(status.queries.items(), key=lambda item: -self._rates.get(item[0], 0.0))
        room = max(LEAST_LINES, height - 16 - sum(len(side) for join in status.joins for side in join.slices))
        lines = [[n, q.total_rows, round(self._rates.get(n, 0.0)), *response(q)[1:3]] for n, q in queries[:room]]
        more = f" and {len(queries) - room:,} more" if len(queries) > room else ""
        parts.append(table(["query", "rows", "rows/s", "median", "99%"], lines, f"{len(lines):,} queries{more}"))
        for join in status.joins:
            parts.append(table(["stream", "ages", "", "rows", "predicted"], slice_bars(join), join_title(join)))
            parts += [Text(line) for line in order(join)]
        letters = ", ".join(f"{reason} {count:,}" for reason, count in status.dead_letters.items())
        parts.append(Text(f"dead letters: {letters or 'none'}"))
        return Group(*parts)

    def _note(self, status: JobStatus) -> None:
        before, self._before = self._before, status
        if before is None or before.batches == status.batches or before.started != status.started:
            return
        seconds = max(status.updated - before.updated, 1e-3)
        old = {name: query.total_rows for name, query in before.queries.items()}
        self._rates = {name: (q.total_rows - old.get(name, 0)) / seconds for name, q in status.queries.items()}

    def _work(self, status: JobStatus) -> str:
        whole, tasks = status.seconds.get("triggerExecution", 0.0), status.seconds.get("addBatch", 0.0)
        out = sum(self._rates.values())
        return f"last micro-batch {whole:.2f} s, {tasks:.2f} s of it join and write; {out:,.0f} rows/s out"


def join_title(join: JoinStatus) -> str:
    return f"join {join.join}: {' and '.join(join.streams)}, {join.bytes / 1e6:,.1f} MB of state"


def slice_bars(join: JoinStatus) -> list[list[Any]]:
    """A line for each slice, its rows as a bar."""
    from muntin.cli.status import ages, folded

    most = max((piece.rows for side in join.slices for piece in side), default=0)
    found: list[list[Any]] = []
    for side, stream in enumerate(join.streams):
        name = stream
        for piece, together in folded(join.slices[side]):
            shown = bar(piece.rows, most)
            found.append([name, ages(piece, together, join.axes[side]), shown, piece.rows, piece.predicted_rows])
            name = ""
    return found


def bar(value: float, most: float) -> str:
    """A bar of at most `BAR` characters, to an eighth of one."""
    eighths = min(8 * BAR, round(8 * BAR * value / most)) if most else 0
    return EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()
