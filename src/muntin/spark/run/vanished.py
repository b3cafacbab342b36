"""Source files that were gone when their micro-batch was over.

Spark lists the files of a micro-batch before it reads them, and passes over one that is gone by then, without a word.
Nobody can say whether its rows had been read, so this is a warning: in `status`, and on the screen.
"""

from __future__ import annotations

import json
import os
from urllib.parse import unquote, urlsplit

from muntin.spark.run.spark_half import SparkHalf
from muntin.spark.store import Location, spark_half, store_of


def vanished(folder: Location, batch: int) -> dict[int, list[str]]:
    """For each source of a pipeline, the files of a micro-batch that are not there any more; only local files are
    looked for."""
    spark, found = SparkHalf(spark_half(folder)), {}
    taken, before = spark.taken(batch), spark.taken(batch - 1) if batch else {}
    for source, last in taken.items():
        numbers = range(before.get(source, -1) + 1, last + 1)
        listed = [path for number in numbers for path in _listed(spark, source, number)]
        if gone := [path for path in listed if _is_gone(path)]:
            found[source] = gone
    return found


def _listed(spark: SparkHalf, source: int, number: int) -> list[str]:
    place = spark.folder / "sources" / str(source)
    for name in (str(number), f"{number}.compact"):
        try:
            lines = store_of(place).read(place / name).decode().splitlines()[1:]
        except FileNotFoundError:
            continue
        entries = [json.loads(line) for line in lines]
        return [entry["path"] for entry in entries if entry["batchId"] == number]
    return []


def _is_gone(path: str) -> bool:
    parts = urlsplit(path)
    return parts.scheme == "file" and not os.path.exists(unquote(parts.path))
