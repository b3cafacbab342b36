"""When the output is over for a key: punctuations for those who read it (ding2004, theorems 3.1 and 4.1).

After a promise of side S at tp for key v, with `last` the last row of S that has v, a query with window W on S can
bring pairs with v up to the time

    early   max(tp, last + W - 1)      its last row has left its window
    both    max(tp, tp')               the other side has promised the same at tp'

whichever is earlier. At that time, as soon as the join has come past it, the query's output is punctuated for v. Both
times are event times: a query gets the same punctuations however the input is cut, and after every restart.

Where rows of a side go out that have no match, each of them is out `after` its own time. A query that preserves
one side is punctuated by the promises of that side alone, one that preserves both by the second of two promises:

    early   tp + after
    both    max(tp + after, tp' + after')

The last row is not asked for: the promise of the other side may have freed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals import FOREVER
from muntin.core.batch import CLASS, TS
from muntin.core.storage import Memory, SidesImage, StoredRows
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.promises import NONE, Table, bound, finish
from muntin.model import Query, Side
from muntin.plan import SharedJoin
from muntin.plan.families import Family

Over = tuple[Int64s, Int64s, Int64s, Int64s]
RULE, EARLY, BOTH = "rule", "early", "both"
LAPSE = "_lapse"
"""Until when a punctuation of an output is certain."""
FIELDS = 7
NUMBER, AT, LAST, OTHER, KEY1, KEY2, SPEAKS = range(FIELDS)
"""Of pending promises: number, time, last row (NONE: there is none), since when the other side has promised the same
(FOREVER: it has not), both halves of the key, and for which queries it speaks; after them the last rows of each family
of finals."""
FOR_MATCHES, FOR_ITS_SIDE, FOR_BOTH_SIDES, GROUPS_OF_ITS_SIDE, GROUPS_OF_BOTH_SIDES = 1, 2, 4, 8, 16
"""A promise may speak for queries that preserve no side, its own side, or both sides; or only for finals of these: a
quiet one ends groups, too (kernels/promises.py)."""


@dataclass(frozen=True)
class NewPromises:
    """Promises of one side that have just come into force, in order of event time."""

    tp: Int64s
    until: Int64s
    h1: Int64s
    h2: Int64s
    number: Int64s
    last: Int64s
    partner: Int64s
    """The number of the other side's promise for the same key; NONE where it has none."""
    other: Int64s
    """The time of that promise; whatever where there is none."""
    lasts: Int64s
    """For each family of finals, what `last` would be if only its rows counted."""

    def chosen(self, which: Bools) -> NewPromises:
        """Some of them."""
        return NewPromises(
            self.tp[which],
            self.until[which],
            self.h1[which],
            self.h2[which],
            self.number[which],
            self.last[which],
            self.partner[which],
            self.other[which],
            self.lasts[:, which],
        )

    @property
    def quiet(self) -> Bools:
        """Where nobody has rows of the side with the key: its output is over at once."""
        return self.number < 0


def key_names(join: SharedJoin) -> list[str]:
    """How the columns of a join's key are called in its punctuations: as on the left stream, or by a number where they
    are expressions, occur twice, or are called as the rule is."""
    wanted = [pair.left.column[1] if pair.left.column else None for pair in join.keys]
    names: list[str] = []
    for name in wanted:
        taken = {RULE, *(other.lower() for other in names)}
        if name is None or name.lower() in taken:
            taken |= {other.lower() for other in wanted if other is not None}
            name = next(number for n in count(len(names) + 1) if (number := f"key{n}") not in taken)
        names.append(name)
    return names


def punctuation_schema(join: SharedJoin) -> pa.Schema:
    """The columns of the punctuations of a query's output: the key, the event time, and the rule."""
    keys = [pa.field(name, arrow_type(pair.type)) for name, pair in zip(key_names(join), join.keys, strict=True)]
    return pa.schema([*keys, pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False), pa.field(RULE, pa.string())])


