"""What becomes of the pairs of a join whose queries ask whether a row has a match.

A row that a query preserves goes out when it leaves the query's window, `emitted_after` its own time, unless it has
met a partner by then. For which queries a row has met one is kept beside the row (`StoredRows`), and logged as it
changes. A row without a partner travels as a pair with nobody: its other row has the number `NOBODY`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from muntin.core.arrivals import FOREVER, Intake
from muntin.core.batch import TS, Counters
from muntin.core.matches.departures import Departures, DeparturesImage
from muntin.core.matches.needs import MatchNeeds
from muntin.core.matches.own_departures import OwnDepartures, OwnDeparturesImage
from muntin.core.results import NOBODY, FoundPairs
from muntin.core.selections import Selections, everybody, wanted_by
from muntin.core.storage import ChunkKind, ChunkLog, Memory, StoredRows, distinct
from muntin.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from muntin.kernels.join import Pairs, Rows
from muntin.kernels.matches import keep_latest, note_matches
from muntin.model import Side
from muntin.plan import SharedJoin

ROW = "row"


@dataclass(frozen=True)
class MatchesMeta:
    """What is durable beside the chunks."""

    since: dict[str, int] = field(default_factory=dict)
    """Queries that came while the job ran: of rows before this time they cannot know whether these have a match."""
    logged: int = 0
    """Chunks that have been written."""


@dataclass(frozen=True)
class MatchesImage:
    """What another process needs, beside `MatchesMeta` and the memory, to go on."""

    departures: list[DeparturesImage]
    own: list[OwnDeparturesImage]


class Matches:
    def __init__(self, join: SharedJoin, memory: Memory, meta: MatchesMeta, image: MatchesImage | None = None):
        self._join = join
        self._since = dict(meta.since)
        self._logged = meta.logged
        self._needs = MatchNeeds(join)
        self._departures = [Departures(memory, image.departures[side] if image else None) for side in Side]
        self._own = [
            OwnDepartures(memory, self._needs.emitted_at_own_ends[side], image.own[side] if image else None)
            for side in Side
        ]

    @property
    def meta(self) -> MatchesMeta:
        return MatchesMeta(self._since, self._logged)

    @property
    def image(self) -> MatchesImage:
        return MatchesImage([rows.image for rows in self._departures], [rows.image for rows in self._own])

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self._departures) + sum(rows.nbytes for rows in self._own)

    def waiting(self, side: Side) -> list[Int64s]:
        """Times, numbers and last ages of the rows of a side that may still have to go out alone."""
        return self._departures[side].rows

    def waiting_for_own_ends(self, side: Side) -> Int64s:
        """The numbers of those that do at times of their own."""
        return self._own[side].waiting[1]

    @property
    def words(self) -> int:
        """Words of bits that are kept for each row."""
        return self._needs.words

    def preserves(self, side: Side) -> bool:
        """Whether rows of a side go out that have no match."""
        return bool(self._needs.emitted[side] or self._needs.emitted_at_own_ends[side])

    # -- rows are joined ------------------------------------------------------------------------------------------

    def joined(
        self,
        rows: Rows,
        selections: Sequence[Selections],
        payload: Sequence[StoredRows],
        emitted_until: int | None = None,
    ) -> None:
        """Rows in time order have just been joined: those that may have to go out alone will be looked at again.

        `emitted_until`: they had been joined before, and what had to be emitted up to this time has been.
        """
        for side in Side:
            if not self.preserves(side):
                continue
            wants, needs = selections[side].wants, self._needs
            mine = np.flatnonzero((rows.side == side) & ~Intake.only_visit(rows.row))
            if needs.emitted_at_own_ends[side]:
                numbers, places = distinct(rows.row[mine])
                times = payload[side].times_of(numbers)[places]
                self._own[side].joined(rows.row[mine], rows.cls[mine], times, wants, emitted_until)
            if emitted_until is not None:
                mine = mine[rows.ts[mine] > emitted_until - needs.longest(side)]
            last = needs.last_ages(side, wants)[rows.cls[mine]]
            mine, last = mine[last >= 0], last[last >= 0]
            self._departures[side].append(rows.ts[mine], rows.row[mine], last)

    def settle(self, found: FoundPairs, before: int, release: int, chunks: ChunkLog, counters: Counters) -> FoundPairs:
        """What goes out of the pairs that were found, with the rows that have turned out to have no match."""
        if not self._needs.words:
            return found
        bits = self._note(found, release, chunks)
        alone = [self._alone(found, side, before, release) for side in Side]
        for side in Side:
            self._departures[side].leave(release - self._needs.longest(side))
        self._since = {name: ts for name, ts in self._since.items() if ts + self._needs.reach > release}
        rows = [found.pairs.rows, *(lonely.rows for lonely, _ in alone)]
        ts = [found.pairs.ts, *(lonely.ts for lonely, _ in alone)]
        tags = [found.pairs.tag, *(lonely.tag for lonely, _ in alone)]
        every = np.concatenate([bits, *(mask for _, mask in alone)])
        counters.unmatched += len(every) - len(bits)
        chosen = np.flatnonzero(every.any(axis=1))
        times = np.concatenate(ts)
        order = chosen[np.argsort(times[chosen], kind="stable")]
        verdicts, allowed = _numbered(every[order])
        pairs = Pairs(np.concatenate(rows, axis=1)[:, order], times[order], np.concatenate(tags)[order], verdicts)
        return found.with_verdicts(pairs, allowed)

    def to_emit(self, side: Side, payload: StoredRows, wants: UInt64s, release: int) -> tuple[Int64s, Int64s]:
        """Times and numbers of the rows that some query may still have to emit, as far as matches are known."""
        ts, numbers, last = self._departures[side].rows
        waiting = np.flatnonzero(release - ts < last)
        waiting = waiting[np.argsort(numbers[waiting])]
        classes, met = payload.known_of(numbers[waiting])
        waiting = waiting[(wants[classes] & self._needs.preserved[side] & ~met).any(axis=1)]
        own_ts, own = self._own[side].waiting
        classes, met = payload.known_of(own)
        still = (wants[classes] & self._needs.preserved[side] & ~met).any(axis=1) & ~np.isin(own, numbers[waiting])
        return np.concatenate([ts[waiting], own_ts[still]]), np.concatenate([numbers[waiting], own[still]])

    def _note(self, found: FoundPairs, release: int, chunks: ChunkLog) -> UInt64s:
        """Note who has met whom; for each pair the queries to which it goes."""
        pairs, needs = found.pairs, self._needs
        rows, places = zip(*(distinct(pairs.rows[side]) for side in Side), strict=True)
        classes, met = zip(*(found.payload[side].known_of(rows[side]) for side in Side), strict=True)
        each = [classes[side][places[side]] for side in Side]
        bits = wanted_by(self._join, found.wants, each, pairs.tag, pairs.verdict)
        for side in Side:
            if self._since and (chosen := needs.once[side] | needs.latest[side]).any():
                late = self._too_late(found.payload[side].take(rows[side])[TS].to_numpy())
                bits &= ~(late & chosen)[places[side]]
            if needs.tracked[side].any():
                known = met[side].copy()
                note_matches(bits, places[side], met[side], needs.tracked[side], needs.once[side])
                self._log(found.payload[side], side, rows[side], known, met[side], release, chunks)
            if needs.latest[side].any():
                ties = (pairs.tag & 1) == side
                keep_latest(bits, places[side], ties, needs.latest[side], np.zeros_like(met[side]))
        bits &= ~needs.anti
        if needs.after.predicates:
            bits &= self._allowed(found, pairs.rows)
        return bits

    def _too_late(self, times: Int64s) -> UInt64s:
        """For rows of these times the queries that cannot know whether they have a match."""
        late = np.zeros((len(times), self._needs.words), np.uint64)
        for n, name in enumerate(self._needs.names):
            if name in self._since:
                late[times < self._since[name], n // 64] |= np.uint64(1 << n % 64)
        return late

    def _allowed(self, found: FoundPairs, rows: Int64s) -> UInt64s:
        """For each pair that would go out, the queries that let it; where one side is `NOBODY`, it is in all pairs."""
        after, columns = self._needs.after, {"_": pa.nulls(rows.shape[1])}
        for side in Side:
            payload, names = found.payload[side], after.columns(side)
            if rows.shape[1] and rows[side, 0] == NOBODY:
                columns |= {side.prefix + n: pa.nulls(rows.shape[1], payload.schema.field(n).type) for n in names}
                continue
            table, places = payload.fetch(rows[side])
            columns |= {side.prefix + name: table[name].take(pa.array(places)) for name in names}
        numbers = after.numbers(pa.table(columns))  # which may learn new ones
        return after.wants[numbers]

    def _alone(self, found: FoundPairs, side: Side, before: int, release: int) -> tuple[Pairs, UInt64s]:
        """The rows of a side that have left a query's window without a match, and the queries to which they go."""
        parts: list[tuple[Int64s, Int64s, UInt64s]] = []
        for queries, at, ts, numbers in self._leaving(side, before, release):
            order = np.argsort(numbers)
            at, ts, numbers = at[order], ts[order], numbers[order]
            classes, met = found.payload[side].known_of(numbers)
            bits = found.wants[side][classes] & queries & ~met
            if self._since:
                bits &= ~self._too_late(ts)
            some = bits.any(axis=1)
            parts.append((numbers[some], at[some], bits[some]))
        none = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, self._needs.words), np.uint64)
        numbers, ts, bits = (np.concatenate(each) for each in zip(none, *parts, strict=True))
        rows = np.full((2, len(numbers)), NOBODY, np.int64)
        rows[side] = numbers
        tags = np.full(len(ts), 2 * everybody(self._join) + side, np.int32)
        pairs = Pairs(rows, ts, tags, np.zeros(0, np.int32))
        if self._needs.after.predicates:
            bits &= self._allowed(found, rows)
        return pairs, bits

    def _leaving(self, side: Side, before: int, release: int) -> Iterator[tuple[UInt64s, Int64s, Int64s, Int64s]]:
        """Queries, and the rows of a side that leave their windows: when, their own times, and numbers."""
        for age, queries in self._needs.emitted[side]:
            ts, numbers = self._departures[side].reaching(age, before, release)
            yield queries, ts + age, ts, numbers
        yield from self._own[side].due(release)

    # -- what is durable ------------------------------------------------------------------------------------------

    def _log(
        self,
        payload: StoredRows,
        side: Side,
        rows: Int64s,
        before: UInt64s,
        met: UInt64s,
        release: int,
        chunks: ChunkLog,
    ) -> None:
        """Keep what has changed, in memory and in the log, for as long as somebody may ask."""
        changed = np.flatnonzero((met != before).any(axis=1))
        if len(changed):
            payload.note_met(rows[changed], met[changed])
            self._write(side, rows[changed], met[changed], release, chunks)

    def _write(self, side: Side, rows: Int64s, met: UInt64s, release: int, chunks: ChunkLog) -> None:
        if release == FOREVER:  # all rows are emitted now
            return
        table = pa.table({ROW: rows, **{f"met{n}": met[:, n] for n in range(met.shape[1])}})
        until = release + self._needs.reach
        chunks.write(ChunkKind.MET, side, self._logged, table, until)
        self._logged += 1

    def turn_away(self, side: Side, rows: Int64s, payload: StoredRows, release: int, chunks: ChunkLog) -> None:
        """Note of rows that go to nobody that they are not to be emitted: after a restart they are among the others."""
        if len(rows) and self.preserves(side):
            rows = np.sort(rows)
            met = np.full((len(rows), self._needs.words), ~np.uint64(0))
            payload.note_met(rows, met)
            self._write(side, rows, met, release, chunks)

    def renumber(
        self, side: Side, old: Int64s, new: Int64s, payload: StoredRows, release: int, chunks: ChunkLog
    ) -> None:
        """Go on with the rows that have some numbers, ascending, under new ones, which are stored already."""
        if self._needs.words and len(old):
            self._departures[side].renumber(old, new)
            self._own[side].renumber(old, new)
            _, met = payload.known_of(old)
            some = np.flatnonzero(met.any(axis=1))
            some = some[np.argsort(new[some])]
            if len(some):
                payload.note_met(new[some], met[some])
                self._write(side, new[some], met[some], release, chunks)

    def forget(self, side: Side, which: Callable[[Int64s], Bools]) -> None:
        """Tell the rows no more that have certain numbers."""
        _, numbers, last = self._departures[side].rows
        last[which(numbers)] = -1
        self._own[side].forget(which)

    def restore(
        self,
        rows: Rows,
        release: int,
        selections: Sequence[Selections],
        payload: Sequence[StoredRows],
        chunks: ChunkLog,
        tables: Mapping[str, pa.Table],
    ) -> None:
        """Go on from the chunks; `rows` are those that have been joined, in time order."""
        self.joined(rows, selections, payload, release)
        for kind, side, _, name in chunks:
            if kind is ChunkKind.MET and self._needs.words:
                table = tables[name]
                numbers = table[ROW].to_numpy()
                there = np.isin(numbers, payload[side].numbers)
                met = np.stack([table[f"met{n}"].to_numpy() for n in range(self._needs.words)], axis=1)
                payload[side].note_met(numbers[there], met[there])

    # -- queries come and go --------------------------------------------------------------------------------------

    def change(
        self,
        join: SharedJoin,
        new: Collection[str],
        payload: Sequence[StoredRows],
        release: int,
        chunks: ChunkLog,
    ) -> None:
        """Go on with other queries: of the `new` ones nothing is known yet."""
        old, self._join = self._needs, join
        self._needs = needs = MatchNeeds(join)
        self._since = {name: ts for name, ts in self._since.items() if name in needs.names and name not in new}
        if not old.words and not needs.words:
            return
        chunks.remove([name for kind, _, _, name in list(chunks) if kind is ChunkKind.MET])
        for side in Side:
            payload[side].change_met(needs.words, lambda bits: needs.moved(old, set(new), bits))
            rows, met = payload[side].have_met
            if len(rows):
                self._write(side, rows, met, release, chunks)
            if not needs.emitted[side]:
                self._departures[side].leave(FOREVER)
            self._own[side].change(needs.emitted_at_own_ends[side])

    def relist(self, selections: Sequence[Selections], payload: Sequence[StoredRows], release: int) -> None:
        """Once the rows have their classes by the new queries: say anew until when each may be emitted."""
        for side in Side:
            ts, numbers, last = self._departures[side].rows
            there = np.flatnonzero(release - ts < last)
            there = there[np.argsort(numbers[there])]
            classes, _ = payload[side].known_of(numbers[there])
            last[:] = np.minimum(last, 0)
            last[there] = self._needs.last_ages(side, selections[side].wants)[classes]
            self._own[side].relist(selections[side].wants, payload[side])

    def begin(self, complete: Mapping[str, int | None]) -> dict[str, int | None]:
        """New queries get all pairs from these times on: from when on they get all their rows."""
        found = dict(complete)
        for query in self._join.queries:
            since = complete.get(query.name)
            if query.is_inner or since is None:
                continue
            asked = [*query.preserved, *([] if query.subject is None else [query.subject])]
            self._since[query.name] = since
            found[query.name] = since + max(query.emitted_after(side) for side in asked)
        return found


def _numbered(bits: UInt64s) -> tuple[Int32s, UInt64s]:
    """Distinct sets of queries by number: the number of each, and the sets."""
    numbers = np.zeros(len(bits), np.int64)
    for word in bits.T:
        codes = pa.array(word).dictionary_encode()
        together = numbers * len(codes.dictionary) + codes.indices.to_numpy()
        numbers = pa.array(together).dictionary_encode().indices.to_numpy().astype(np.int64)
    count = int(numbers.max()) + 1 if len(numbers) else 0
    first = np.zeros(count, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return numbers.astype(np.int32), bits[first] if count else np.zeros((1, bits.shape[1]), np.uint64)
