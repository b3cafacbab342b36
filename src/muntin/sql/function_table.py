"""All functions of the SQL, by name: whatever registers rules is imported here, for the parser and for lists."""

from muntin.sql import (  # noqa: F401
    choices,
    json_functions,
    nested,
    number_functions,
    operators,
    patterns,
    text_functions,
    time_functions,
)
from muntin.sql.catalog import FORMS, FUNCTIONS, Parameter, SqlFunction

__all__ = ["FORMS", "FUNCTIONS", "Parameter", "SqlFunction"]