class PendingPunctuations:
    """Promises after which some query can still bring rows with the key; each as one column of an array."""

    def __init__(self, memory: Memory, image: SidesImage | None, early: bool, families: int):
        self._memory = memory
        self._early = early
        self._rows = [np.zeros((FIELDS + families, 0), np.int64) for _ in Side]
        self._name: str | None = None
        if image:
            self._name = image.name
            layout = [((FIELDS + families, n), "int64") for n in image.sizes]
            self._rows = [a.copy() for a in memory.arrays(image.name, layout)]

    @property
    def image(self) -> SidesImage:
        """What another process needs to go on with them; they are few beside the rows, and copied each time."""
        if self._name is not None:
            self._memory.discard(self._name)
        self._name = self._memory.name("pending")
        sizes = [rows.shape[1] for rows in self._rows]
        layout = [(rows.shape, "int64") for rows in self._rows]
        for array, rows in zip(self._memory.allocate(self._name, layout), self._rows, strict=True):
            array[:] = rows
        return SidesImage(self._name, sizes)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self._rows)

    def add(self, new_promises: Sequence[NewPromises], preserving: bool) -> None:
        """Take in new promises; one that is the second for its key ends the waiting of the first.

        Of a quiet promise (kernels/promises.py) nothing is said; a second one after it speaks for both. Where some
        query is `preserving` a side, second promises speak too, and quiet ones end groups.
        """
        for side in Side:
            new = new_promises[side]
            is_second = new.partner != NONE
            after_quiet = is_second & (new.partner < 0)
            alone, quiet = ~is_second | after_quiet, new.number < 0
            groups = np.where(is_second, GROUPS_OF_ITS_SIDE | GROUPS_OF_BOTH_SIDES, GROUPS_OF_ITS_SIDE)
            speaks = FOR_MATCHES | FOR_ITS_SIDE | np.where(after_quiet, FOR_BOTH_SIDES, 0)
            other = np.where(is_second, new.other, FOREVER)
            self._append(side, new, alone & ~quiet, other, speaks | groups)
            if preserving:
                speaks = np.where(quiet, FOR_BOTH_SIDES, FOR_ITS_SIDE | FOR_BOTH_SIDES)
                self._append(side, new, ~alone, other, speaks | groups)
                self._append(side, new, alone & quiet, other, groups)
        for side in Side:
            second = np.flatnonzero(new_promises[side].partner >= 0)
            if len(second) and self._rows[side.other].shape[1]:
                self._pair(side, new_promises[side], second)

    def _append(self, side: Side, new: NewPromises, which: Bools, other: Int64s, speaks: Int64s) -> None:
        """Let some promises wait, with since when the other side has promised the same."""
        numbers = np.where(new.number < 0, -2 - new.number, new.number)
        columns = [numbers, new.tp, new.last, other, new.h1, new.h2, speaks, *new.lasts]
        self._rows[side] = np.concatenate([self._rows[side], np.stack(columns)[:, which]], axis=1)

    def _pair(self, side: Side, new: NewPromises, second: Int64s) -> None:
        """Let promises know of those that are second to them."""
        first = self._rows[side.other]
        order = np.argsort(first[NUMBER])
        at = order[np.searchsorted(first[NUMBER], new.partner[second], sorter=order).clip(max=len(order) - 1)]
        found = (first[NUMBER, at] == new.partner[second]) & ((first[SPEAKS, at] & FOR_MATCHES) > 0)
        first[OTHER, at[found]] = new.tp[second[found]]

    def due(
        self,
        join: SharedJoin,
        keys: Sequence[StoredRows],
        tables: Sequence[Table],
        before: int,
        release: int,
        since: Mapping[str, int],
    ) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """For each query, the punctuations of its output with times from `before` on that lie before `release`; and
        what the joins that read it hear of them.

        Queries that came while the job ran hear of promises `since` a time.
        """
        parts: dict[str, list[pa.Table]] = {}
        passed: dict[str, list[pa.Table]] = {}
        for side in Side:
            rows = self._rows[side]
            for alike in _alike(join, side, since) if rows.shape[1] else ():
                early, both = self._ends_of(alike[0], side, rows)
                ends = np.minimum(early, both)
                heard = rows[AT] >= since.get(alike[0].name, NONE)
                chosen = np.flatnonzero(heard & (ends >= before) & (ends < release))
                if len(chosen):
                    sooner = early[chosen] < both[chosen]
                    table = _rendered(join, keys[side], rows[NUMBER, chosen], ends[chosen], sooner)
                    for query in alike:
                        parts.setdefault(query.name, []).append(table)
                    if feeding := [query.name for query in alike if query.name in join.feeds]:
                        over = _passed_on(table, _lapse(tables, side, rows[:, chosen], sooner))
                        for name in feeding:
                            passed.setdefault(name, []).append(over)
        self.settle(join, tables, release)
        heard_of = {name: pa.concat_tables(found) for name, found in passed.items()}
        return {name: in_order(tables_) for name, tables_ in parts.items()}, heard_of

    def _ends_of(self, query: Query, side: Side, rows: Int64s) -> tuple[Int64s, Int64s]:
        """When the output of a query is over by promises of a side, by either rule; FOREVER where they are silent."""
        if not query.preserved:
            return self._ends_of_matches(query, side, rows, rows[LAST])
        own_bit, both_bit = (
            (GROUPS_OF_ITS_SIDE, GROUPS_OF_BOTH_SIDES) if query.final else (FOR_ITS_SIDE, FOR_BOTH_SIDES)
        )
        never = np.full(rows.shape[1], FOREVER)
        own = _after(rows[AT], query.emitted_after(side))
        if query.preserved == (side,):
            return np.where(rows[SPEAKS] & own_bit, own, FOREVER), never
        if len(query.preserved) == 1:
            return never, never
        theirs = _after(rows[OTHER], query.emitted_after(side.other))
        return never, np.where(rows[SPEAKS] & both_bit, np.maximum(own, theirs), FOREVER)

    def _ends_of_matches(self, query: Query, side: Side, rows: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
        early, both = self._ends(rows, query.window.side(side), last)
        speaks = (rows[SPEAKS] & FOR_MATCHES) > 0
        return np.where(speaks, early, FOREVER), np.where(speaks, both, FOREVER)

    def over(self, number: int, family: Family, before: int, release: int, since: Mapping[str, int]) -> Iterator[Over]:
        """The same for a family of finals, which has a number: key, time, number of the window."""
        for side in Side:
            rows = self._rows[side]
            for window, query in enumerate(own.queries[0] for own in family.windows):
                if query.preserved:
                    ends, heard = np.minimum(*self._ends_of(query, side, rows)), rows[AT] >= since.get(query.name, NONE)
                else:
                    ends = np.minimum(*self._ends_of_matches(query, side, rows, rows[FIELDS + number]))
                    heard = np.ones(len(ends), bool)
                due = np.flatnonzero(heard & (ends >= before) & (ends < release))
                yield rows[KEY1, due], rows[KEY2, due], ends[due], np.full(len(due), window)

    def find_last_rows(
        self, last: Callable[[Side, Int64s, Int64s, Int64s], Int64s], release: int, silent: Sequence[bool]
    ) -> None:
        """Ask anew for the last rows of families: by side, both halves of the key, and time; of `silent` sides not.

        Where there is none any more, the output has been punctuated for the key, or a promise of the other side has
        freed it and will punctuate. Only at the release point itself it is still to be punctuated: a row that can only
        be the later one of a pair is not kept, and a promise of its own time ends its key there.
        """
        for side in Side:
            rows = self._rows[side][:FIELDS]
            lasts = last(side, rows[KEY1], rows[KEY2], rows[AT])
            over = ((lasts == NONE) & (rows[AT] < release)) | silent[side]
            self._rows[side] = np.concatenate([rows, np.where(over, FOREVER, lasts)])

    def settle(self, join: SharedJoin, tables: Sequence[Table], release: int) -> None:
        """Let go of promises that every query's output has been punctuated for.

        Rows of the other side that come after such an end need not even probe (ding2004 4.4, `propagated`).
        """
        for side in Side:
            rows = self._rows[side]
            if rows.shape[1]:
                early, both = self._ends(rows, join.reach(side), rows[LAST])
                speaks = rows[SPEAKS] & (FOR_BOTH_SIDES | GROUPS_OF_BOTH_SIDES)
                ends = np.where(rows[SPEAKS] & FOR_MATCHES, np.minimum(early, both), rows[AT])
                for query in (query for query in join.queries if side in query.preserved):
                    ends = np.maximum(ends, _after(rows[AT], query.emitted_after(side)))
                    ends = np.maximum(
                        ends, np.where(speaks, _after(rows[OTHER], query.emitted_after(side.other)), NONE)
                    )
                over = ends < release
                done = rows[:, over]
                finish(tables[side], done[KEY1], done[KEY2], done[NUMBER], early[over])
                if join.hears[side]:  # no row tells when it is over; so it waits for as long as it binds
                    over |= _bound(tables[side], rows)[1] < release
                self._rows[side] = rows[:, ~over]

    def _ends(self, rows: Int64s, window: int, last: Int64s) -> tuple[Int64s, Int64s]:
        """When the output of a query with this window is over, by either rule."""
        both = np.where(rows[OTHER] == FOREVER, FOREVER, np.maximum(rows[AT], rows[OTHER]))
        if not self._early:
            return np.full_like(both, FOREVER), both
        gone = _after(last, window - 1)
        return np.maximum(rows[AT], np.where(last == FOREVER, FOREVER, gone)), both


def _after(times: Int64s, duration: int) -> Int64s:
    """Times that lie so much later; none where there is none."""
    return np.where(times == NONE, NONE, np.minimum(times, FOREVER - duration) + duration)


def _bound(table: Table, rows: Int64s) -> tuple[Int64s, Int64s]:
    """From when and until when the keys of pending promises are promised."""
    begins, ends = np.full(rows.shape[1], NONE), np.full(rows.shape[1], NONE)
    bound(table, np.ascontiguousarray(rows[KEY1]), np.ascontiguousarray(rows[KEY2]), begins, ends)
    return begins, ends


def _lapse(tables: Sequence[Table], side: Side, rows: Int64s, early: Bools) -> Int64s:
    """Until when the output stays over for the keys of some promises: as long as they bind, and where the other side
    has had to promise the same, as long as that binds, too. NONE where they have lapsed."""
    (begins, own), (others, theirs) = (_bound(tables[s], rows) for s in (side, side.other))
    own = np.where(begins == rows[AT], own, NONE)
    theirs = np.where(others == rows[OTHER], theirs, NONE)
    return np.where(early, own, np.minimum(own, theirs))


def _passed_on(table: pa.Table, lapse: Int64s) -> pa.Table:
    """Punctuations of an output as the joins that read it hear them."""
    times = table["_ts"].cast(pa.int64())
    return table.drop_columns(["_ts", RULE]).add_column(0, TS, times).add_column(1, LAPSE, pa.array(lapse))


def _alike(join: SharedJoin, side: Side, since: Mapping[str, int]) -> Iterable[list[Query]]:
    """The queries in groups whose outputs are over at the same times."""
    found: dict[object, list[Query]] = {}
    for query in join.queries:
        after = tuple(query.emitted_after(s) if s in query.preserved else None for s in (side, side.other))
        found.setdefault((query.window.side(side), after, since.get(query.name)), []).append(query)
    return found.values()


def _rendered(join: SharedJoin, keys: StoredRows, numbers: Int64s, ends: Int64s, early: Bools) -> pa.Table:
    found, places = keys.fetch(numbers)
    schema = punctuation_schema(join)
    values = [c.take(pa.array(places)) for c in found.drop_columns([TS, CLASS]).columns]
    rules = pa.array(np.where(early, EARLY, BOTH).tolist(), pa.string())
    return pa.Table.from_arrays([*values, pa.array(ends).cast(schema.field("_ts").type), rules], schema=schema)


def in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """Punctuations of one output by event time."""
    table = pa.concat_tables(tables)
    return table.take(pa.array(np.argsort(table["_ts"].cast(pa.int64()).to_numpy(), kind="stable")))


def spoken_by(
    join: int, found: Mapping[str, pa.Table], speakers: Mapping[str, tuple[int, bool]]
) -> dict[str, pa.Table]:
    """The punctuations of outputs that a join may publish (`plan.punctuation.speakers`).

    Of a query that several joins feed, one of them speaks, and says only what holds for all: that both inputs are over.
    """
    tables = {}
    for name, table in found.items():
        if name not in speakers:
            continue
        speaker, alone = speakers[name]
        if not alone:
            table = table.filter(pc.equal(table[RULE], BOTH))
        if speaker == join and table.num_rows:
            tables[name] = table
    return tables
