"""All functions of the SQL, by name: whatever registers rules is imported here, for the parser and for lists."""

from muntin.sql import choices, number_functions, operators, text_functions, time_functions  # noqa: F401
from muntin.sql.catalog import FORMS, FUNCTIONS, Function, Parameter

__all__ = ["FORMS", "FUNCTIONS", "Function", "Parameter"]
