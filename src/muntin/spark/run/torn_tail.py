"""After a power cut: files of Spark's that nobody synced are empty, cut short or gone, while later ones are there.

What Spark wrote after our last manifest can be done without. A commit is taken away with which the state was lost, and
Spark runs the micro-batch again, of which the output stays. Offsets and lists of a micro-batch that was only begun are
taken away, and it is begun anew. Anything else is refused by name; `muntin doctor --repair` goes back further.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from muntin.spark.checkpoint import identity, last_manifest, stored_job
from muntin.spark.run.spark_half import SparkHalf, damage_of
from muntin.spark.store import Location, sync_folder


def mend_torn_tails(checkpoint: Location) -> list[str]:
    """Take away what is torn after the last manifest of each pipeline; what was done, one line each."""
    if not isinstance(checkpoint, Path):
        return []  # an object is there whole or not at all
    done: list[str] = []
    for number in identity.pipeline_numbers(checkpoint):
        folder = identity.pipeline_folder(checkpoint, number)
        stored = stored_job(folder)
        if stored is not None and not stored.is_over:
            done += _mend(folder)
    return done


def _mend(folder: Path) -> list[str]:
    spark, last = SparkHalf(folder, reads_state=False), last_manifest(folder).batch
    planned = [batch for batch in spark.numbers("offsets") if batch > last]
    lost = spark.damage_of_end(last) if last >= 0 else None
    runs_again = lost is not None and spark.damage_to_go_on(last) is None
    done: list[str] = []
    for batch in reversed(planned):
        torn = spark.damage_of_offset(batch) or (spark.damage_of_lists(batch) and "its lists are torn")
        if torn or runs_again:
            why = torn or f"micro-batch {last} runs again before it"
            done.append(_taken(folder / "offsets" / str(batch), f"{why}; it is begun anew"))
    if runs_again and lost is not None and last in spark.numbers("commits"):
        why = f"{lost[0].name}: {lost[1]}; micro-batch {last} runs again"
        done.append(_taken(folder / "commits" / str(last), why))
    if done:
        spark = SparkHalf(folder, reads_state=False)
    for source in range(spark.sources):
        taken = max((spark.taken(batch).get(source, -1) for batch in spark.numbers("offsets")), default=-1)
        for number, name in spark.lists(source).items():
            if number > taken and (wrong := spark.damage("sources", str(source), name)) is not None:
                done.append(_taken(folder / "sources" / str(source) / name, f"{wrong}; its files are listed anew"))
    return done + (_begun_anew(folder, spark) if last < 0 else [])


def _begun_anew(folder: Path, spark: SparkHalf) -> list[str]:
    """Nothing is committed, and nothing is left of a first micro-batch but perhaps its state: Spark wants none then."""
    if spark.numbers("offsets") or spark.numbers("commits"):
        return []
    done: list[str] = []
    if (folder / "metadata").exists() and (wrong := damage_of(folder / "metadata")) is not None:
        done.append(_taken(folder / "metadata", wrong))
    if (folder / "state").exists():
        shutil.rmtree(folder / "state")
        done.append(f"taken away, being of a micro-batch that is begun anew: {folder / 'state'}")
    return done


def _taken(file: Path, why: str) -> str:
    file.unlink()
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    sync_folder(file.parent)
    return f"taken away, being torn as after a power cut: {file} ({why})"
