"""The pipelines of a job that starts again: those that go on, and what is left of the others."""

from __future__ import annotations

from muntin.model import Query
from muntin.spark.checkpoint import PlanLog, identity, last_manifest, stored_job
from muntin.spark.run.pipeline import Pipeline, RunContext
from muntin.spark.run.removal import remove_folder, remove_state
from muntin.spark.run.rescaling import successor_of
from muntin.spark.store import Location


def reopen(context: RunContext) -> tuple[list[Pipeline], dict[str, Query | None]]:
    """The pipelines of the run before whose streams are declared still, and all queries of that run."""
    checkpoint, spec = context.place.checkpoint, context.spec
    queries: dict[str, Query | None] = {}
    pipelines: list[Pipeline] = []
    for number in identity.pipeline_numbers(checkpoint):
        folder = identity.pipeline_folder(checkpoint, number)
        stored, log = stored_job(folder), PlanLog(folder, spec)
        if stored is None or (log.latest() is None and not stored.is_over):
            remove_folder(folder)  # its process died before it began
        elif stored.is_over:
            _let_go(context, folder)
        elif not set(stored.streams) <= set(spec.streams):  # declared no more, so no query can be over them
            queries |= dict.fromkeys(log.names())
            _retire(context, folder)
        else:
            pipelines.append(Pipeline(context, number))
            queries |= pipelines[-1].changes.plan.queries
    return pipelines, queries


def _let_go(context: RunContext, folder: Location) -> None:
    """Remove the state of a pipeline that is over; of one that was rescaled, once the one after it has run."""
    successor = successor_of(folder)
    if successor is None:
        context.board.close(last_manifest(folder))
    elif last_manifest(identity.pipeline_folder(context.place.checkpoint, successor)).batch < 1:
        return
    remove_state(folder)


def _retire(context: RunContext, folder: Location) -> None:
    """End a pipeline that cannot even be opened."""
    publisher = context.place.sink.open_publisher(folder)
    publisher.recover()
    context.board.close(publisher.last)
    identity.retire(folder)
    remove_state(folder)
