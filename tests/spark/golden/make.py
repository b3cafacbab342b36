"""The golden checkpoint: a tiny job that has run two micro-batches, kept as `checkpoint.tar.xz` beside this file.

`make golden` makes it anew, and keeps the one of the format before in `past/`. Do so after a change of what is durable,
together with a new `STATE_FORMAT` and a new `docs/state-format.md`; without such a change it stays as it is, so that
tests open what an older build wrote.

The archive has the folders `data`, `out` and `ckpt`. Spark writes absolute paths into its checkpoint, so `pack` puts a
placeholder where the folder was and `unpack` puts the new folder there. Sums of bytes beside Spark's files are left
out: Hadoop reads files without them.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.model import JobSpec
from muntin.spark.checkpoint.durable import FileKind, to_line
from muntin.spark.checkpoint.identity import STATE_FORMAT
from muntin.sql import parse_job

ARCHIVE = Path(__file__).with_name("checkpoint.tar.xz")
PAST = Path(__file__).with_name("past")
"""Those of formats before, which are refused by their number."""
PLACE = "/muntin-golden-place"
"""Stands in the archive for the folder that the job ran in."""
SQL = """
SET shards = 2;
CREATE STREAM A (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts
  WITH (format = 'parquet', path = '{place}/data/A', maxFilesPerTrigger = '1');
CREATE STREAM B (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts
  WITH (format = 'parquet', path = '{place}/data/B', maxFilesPerTrigger = '1');
CREATE QUERY pairs AS SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k WINDOW 3 seconds;
CREATE QUERY sums AS SELECT A.k, COUNT(*) AS n, SUM(B.v) AS total FROM A, B WHERE A.k = B.k
  GROUP BY A.k WINDOW 6 seconds;
"""
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])


def spec(place: Path) -> JobSpec:
    return parse_job(SQL.format(place=place))


def rows(stream: str, number: int) -> pa.Table:
    """The rows of one file: eight, over four seconds; `number` counts files, the third is not in the archive."""
    shift = 0 if stream == "A" else 250_000
    found = range(8 * number, 8 * number + 8)
    columns = [[500_000 * n + shift for n in found], [n * (3 if shift else 5) % 3 for n in found], [*found]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def write_rows(place: Path, number: int) -> None:
    """Write the files of one micro-batch, with times in which Spark takes them in order."""
    for stream in "AB":
        file = place / "data" / stream / f"{number:04d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(stream, number), file)
        os.utime(file, (1_700_000_000 + number,) * 2)


def pack(place: Path, archive: Path) -> None:
    """Keep a folder as an archive that does not know where it was."""
    with tarfile.open(archive, "w:xz") as packed:
        for file in sorted(place.rglob("*")):
            if file.is_file() and not file.name.endswith(".crc") and file.name != "lock":
                content = moved(file.read_bytes(), str(place), PLACE)
                info = tarfile.TarInfo(str(file.relative_to(place)))
                info.size = len(content)
                info.mtime = int(file.stat().st_mtime)
                packed.addfile(info, io.BytesIO(content))


def unpack(place: Path, archive: Path = ARCHIVE) -> None:
    """Put the golden job into a folder, as if it had run there."""
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    for file in place.rglob("*"):
        if file.is_file() and PLACE.encode() in (content := file.read_bytes()):
            times = file.stat().st_mtime
            file.write_bytes(moved(content, PLACE, str(place)))
            os.utime(file, (times, times))


def moved(content: bytes, old: str, new: str) -> bytes:
    """The bytes of a file that names another folder; our own files get a new checksum."""
    if old.encode() not in content:
        return content
    found = content.replace(old.encode(), new.encode())
    if not content.startswith(b'{"checksum"'):
        return found
    inner = json.loads(found)["file"]
    return (to_line(FileKind(inner["kind"]), inner["name"], inner["content"], inner["job"]) + "\n").encode()


def keep_past(archive: Path) -> None:
    """Keep the archive of another format that is about to be replaced."""
    if archive != ARCHIVE or not archive.exists():
        return
    with tarfile.open(archive) as packed:
        stored = packed.extractfile("ckpt/muntin/job.json")
        assert stored is not None
        number = json.load(stored)["file"]["content"]["state_format"]
    if number != STATE_FORMAT:
        shutil.copyfile(archive, PAST / f"format-{number}.tar.xz")


def make(archive: Path = ARCHIVE) -> None:
    """Run the job over two files of each stream and keep what it leaves."""
    from muntin.spark.run import Job
    from muntin.spark.session import open_session

    keep_past(archive)
    spark = open_session("local[2,4]", shards=2, brief=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        for number in (0, 1):
            write_rows(place, number)
        run = Job(spark, spec(place)).start(output=place / "out", checkpoint=place / "ckpt", mode="available-now")
        run.await_termination()
        batches = run.status()["batches"]
        assert batches == 2, f"two micro-batches, not {batches}"
        pack(place, archive)
    spark.stop()
    print(f"{archive}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    make(*map(Path, sys.argv[1:]))
