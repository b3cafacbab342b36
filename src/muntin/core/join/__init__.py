"""The rows that have been joined: the index, when rows expire, and what the queries require of rows and pairs."""

from muntin.core.join.requirements import EVERYBODY, QueryRequirements
from muntin.core.join.state import JoinState, Judge

__all__ = ["EVERYBODY", "JoinState", "Judge", "QueryRequirements"]
