"""Plain values that every other layer speaks in: no I/O, no clock, no third-party import."""

from muntin.model.destination import Destination
from muntin.model.errors import MuntinError, Place, SqlError, UsageError
from muntin.model.job import (
    Aggregation,
    Axis,
    Call,
    Change,
    Comparison,
    Expr,
    JobSpec,
    JoinKind,
    KeyPair,
    Op,
    Output,
    Query,
    Side,
    Stream,
    ValueRange,
    Window,
)
from muntin.model.lookup import DimensionTable, Lookup, LookupKey
from muntin.model.punctuation import Pattern, Punctuation
from muntin.model.settings import AUTO, DEFAULT_SETTINGS, NO_CHAIN, Settings
from muntin.model.types import Field, Schema, common_type, is_numeric
from muntin.model.values import ValueFormat

__all__ = [
    "AUTO",
    "DEFAULT_SETTINGS",
    "NO_CHAIN",
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
    "JoinKind",
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
    "Schema",
    "Settings",
    "Side",
    "SqlError",
    "Stream",
    "UsageError",
    "ValueFormat",
    "ValueRange",
    "Window",
    "common_type",
    "is_numeric",
]
