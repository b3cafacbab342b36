"""The rows that have been joined, and the rows and pairs that the queries require.

`JoinState` is an index of rows by key: it inserts, probes and forgets, and finds pairs on the way.
`ExpiryLists` say which rows leave when; there is one list for each slice of each side.
`OwnEnds` are the rows that leave before the others of their list.
`QueryRequirements` are the classes of rows, and the verdicts of predicates over both sides on pairs.
The room knows nothing of streams, frontiers or columns.
"""

from muntin.core.join.own_ends import Stays
from muntin.core.join.requirements import EVERYBODY, QueryRequirements
from muntin.core.join.state import JoinState, Judge, StateImage

__all__ = ["EVERYBODY", "JoinState", "Judge", "QueryRequirements", "StateImage", "Stays"]
