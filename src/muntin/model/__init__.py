"""Plain values that every other layer speaks in: no I/O, no clock, no third-party import."""

from muntin.model.comparison import Comparison, Op
from muntin.model.copies import QueryCopy
from muntin.model.derived import OUTPUT_TIME, base_streams, derived_stream, read_queries, readers, relation
from muntin.model.destination import Destination
from muntin.model.errors import MuntinError, Place, SqlError, UsageError
from muntin.model.job import (
    Aggregation,
    Axis,
    Call,
    Change,
    Expr,
    JobSpec,
    JoinKind,
    KeyPair,
    Output,
    Query,
    Side,
    Stream,
    ValueRange,
    Window,
)
from muntin.model.join_graph import JoinGraph, JoinItem, JoinLink
from muntin.model.lookup import DimensionTable, Lookup, LookupKey
from muntin.model.punctuation import Pattern, Punctuation
from muntin.model.settings import AUTO, DEFAULT_SETTINGS, NO_CHAIN, Settings
from muntin.model.types import Field, Schema, common_type, is_numeric
from muntin.model.values import ValueFormat

__all__ = [
    "AUTO",
    "DEFAULT_SETTINGS",
    "NO_CHAIN",
    "OUTPUT_TIME",
    "Aggregation",
    "Axis",
    "Call",
    "Change",
    "Comparison",
    "Destination",
    "DimensionTable",
    "Expr",
    "Field",
    "JobSpec",
    "JoinGraph",
    "JoinItem",
    "JoinKind",
    "JoinLink",
    "KeyPair",
    "Lookup",
    "LookupKey",
    "MuntinError",
    "Op",
    "Output",
    "Pattern",
    "Place",
    "Punctuation",
    "Query",
    "QueryCopy",
    "Schema",
    "Settings",
    "Side",
    "SqlError",
    "Stream",
    "UsageError",
    "ValueFormat",
    "ValueRange",
    "Window",
    "base_streams",
    "common_type",
    "derived_stream",
    "is_numeric",
    "read_queries",
    "readers",
    "relation",
]
