"""What EXPLAIN says of one join: its queries, its states slice by slice, its promises, order and schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muntin.model import AUTO, Axis, Settings
from muntin.model.duration import format_us
from muntin.plan.explain.description import (
    AggregatesUse,
    FixedOrdering,
    JoinDescription,
    OrderingForecast,
    PromiseUse,
    QueryUse,
    SchedulingForecast,
    StateSliceUse,
    StateUse,
    StreamPart,
    TreeUse,
    WindowSpan,
)
from muntin.plan.explain.words import (
    DECIDED,
    FIRST,
    LAST,
    LINES,
    any_of,
    byte_size,
    count,
    listed,
    number,
    percent,
    place,
    rounded,
    row_count,
)
from muntin.plan.orderings import FILTER_ORDER, SYNC_FILTER
from muntin.plan.schedulers import SCHEDULERS


def join_lines(join: JoinDescription, names_only: bool, without_rows: set[str]) -> list[str]:
    """The lines of a join; `names_only` where its queries are described elsewhere."""
    lines = [f"join {join.join}  {join.left} x {join.right} on {_on(join)}"]
    if names_only:
        lines.append(f"  queries {listed([query.name for query in join.queries])}")
    else:
        lines += query_lines(join.queries, without_rows)
    if join.tree is not None:
        lines += _tree_lines(join, join.tree)
    if not join.on and join.tree is None:
        lines.append("  every row goes to every shard to look for partners, and is kept in one of them")
    if not join.on:
        lines.append(f"  {_looked_at(join)}")
    elif join.hot_keys_wanted:
        lines.append(f"  {_at_home(join)}")
    for state, part in zip(join.state, join.parts, strict=True):
        lines += _state_lines(state, part)
    lines += [*map(_promise, join.promises), f"  {_order(join.order)}"]
    return [*lines, *(f"  {line}" for line in _scheduling_lines(join.scheduling))]


def _tree_lines(join: JoinDescription, tree: TreeUse) -> Iterator[str]:
    """What it reads of other joins, and how the rows of the other stream come to where that was found."""
    both = join.left, join.right
    if tree.again is not None:
        yield f"  {tree.again} once more, in the shards of join {tree.home}, where its rows are wanted and do not lie"
    for n, (name, source, arrives) in enumerate(zip(both, tree.reads, tree.arrives, strict=True)):
        if source is not None:
            yield f"  {name} is what join {source} finds: it stays in the shard where it was found, without an exchange"
            yield from _passed_on(source, tree.passed_on[n], both[1 - n])
        elif arrives == "by key":
            yield f"  {name} comes to these shards by the same key"
        else:
            yield f"  {name} goes to every shard, since the key is another one: its state is held once for each shard"


def _passed_on(source: int, why_not: str | None, other: str) -> Iterator[str]:
    """Whether the join hears from one below which keys are over, where that one knows it."""
    if why_not == "":
        yield f"  join {source} passes on which keys are over there, which frees rows of {other}"
    elif why_not is not None:
        yield f"  which keys are over in join {source} is not passed on: {why_not}"


def _on(join: JoinDescription) -> str:
    if join.on:
        return " AND ".join(f"{key.left} = {key.right}" for key in join.on)
    conditions = list(dict.fromkeys(str(query.condition) for query in join.queries))
    where = conditions[0] if len(conditions) == 1 else "the condition of some query holds"
    return (
        f"{'any pair (nested loops)' if join.in_order_of is None else 'pairs in a range (ordered index)'} where {where}"
    )


def _looked_at(join: JoinDescription) -> str:
    """Which of the rows that it meets a row looks at, and why."""
    values = join.in_order_of
    if values is None:
        return f"each looks at every partner in its window: {join.every_pair_since}"
    low, high = (end if end is None else format_us(round(end)) if values.time else f"{end:g}" for end in
                 (values.low, values.high))  # fmt: skip
    apart = f"from {low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    order = f"rows are in order of {values.left} and {values.right}"
    return f"{order}: each looks at partners for which {values.right} - {values.left} is {apart}"


def _at_home(join: JoinDescription) -> str:
    """Where the rows of a key with very many of them are."""
    if join.keys_at_home_since is not None:
        return f"all rows of a key are in one shard, however many: {join.keys_at_home_since}"
    return "rows of a key that has very many visit every shard, and each is kept in one (hot_keys)"


def _scheduling_lines(found: SchedulingForecast) -> list[str]:
    """In which order work is done, where that can be seen, and how long each query then waits for its rows."""
    if not Settings(delivery=found.delivery).eager:
        return ["delivery batch: rows go out with their micro-batch, the order of work inside it cannot be seen"]
    name = found.scheduler + DECIDED[found.scheduler_by]
    lines = [f"delivery eager: results go out as they are found, in the order of scheduler {name};"]
    cut = f"runs of {count(found.run_rows, 'row')} go through {count(found.levels, 'level')} of windows"
    why = ", so that every scheduler does the same" if found.levels == 1 else ", by what a row costs"
    lines.append(cut + why)
    if found.at_the_end:
        names = listed(found.at_the_end)
        lines.append(f"aggregates ({names}) go out at the end of their micro-batch, which does all work")
    taken = "; auto takes the lowest mean" if found.scheduler_by == AUTO else ""
    lines.append(f"mean response after {count(found.burst_rows, 'row')} at once, in ms of one core{taken}")
    cells = [("query", *SCHEDULERS.names)]
    for query, times in list(found.response_ms.items())[:LINES]:
        cells.append((query, *(number(times[scheduler]) for scheduler in SCHEDULERS.names)))
    cells.append(("the mean", *(number(found.mean_ms[scheduler]) for scheduler in SCHEDULERS.names)))
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    for query, *shown in cells:
        lines.append(f"  {query:<{widths[0]}}" + "".join(f"  {t:>{w}}" for t, w in zip(shown, widths[1:], strict=True)))
    if (more := len(found.response_ms) - LINES) > 0:
        lines.append(f"  and {more:,} more queries, which --json lists")
    return lines


def _promise(said: PromiseUse) -> str:
    """What a stream promises, and what that does."""
    how = ["each row says that its key is over"] if said.unique else []
    which = "that all keys are over" if said.every_key else "which keys are over"
    how += [f"punctuations say {which}"] if said.punctuated else []
    bound = f" for {format_us(said.binding_us)}" if said.binding_us else " for good"
    why = "by the lags measured" if said.lags_known == "measured" else "if rows and promises of a key come in any order"
    left = "" if said.rows_left is None else f": about {row_count(said.rows_left)} {why}"
    return f"  {said.stream}: {' and '.join(how)}{bound}, which frees rows of {said.frees_rows_of}{left}"


def _order(order: FixedOrdering | OrderingForecast) -> str:
    """What waits while one stream is behind (rows under sync-filter, results under filter-order), and why."""
    if isinstance(order, FixedOrdering):
        return f"{order.ordering}: the join {order.since_the_join}"
    beside = ""
    if order.alpha is not None:
        beside = f", {'below' if order.load < order.alpha else 'not below'} alpha {order.alpha:g}"
    wait, gain = number(1000 * order.response_s[SYNC_FILTER.name]), number(100 * order.gain)
    answers = f"a row waits {wait} ms for its partners' stream, with {FILTER_ORDER.name} {gain}% less"
    return f"{order.ordering}: load {number(order.load)}{beside}; {answers}"


# -- queries ---------------------------------------------------------------------------------------------------------


def query_lines(queries: Sequence[QueryUse], without_rows: set[str]) -> list[str]:
    shown = queries if len(queries) <= LINES else queries[:FIRST]
    width = max(len(query.name) for query in shown)
    vain = {name: "; no row can satisfy this, the output stays empty" for name in without_rows}
    lines = [f"  query {q.name:<{width}}  {_query(q)}{vain.get(q.name, '')}" for q in shown]
    more = len(queries) - len(shown)
    return [*lines, f"  and {more:,} more queries, which --json lists"] if more else lines


def _query(query: QueryUse) -> str:
    """What one query wants of its join, and how much of each stream that is."""
    left, right = query.window
    sizes = [_span(window) for window in (left, right)]
    parts = [f"window {sizes[0]}" if left == right else f"window {sizes[0]} / {sizes[1]}"]
    until = [f"rows of {s} at most until {u}" for u, s in zip(query.until, query.streams, strict=True) if u]
    parts += [" and ".join(until)] if until else []
    parts += [query.join] if query.join else []
    selections = zip(query.selections, query.selectivities, query.streams, strict=True)
    wheres = " and ".join(f"{where} ({percent(share)} of {stream})" for where, share, stream in selections if where)
    parts += [f"where {wheres}"] if wheres else []
    parts += [f"checked on each pair: {query.condition}"] if query.condition else []
    parts += [f"checked on what goes out: {query.after}"] if query.after else []
    if query.past:
        parts.append("from the beginning" if query.past == "beginning" else f"rows since {query.past}")
    return ", ".join(parts) + (f"; {_aggregates(query.aggregates)}" if query.aggregates else "")


def _span(window: WindowSpan) -> str:
    """The ages that a query reads on one side."""
    end = place(window.end, window.axis)
    return f"from {place(window.start, window.axis)} to {end}" if window.start else end


def _aggregates(use: AggregatesUse) -> str:
    """What becomes of the pairs, and where: a group on the join key is whole in its shard."""
    calls, top = listed(use.calls) or "DISTINCT", use.top
    if top:
        calls = f"the {top.limit} first" if top.limit > 1 else "the first"
        calls += f" by {listed(top.order)}"
    groups = f" {'of each' if top else 'by'} {listed(use.groups)}" if use.groups else ""
    when = f"every {format_us(use.every_us)}" if use.every_us else "at every change"
    when = _once(use) if use.final else when
    where = "each group in one shard"
    if use.second_exchange:
        where = "added up in each shard, then over all of them in a second exchange"
        sent = listed(use.distinct_values)
        where += f", with the different values of {sent}" if sent else ""
    if top:
        where = "those of each shard merged in a second exchange" if use.second_exchange else where
        fewer = "no other" if top.limit == 1 else f"fewer than {top.limit} others"
        where += f", of pairs with {fewer} before them for as long as they stay"
    return f"{calls}{groups} {when}, {where}"


def _once(use: AggregatesUse) -> str:
    """When a group is over; where nobody says so, totals of all groups are kept until the streams end."""
    if not use.over_by:
        return "told when the streams end: no promise says before that a key is over"
    who = f"{' and '.join(use.over_by)} say" if use.over_by_all else f"{' or '.join(use.over_by)} says"
    return f"told once, when {who} that the key is over"


# -- states ----------------------------------------------------------------------------------------------------------


def _state_lines(state: StateUse, part: StreamPart | None) -> list[str]:
    axis, slices, stream = state.axis, state.slices, state.stream
    reach = place(state.reach, axis)
    held = (
        f"about {row_count(sum(s.predicted.rows for s in slices))}, {byte_size(sum(s.predicted.bytes for s in slices))}"
    )
    if len(slices) == 1:
        where = _where(slices[0], part)
        kept = f"of the last {reach}, rows where {where}" if where else f"the last {reach}"
        lines = [f"  state of {stream}: {kept}; {held}"]
        lines += [f"    {line}" for line in _routing(slices[0], axis)]
    else:
        lines = [f"  state of {stream}: the last {reach} in {count(len(slices), 'slice')}; {held}"]
        lines += [f"    {line}" for line in _slice_lines(slices, axis)]
    if state.until:
        lines.append(f"    {_own_ends(state, reach)}")
    if axis == Axis.ROWS:
        each = f"{state.sequencing_bytes_per_row_and_shard} bytes a row"
        lines.append(f"    every shard receives the event time of every row of {stream} ({each}) to number the rows")
    return lines


def _own_ends(state: StateUse, reach: str) -> str:
    """Until when rows stay that say so themselves, and how that is known."""
    waits = f"rows wait until {' or '.join(state.until)}, at most {reach}"
    if state.stay_s is None:
        return f"{waits}; how long they stay was not measured: they are taken to stay for {reach}"
    return f"{waits}; they stay for {number(state.stay_s)} s on average, as measured"


def _where(piece: StateSliceUse, part: StreamPart | None) -> str:
    """Which rows are in a state of one slice; empty where all are."""
    if part is None:
        return any_of(piece.selection or [])
    holds, fails = part.holds, part.does_not_hold
    words = [f"{listed(holds)} {'holds' if len(holds) == 1 else 'hold'}"] if holds else []
    words += [f"{listed(fails)} {'does' if len(fails) == 1 else 'do'} not"] if fails else []
    return " and ".join(words) + (" hold" if fails and not holds else "")


def _slice_lines(slices: Sequence[StateSliceUse], axis: str) -> Iterator[str]:
    """A line for each slice, young ones first, and one more where it is merged."""
    cells = [("age", "rows", "read by", "selection before it")]
    shown = slices if len(slices) <= LINES else [*slices[:FIRST], *slices[-LAST:]]
    for piece in shown:
        ages = f"[{place(piece.start, axis)}, {place(piece.end, axis)})"
        selection = "all rows" if piece.selection is None else any_of(piece.selection)
        cells.append((ages, rounded(piece.predicted.rows), listed(piece.readers), selection))
    widths = [max(len(row[n]) for row in cells) for n in range(3)]
    for n, (ages, rows, readers, selection) in enumerate(cells):
        if n == FIRST + 1 and len(shown) < len(slices):
            yield f"and {len(slices) - len(shown):,} more slices, which --json lists"
        yield f"{ages:<{widths[0]}}  {rows:>{widths[1]}}  {readers:<{widths[2]}}  {selection}"
        if n > 0:
            yield from (f"  {line}" for line in _routing(shown[n - 1], axis))


def _routing(piece: StateSliceUse, axis: str) -> list[str]:
    """Of a merged slice, how its pairs find their queries."""
    if not piece.merged:
        return []
    windows = listed([place(window, axis) for window in piece.windows])
    return [f"several windows end in it: pairs are routed by age among {windows}"]
