"""What a correct answer is, in plain Python: slow, obvious, and the judge of everything else.

`join` says which rows count and which pairs match, `own_windows` until when a row waits, `outer` what a query makes of
its matches and of rows without one, `many` which rows of more than two streams belong together,
`punctuations` what promises do, `aggregates` what groups show. A row maps column names to values; its event time is in
int microseconds, None for NULL. Keys, selections and conditions are callables, so nothing here needs the engine.
Sections are those of docs/semantics.md.
"""

from muntin.oracle.aggregates import By, aggregate, final, first
from muntin.oracle.join import DeadLetter, Key, Pair, Promise, Row, admit, answer, columns, same_key
from muntin.oracle.many import answer_of_many
from muntin.oracle.outer import NULLS, delivered
from muntin.oracle.own_windows import Untils
from muntin.oracle.punctuations import admit_both, ends, promised

__all__ = [
    "NULLS",
    "By",
    "DeadLetter",
    "Key",
    "Pair",
    "Promise",
    "Row",
    "Untils",
    "admit",
    "admit_both",
    "aggregate",
    "answer",
    "answer_of_many",
    "columns",
    "delivered",
    "ends",
    "final",
    "first",
    "promised",
    "same_key",
]
