"""Which joins let the rows of a key that has very many visit every shard (core/arrivals/hot_keys.py)."""

from __future__ import annotations

from muntin.model import Axis, Settings
from muntin.plan.joins import SharedJoin
from muntin.plan.punctuation_modes import PUNCTUATION_MODES


def why_at_home(join: SharedJoin, settings: Settings) -> str | None:
    """Why all rows of a key stay in one shard, however many they are; None where they need not."""
    if not join.keys:
        return "it has no equality, and its rows visit every shard anyway"
    if settings.hot_keys == "off":
        return "hot_keys is off"
    if not settings.in_global_order:
        return "output_order = 'key' asks for the rows of a key in order, which one shard sees to"
    if settings.eager:
        return "with eager delivery each shard sends its rows itself"
    return why_together(join, settings)


def why_together(join: SharedJoin, settings: Settings) -> str | None:
    """What of a join asks for all rows of a key in one shard; None where nothing does."""
    if join.feeds or join.reads != (None, None):
        return "joins read what others find in the same shard"
    if Axis.ROWS in join.axes:
        return "it counts rows, in one order over both streams"
    for query in join.queries:
        if not query.is_inner:
            return f"query {query.name} asks whether a row has a match, and one shard must see all of them"
        if query.aggregation is not None:
            return f"query {query.name} has groups, and one shard must see all pairs of a key"
    if join.own_windows:
        return "rows wait until times of their own"
    if PUNCTUATION_MODES[settings.punctuations].uses(join):
        return "promises say which keys are over, and one shard must hear them with all rows of a key"
    return None
