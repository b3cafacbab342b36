"""`muntin study`: the papers' figures and tables, run again, with pictures and a verdict for each claim."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.model import UsageError

if TYPE_CHECKING:
    from muntin.studies.study import Ran, Study

SUMMARY = "run the papers' figures and tables again, with pictures and a verdict for each claim"
EXAMPLE = "example: muntin study run hammad2003-figure-5 --quick --output studies"
COLOURS = {"holds": "green", "partly": "yellow", "does not": "red"}


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "run"), help="name all studies; or run some")
    parser.add_argument("name", nargs="*", help="a study, a paper (all of its studies), or `all`")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and points: all in less than five minutes")
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds (default: 5; quick: 3)")
    parser.add_argument("--json", action="store_true", help="the claims as JSON, for programs")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write data, pictures and claims there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write all that was found as a page (Markdown)")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run: do not run again what "
                        "--output has already, from the same code and seeds")  # fmt: skip


def execute(args: argparse.Namespace) -> int:
    from muntin.studies.registry import STUDIES, chosen

    if args.action == "list":
        if args.name:
            raise UsageError("`muntin study list` takes no names", hint="run names studies")
        return show_list(args.json)
    if not args.name:
        raise UsageError("say which studies to run", hint=f"`all`, a paper, or a study such as {STUDIES[0].name}")
    if args.seeds is not None and args.seeds < 1:
        raise UsageError(f"--seeds {args.seeds} is too few", hint="at least 1")
    if args.resume and args.output is None:
        raise UsageError("--resume needs --output", hint="say in which folder the run is that goes on")
    found = run(args, chosen(args.name))
    if args.json:
        from muntin.studies.record import claim_rows

        print(json.dumps(claim_rows(found), indent=2))
    else:
        show_claims(found)
    return 0


def run(args: argparse.Namespace, studies: list[Study]) -> list[Ran]:
    """With a bar on stderr, so that stdout stays clean."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from muntin.cli import screen
    from muntin.studies.page import write_page
    from muntin.studies.record import run_all
    from muntin.studies.study import Effort

    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   console=screen.console(stderr=True))  # fmt: skip
    with bar:
        task = bar.add_task("studies", total=len(studies))
        effort = Effort.of(args.seeds, args.quick, lambda name: bar.update(task, description=name))
        found = run_all(studies, effort, args.output, lambda _: bar.advance(task), args.resume)
    if args.page is not None:
        write_page(args.page, found, effort)
    return found


def show_list(as_json: bool) -> int:
    from muntin.cli import screen
    from muntin.studies.registry import STUDIES

    if as_json:
        listed = [{"name": s.name, "paper": s.paper, "figure": s.figure, "also": s.also, "shows": s.shows}
                for s in STUDIES]  # fmt: skip
        print(json.dumps(listed))
    else:
        rows = [(s.name, s.shows + (f" ({', '.join(s.also)} as well)" if s.also else "")) for s in STUDIES]
        screen.console().print(screen.table(("study", "shows"), rows))
    return 0


def show_claims(found: list[Ran]) -> None:
    """One table of every claim and its verdict, and how many of each there are."""
    from rich.text import Text

    from muntin.cli import screen
    from muntin.studies.record import claim_rows

    out, claims = screen.console(), claim_rows(found)
    made = screen.table(("figure", "claim", "paper", "ours", "verdict"), [])
    for c in claims:
        verdict = Text(c["verdict"], style=COLOURS[c["verdict"]])
        figure = Text(f"{c['paper']}\n{c['figure']}")
        made.add_row(figure, Text(c["claim"]), Text(c["paper_value"]), Text(c["ours"]), verdict, end_section=True)
    out.print(made)
    for c in claims:
        if c["verdict"] != "holds" and c["why"]:
            out.print(f"{c['paper']}, {c['figure']}: {c['claim']}: {c['verdict']}. {c['why']}\n", markup=False)
    counts = ", ".join(f"{sum(c['verdict'] == v for c in claims)} {v}" for v in COLOURS)
    seconds = sum(ran.core_s for ran in found)
    out.print(f"{len(claims)} claims of {len(found)} studies: {counts}; {seconds:.0f} s of a core", markup=False)
