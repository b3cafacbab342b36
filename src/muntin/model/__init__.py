"""Plain values that every other layer speaks in: no I/O, no clock, no third-party import."""

from muntin.model.errors import MuntinError, Place, SqlError, UsageError
from muntin.model.job import (
    DEFAULT_SETTINGS,
    Aggregation,
    Axis,
    Call,
    Change,
    Comparison,
    Expr,
    JobSpec,
    KeyPair,
    Op,
    Output,
    Query,
    Settings,
    Side,
    Stream,
    Window,
)
from muntin.model.punctuation import Pattern, Punctuation
from muntin.model.types import Field, Schema, common_type, is_numeric

__all__ = [
    "DEFAULT_SETTINGS",
    "Aggregation",
    "Axis",
    "Call",
    "Change",
    "Comparison",
    "Expr",
    "Field",
    "JobSpec",
    "KeyPair",
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
    "Window",
    "common_type",
    "is_numeric",
]
