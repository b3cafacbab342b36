"""Which rows have a match: what outer, semi, anti and as-of joins make of the pairs that were found.

The pairs are found once for all queries. For each row that some query asks about, it is kept once for which of these
queries it has met a partner. `needs` says what each query asks, `departures` are the rows in time order: as they leave
a query's window, `matches` emits those of them that have met nobody. `own_departures` are those whose windows are their
own.
"""

from muntin.core.matches.matches import ROW, Matches, MatchesImage, MatchesMeta
from muntin.core.matches.needs import MatchNeeds

__all__ = ["ROW", "MatchNeeds", "Matches", "MatchesImage", "MatchesMeta"]
