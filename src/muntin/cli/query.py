"""`muntin query`: adding, dropping and listing the queries of a job from another process, while it runs."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.cli.checkpoint import a_checkpoint
from muntin.cli.words import warn
from muntin.model import MuntinError, UsageError
from muntin.model.records import to_json

if TYPE_CHECKING:
    from muntin.spark.checkpoint import Answer
    from muntin.spark.run import JobStatus, QueryStatus
    from muntin.spark.store import Location

SUMMARY = "add, drop and list the queries of a running job"
ADD = """\
  muntin query add --checkpoint ckpt "CREATE QUERY hot AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 min"
  muntin query add --checkpoint ckpt @hot.sql"""
DROP = "  muntin query drop --checkpoint ckpt hot"
LIST = "  muntin query list --checkpoint ckpt"
EXAMPLE = f"""\
examples:
{ADD}
{DROP}
{LIST}

A change applies from one event time on, which the answer names. Sent to a job that is not running, it is checked at
once, waits in the job's log and takes effect when the job runs next."""
TIMEOUT_S = 120.0
LOOK_EVERY_S, CHECK_EVERY_S = 0.1, 1.0
"""How often to look for an answer, and whether the job is still there."""
IN_LOG = "the request waits in the job's log and will be taken up"


def declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = action(actions, "add", "add a query to a job, or put it in the place of the one with its name", ADD)
    add.add_argument("sql", metavar="SQL", help="CREATE [OR REPLACE] QUERY name AS SELECT ..., or @FILE with that text")
    drop = action(actions, "drop", "drop a query of a job, with the state that only it needs", DROP)
    drop.add_argument("name", metavar="NAME", help="the query")
    for changing in (add, drop):
        changing.add_argument(
            "--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help="how long to wait (%(default)g)"
        )
        changing.add_argument("--now", action="store_true", help="refuse to leave the change for a later run")
    action(actions, "list", "list the queries of a job, and the changes that it has not made yet", LIST)


