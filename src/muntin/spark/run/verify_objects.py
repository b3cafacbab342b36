"""Before a start: whether an output in an object store is of the same moment as its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from muntin.model import MuntinError
from muntin.spark.checkpoint import OutputLog, identity, last_manifest, spans
from muntin.spark.run.verify import RESTORE, missing_files, newer_output, prefixes_of
from muntin.spark.store import Location, ObjectPath


def take_objects(checkpoint: Location, output: ObjectPath, checkpoint_id: str, truncate: bool) -> list[str]:
    """Bind an output to its checkpoint; refuse one that is newer or older. Warnings, one line each."""
    identity.check_output(output, checkpoint_id)
    prefixes, shown, warnings = prefixes_of(checkpoint), spans(output), list[str]()
    for prefix in sorted({*prefixes, *shown}):
        folder = prefixes.get(prefix)
        last = last_manifest(folder) if folder is not None else None
        committed = -1 if last is None else last.batch
        newest = max(shown.get(prefix, {}), default=-1)
        if newest > committed and not truncate:
            raise newer_output(output, checkpoint, prefix, committed, newest)
        if newest > committed:
            removed = OutputLog(output, prefix, None).truncate(committed)
            warnings += [f"removed, being newer than the checkpoint: {output / name}" for name in sorted(removed)]
        if last is not None and newest < last.published and newest != last.published_before:
            raise MuntinError(
                f"{output} ends with micro-batch {newest}, but the checkpoint {checkpoint} says that micro-batch "
                f"{last.published} was published there: the output is older than its checkpoint",
                hint=RESTORE,
            )
        if last is not None:
            there = {f"{name}/{file}" for name in _folders(last.files) for file in output.store.sizes(output / name)}
            warnings += missing_files(output, [name for name in last.files if name not in there])
    identity.claim_output(output, checkpoint_id)
    return warnings


def _folders(files: Iterable[str]) -> set[str]:
    return {name.rpartition("/")[0] for name in files}
