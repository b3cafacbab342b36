"""Flink's interval joins for `muntin bench latency`. Runs in Flink's own environment, so it imports nothing of ours.

One interval join per query, all in one statement set. Fair to Flink: as in `peer_flink`, and buffers wait 5 ms instead
of 100 before they are sent on. Files are looked for every 50 ms. The last step of each query says what time it is and
hands the row to Flink's `print`, which writes it to a file in place of stdout. Flink's watermarks are two seconds
behind: an interval join hands pairs over when it finds them, and only what is later than the watermark is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

SETTLED_S = 5.0
"""Time without a further row after which Flink has handed over all there is."""
READY, FED, HANDED, PRINTED = "ready", "fed.json", "handed.csv", "printed.txt"
LOOK_S = 0.1
LINE = re.compile(r"(q\d+):?\d*> \+I\[(\d+), (\d+), (\S+)\]")
SETTINGS = {
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "execution.buffer-timeout.interval": "5 ms",
    "table.exec.source.idle-timeout": "1 s",
    "table.local-time-zone": "UTC",
}


def statements(feed: dict[str, Any], folder: Path) -> Iterator[str]:
    for stream in "AB":
        yield (
            f"CREATE TABLE {stream} (ts TIMESTAMP(3), k BIGINT, came BIGINT, "
            "WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ("
            f"'connector' = 'filesystem', 'path' = 'file://{folder}/{stream}', 'format' = 'csv', "
            "'source.monitor-interval' = '50 ms')"
        )
    for number, window_ms in enumerate(feed["windows_ms"]):
        yield (
            f"CREATE TABLE q{number} (a BIGINT, b BIGINT, handed STRING) "
            f"WITH ('connector' = 'print', 'print-identifier' = 'q{number}')"
        )
        window = f"INTERVAL '{window_ms / 1000:.3f}' SECOND({len(str(window_ms // 1000))}, 3)"
        now = "DATE_FORMAT(CURRENT_ROW_TIMESTAMP(), 'yyyy-MM-dd''T''HH:mm:ss.SSS')"
        yield (
            f"INSERT INTO q{number} SELECT A.came, B.came, {now} FROM A, B WHERE A.k = B.k "
            f"AND A.ts > B.ts - {window} AND A.ts < B.ts + {window}"
        )


def start(feed: dict[str, Any], folder: Path) -> Any:
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    cores = str(os.cpu_count() or 1)
    chosen = Configuration()
    for name, value in {**SETTINGS, "parallelism.default": cores, "taskmanager.numberOfTaskSlots": cores}.items():
        chosen.set_string(name, value)
    environment = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(chosen).build()
    tables = TableEnvironment.create(environment)
    inserts = tables.create_statement_set()
    for statement in statements(feed, folder):
        if statement.startswith("CREATE"):
            tables.execute_sql(statement)
        else:
            inserts.add_insert_sql(statement)
    return inserts.execute().get_job_client()


def counted(printed: Path) -> Counter[tuple[str, int, int]]:
    """Pairs by query, when the later of two rows came, and when they were handed over."""
    found: Counter[tuple[str, int, int]] = Counter()
    with printed.open() as lines:
        for line in lines:
            if (row := LINE.match(line)) is not None:
                moment = datetime.fromisoformat(f"{row[4]}+00:00")
                found[row[1], max(int(row[2]), int(row[3])), round(1000 * moment.timestamp())] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    printed, said = args.folder / PRINTED, os.dup(1)
    os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)  # Java inherits it
    job = start(json.loads((args.folder / "feed.json").read_text()), args.folder)
    (args.folder / READY).touch()
    while not (args.folder / FED).exists():
        time.sleep(LOOK_S)
    size, changed = -1, time.monotonic()
    while time.monotonic() - changed < SETTLED_S:
        time.sleep(0.2)
        if (now := printed.stat().st_size) != size:
            size, changed = now, time.monotonic()
    job.cancel().result()
    lines = (f"{query},{came},{handed},{rows}\n" for (query, came, handed), rows in counted(printed).items())
    (args.folder / HANDED).write_text("".join(lines))
    os.write(said, b'{"done": true}\n')


if __name__ == "__main__":
    main()
