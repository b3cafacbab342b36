"""Which kind of join a SELECT asks for: read from FROM, and from EXISTS in WHERE.

| text | matches | rows without a match |
|---|---|---|
| `A, B`, `A JOIN B` | each goes out | |
| `A LEFT JOIN B`, `RIGHT`, `FULL` | each goes out | of the preserved streams |
| `A LEFT SEMI JOIN B`, `EXISTS (SELECT ...)` | the first one of a row of A | |
| `A LEFT ANTI JOIN B`, `NOT EXISTS (SELECT ...)` | none | of A |
| `A ASOF JOIN B`, `A ASOF LEFT JOIN B` | of a row of A, the latest one | with LEFT: of A |
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from muntin.model import JobSpec, JoinKind, Side
from muntin.sql.places import SqlText
from muntin.sql.sources import Names, Source, position, qualify, read_source

_ON = "write FROM A, B or A JOIN B ON A.k = B.k"
_IN_EXISTS = "write EXISTS (SELECT 1 FROM B WHERE B.k = A.k)"


@dataclass(frozen=True)
class _Form:
    """Which stream of FROM (0 or 1) a join is about, and of which the rows without a match go out."""

    kind: JoinKind = JoinKind.PAIRS
    subject: int | None = None
    preserved: tuple[int, ...] = ()


_INNER = _Form()
_SEMI = _Form(JoinKind.SEMI, 0)
_ANTI = _Form(JoinKind.ANTI, 0, (0,))
_FORMS = {
    "": _INNER,
    "INNER": _INNER,
    "LEFT": _Form(preserved=(0,)),
    "RIGHT": _Form(preserved=(1,)),
    "FULL": _Form(preserved=(0, 1)),
    "SEMI": _SEMI,
    "LEFT SEMI": _SEMI,
    "ANTI": _ANTI,
    "LEFT ANTI": _ANTI,
    "ASOF": _Form(JoinKind.ASOF, 0),
    "ASOF LEFT": _Form(JoinKind.ASOF, 0, (0,)),
}
_HINTS = {
    "CROSS": _ON,
    "NATURAL": "name the equalities: A JOIN B ON A.k = B.k",
    "SEMI": "write it the other way round: B LEFT SEMI JOIN A ON ...",
    "ANTI": "write it the other way round: B LEFT ANTI JOIN A ON ...",
    "ASOF": "write A ASOF JOIN B ON ... or A ASOF LEFT JOIN B ON ...",
}
_JOINS = "joins are JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, LEFT SEMI JOIN, LEFT ANTI JOIN and ASOF JOIN"


@dataclass(frozen=True)
class Joined:
    """Two streams, how they are joined, and the conditions of ON and WHERE."""

    sides: tuple[Source, Source]
    shown: tuple[Source, ...]
    """The streams whose columns may be selected, in the order of the text."""
    called: str
    node: exp.Expr
    on: tuple[exp.Expr, ...]
    where: tuple[exp.Expr, ...]
    windows: tuple[exp.Expr, ...]
    kind: JoinKind = JoinKind.PAIRS
    subject: Side | None = None
    preserved: tuple[Side, ...] = ()

    @property
    def is_inner(self) -> bool:
        return self.kind is JoinKind.PAIRS and not self.preserved

    @property
    def subject_of_where(self) -> Side | None:
        """The one stream on which WHERE decides before the join; None where it decides on what comes out."""
        return self.subject if self.subject is not None else self.preserved[0] if len(self.preserved) == 1 else None


def read_join(text: SqlText, spec: JobSpec, select: exp.Select) -> Joined:
    """What FROM and WHERE say of the two streams."""
    joins = select.args.get("joins") or []
    where = conjuncts([select.args["where"].this] if select.args.get("where") else [])
    first = read_source(text, spec, select.args["from_"].this)
    asked = [node for node in where if exists_of(node) is not None]
    windows = tuple(select.args.get("windows") or ())
    if len(asked) > 1:
        raise text.refuse("a second EXISTS", asked[1], "write the first one as a query, and this one over that query")
    if not joins and not asked:
        _refuse_subqueries(text, where)
        hint = "write FROM A, B or A JOIN B ON"
        raise text.error("a query joins two streams, this has one", first.node, hint)
    if joins:
        form, called = join_form(text, joins[0])
        second = read_source(text, spec, joins[0].this)
        node, on = joins[0], conjuncts([joins[0].args["on"]] if joins[0].args.get("on") else [])
    else:
        node = asked[0]
        inner = _inner_select(text, node)
        form, called = (_ANTI, "NOT EXISTS") if isinstance(node.unnest(), exp.Not) else (_SEMI, "EXISTS")
        second = read_source(text, spec, inner.args["from_"].this)
        on = conjuncts([inner.args["where"].this] if inner.args.get("where") else [])
        qualify([*on, *inner.expressions, *(inner.args.get("windows") or ())], second)
        for item in inner.expressions:
            Names(text, (first, second)).used(item)
        where = [condition for condition in where if condition is not node]
        windows += tuple(inner.args.get("windows") or ())
    _refuse_subqueries(text, [*on, *where])
    return _joined(text, spec, [first, second], form, called, node, on, where, windows, select)


def _joined(
    text: SqlText, spec: JobSpec, sources: list[Source], form: _Form, called: str, node: exp.Expr,
    on: list[exp.Expr], where: list[exp.Expr], windows: tuple[exp.Expr, ...], select: exp.Select,
) -> Joined:  # fmt: skip
    first, second = sources
    if first.alias.lower() == second.alias.lower():
        hint = "give each its own alias: FROM S A, S B"
        raise text.error(f"both streams are called {second.alias}", second.node, hint)
    left, right = sorted(sources, key=lambda source: position(spec, source))
    side = [Side.LEFT if source is left else Side.RIGHT for source in sources]
    shown = tuple(sources)
    if form.kind in (JoinKind.SEMI, JoinKind.ANTI):
        shown = (first,)
        seen = [*select.expressions, *where]
        qualify([*seen, *windows], first)
        _check_visible(text, seen, second, called)
    return Joined(
        (left, right), shown, called, node, tuple(on), tuple(where), windows, form.kind,
        side[form.subject] if form.subject is not None else None, tuple(sorted(side[n] for n in form.preserved)),
    )  # fmt: skip


def join_form(text: SqlText, join: exp.Expr) -> tuple[_Form, str]:
    """The form of a JOIN, and what to call it."""
    words = [str(join.args[arg]).upper() for arg in ("method", "side", "kind") if join.args.get(arg)]
    called = " ".join([*words, "JOIN"])
    if join.args.get("side") and words[-1] == "OUTER":
        words.pop()
    form = _FORMS.get(" ".join(words))
    if form is None:
        raise text.refuse(called, join, next((_HINTS[word] for word in words if word in _HINTS), _JOINS))
    as_of = " AND A.ts >= B.ts" if form.kind is JoinKind.ASOF else ""
    for arg, value in join.args.items():
        if value and arg not in ("this", "on", "method", "side", "kind"):
            raise text.refuse(f"{called} with {arg.upper()}", join, f"write A {called} B ON A.k = B.k{as_of}")
    return form, called


def exists_of(node: exp.Expr) -> exp.Exists | None:
    """The EXISTS of `EXISTS (...)` and `NOT EXISTS (...)`."""
    node = node.unnest()
    if isinstance(node, exp.Not):
        node = node.this.unnest()
    return node if isinstance(node, exp.Exists) else None


def _inner_select(text: SqlText, node: exp.Expr) -> exp.Select:
    exists = exists_of(node)
    inner = exists.this if exists is not None else None
    if not isinstance(inner, exp.Select) or not inner.args.get("from_"):
        raise text.error("EXISTS needs a SELECT over a stream", node, _IN_EXISTS)
    for arg, value in inner.args.items():
        if value and arg == "joins":
            raise text.refuse("a join of more than two streams", value[0], "EXISTS takes one stream")
        if value and arg not in ("expressions", "from_", "where", "windows"):
            at = value if isinstance(value, exp.Expr) else inner
            raise text.refuse(f"{arg.replace('_', ' ').strip().upper()} inside EXISTS", at, _IN_EXISTS)
    for item in inner.expressions:
        if not isinstance(item, exp.Star | exp.Literal | exp.Column):
            raise text.refuse("anything but *, a number or a column in SELECT inside EXISTS", item, _IN_EXISTS)
    return inner


def _check_visible(text: SqlText, nodes: list[exp.Expr], hidden: Source, called: str) -> None:
    for column in (c for node in nodes for c in node.find_all(exp.Column)):
        if column.table.lower() == hidden.alias.lower():
            hint = f"{hidden.alias} only decides which rows go out; to select from it, write A JOIN B or A LEFT JOIN B"
            raise text.error(f"{column.table} cannot be seen outside of {called}", column, hint)


def _refuse_subqueries(text: SqlText, conditions: list[exp.Expr]) -> None:
    """No SELECT inside: its names would be taken for those of the two streams."""
    for condition in conditions:
        if (inner := condition.find(exp.Query)) is None:
            continue
        found = condition.find(exp.In)
        if found is not None and found.args.get("query") is not None:
            word = "NOT EXISTS" if isinstance(found.parent, exp.Not) else "EXISTS"
            hint = f"write {word} (SELECT 1 FROM B WHERE B.k = A.k) with the stream of the subquery for B"
            raise text.refuse("IN with a subquery", inner, hint)
        hint = "join the two streams of FROM only; EXISTS stands alone or beside AND"
        raise text.refuse("a subquery", inner, hint)


def conjuncts(conditions: list[exp.Expr]) -> list[exp.Expr]:
    """The parts of conditions all of which must be true."""
    found: list[exp.Expr] = []
    stack = list(reversed(conditions))
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And | exp.Paren | exp.EQ):
            stack.append(node.this)
        else:
            found.append(node)
    return found