def action(actions: Any, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--verbose", action="store_true", help="show the traceback of a failure")
    made.add_argument("--checkpoint", type=a_checkpoint, required=True, metavar="DIR", help="that of the job")
    made.add_argument("--json", action="store_true", help="as JSON, for programs")
    return made


def execute(args: argparse.Namespace) -> int:
    if args.action == "list":
        return show_list(args.checkpoint, args.json)
    if not 0 <= args.timeout < math.inf:
        raise UsageError(f"--timeout cannot be {args.timeout:g}", hint="write a number of seconds from 0 on")
    from muntin.spark.run import client

    return change(args, new_query(args.sql) if args.action == "add" else client.dropping(args.name))


# -- what is sent -----------------------------------------------------------------------------------------------------


def new_query(text: str) -> str:
    """The statement of `add`; what clearly is another one is refused here, the rest is for the job to judge."""
    from muntin.spark.run import client

    return client.new_query(read_sql(Path(text[1:])) if text.startswith("@") else text)


def read_sql(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"cannot read {path}: {reason}", hint="write @FILE, or the query itself") from None


# -- sending and waiting ----------------------------------------------------------------------------------------------


def change(args: argparse.Namespace, sql: str) -> int:
    """Send a statement to the job and wait until it is in force; whoever waits no longer leaves it to the job."""
    from muntin.spark.checkpoint import requests
    from muntin.spark.run import client

    sent = client.send(args.checkpoint, sql, args.now)
    if not sent.running:
        warn(sent.warnings)
        print(as_json(sent.id, None) if args.json else client.NEXT_RUN)
        return 0
    answer, reason = wait(args.checkpoint, sent.id, args.timeout)
    if args.json:
        print(as_json(sent.id, answer))
    if reason is not None:
        raise MuntinError(reason, hint="`muntin query list` shows what has become of it")
    assert answer is not None
    requests.forget(args.checkpoint, sent.id)
    if answer.state == "refused":
        raise MuntinError(answer.error or "the job refused the request", hint=answer.hint)
    warn(answer.warnings)
    if not args.json:
        print(client.sentence(answer))
        if answer.hint:
            print(f"  hint: {answer.hint}", file=sys.stderr)
    return 0


def wait(checkpoint: Location, id: str, timeout: float) -> tuple[Answer | None, str | None]:
    """The last answer, or the one so far and why there is no use, or no time, in waiting for more."""
    from muntin.spark.checkpoint import read_answer
    from muntin.spark.run import client

    began = checked = time.monotonic()
    answer, running = None, True
    try:
        while True:
            before, answer = answer, read_answer(checkpoint, id)
            if answer is not None and answer.state != "accepted":
                return answer, None
            if answer is not None and before is None:
                print("accepted, and in force with a micro-batch to come", file=sys.stderr)
            if not running:
                return answer, f"the job has stopped: {left(answer)} when it runs next"
            now = time.monotonic()
            if now - began >= timeout:
                return answer, f"not in force after {timeout:g} s: {left(answer)}"
            if now - checked >= CHECK_EVERY_S:
                checked, running = now, client.job_status(checkpoint).state == "running"
            else:
                time.sleep(min(LOOK_EVERY_S, began + timeout - now))
    except KeyboardInterrupt:
        return answer, f"interrupted: {left(answer)}"


def left(answer: Answer | None) -> str:
    """What becomes of a request that nobody waits for."""
    return IN_LOG if answer is None else "the request is accepted and comes into force"


# -- what is shown ----------------------------------------------------------------------------------------------------


def as_json(id: str, answer: Answer | None) -> str:
    found = {"state": "waiting"} if answer is None else to_json(answer)
    return json.dumps({"id": id, **found}, indent=2)


def show_list(checkpoint: Location, for_programs: bool) -> int:
    from muntin.cli.screen import console, table
    from muntin.spark.checkpoint import answers, waiting
    from muntin.spark.run import client

    status, open_requests = client.job_status(checkpoint), waiting(checkpoint)
    unread = {id: answer for id, answer in answers(checkpoint).items() if answer.state != "in force"}
    if for_programs:
        requests = [{**to_json(r), "state": "waiting"} for r in open_requests]
        requests += [{"id": id, **to_json(answer)} for id, answer in unread.items()]
        print(json.dumps({"state": status.state, "queries": to_json(status.queries), "requests": requests}, indent=2))
        return 0
    out = console()
    out.print(f"job: {status.state}", markup=False)
    if status.queries:
        out.print(table(*query_table(status)))
    for request in open_requests:
        out.print(f"waiting: {one_line(request.sql)}", markup=False, soft_wrap=True)
    for answer in unread.values():
        out.print(client.outcome(answer), markup=False, soft_wrap=True)
    return 0


def query_table(status: JobStatus) -> tuple[list[str], list[list[Any]]]:
    """Header and rows; a column that the job says nothing about is left out."""
    header, queries = ["query", "rows", "since", "complete from"], status.queries
    rows: list[list[Any]] = [[name, query.total_rows, *since(query)] for name, query in queries.items()]
    if len(status.pipelines) > 1:
        header.append("streaming query")
        of = {name: number for number, pipeline in enumerate(status.pipelines, 1) for name in pipeline.queries}
        rows = [[*row, of.get(row[0])] for row in rows]
    if any(query.past for query in queries.values()):
        header.append("past")
        rows = [[*row, query.past] for row, query in zip(rows, queries.values(), strict=True)]
    if any(query.text for query in queries.values()):
        header.append("text")
        rows = [[*row, one_line(query.text or "")] for row, query in zip(rows, queries.values(), strict=True)]
    return header, rows


def since(query: QueryStatus) -> tuple[str, str]:
    """Since when a query runs, and from when on its answer is complete."""
    from muntin.spark.run import client

    applied, complete = query.applied_from, query.complete_from
    return applied or "the beginning", complete or (client.LATER if applied else "the beginning")


def one_line(text: str) -> str:
    return " ".join(text.split())
