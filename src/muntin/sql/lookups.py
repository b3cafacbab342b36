"""Tables in FROM: which stream each is joined to, and its columns as columns of that stream.

    FROM A JOIN B ON A.k = B.k JOIN Places P ON A.place = P.id      FROM A JOIN B ON A.k = B.k
    WHERE P.floor > 2                                           ->  WHERE A.`floor of ...` > 2 AND A.`found`

A table is joined before the window join, by a key: each row of the stream finds one row of the table or none. So the
join is gone from the query, the stream has more columns, and `JOIN` is a selection of that stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from muntin.model import DimensionTable, JobSpec, Lookup, LookupKey, Side, Stream, common_type
from muntin.model.types import Field
from muntin.sql.expressions import Expressions, output_name
from muntin.sql.joins import conjuncts
from muntin.sql.names import find
from muntin.sql.nested import unfold_fields
from muntin.sql.places import SqlText, did_you_mean, listing
from muntin.sql.punctuate import StreamNames
from muntin.sql.tree import StreamRef

_ON = "write JOIN Places P ON A.place = P.id, or LEFT JOIN"
_UNFIT = ("float", "double")
"""Types of which two values that look alike need not be equal."""


@dataclass(frozen=True)
class Attached:
    """A query without its tables, the streams with the columns that it has of them, and what is looked up."""

    select: exp.Select
    spec: JobSpec
    lookups: tuple[Lookup, ...] = ()


def take_tables(text: SqlText, spec: JobSpec, select: exp.Select) -> Attached:
    """A query over streams only."""
    if not any(_table_of(spec, item.this) for item in (select.args["from_"], *(select.args.get("joins") or []))):
        return Attached(select, spec)
    return _Tables(text, spec, select.copy()).attached()


def _table_of(spec: JobSpec, node: exp.Expr) -> DimensionTable | None:
    """The table that an item of FROM names."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return None
    name = find(spec.tables, ".".join(part.name for part in node.parts))
    return spec.tables[name] if name is not None else None


@dataclass
class _Item:
    """A table of FROM; `at` is its place among the joins."""

    alias: str
    table: DimensionTable
    join: exp.Join
    at: int
    outer: bool
    lookup: Lookup | None = None
    wanted: dict[str, Field] = field(default_factory=dict)

    @property
    def found(self) -> Lookup:
        assert self.lookup is not None
        return replace(self.lookup, columns=tuple(self.wanted.values()))


class _Tables:
    def __init__(self, text: SqlText, spec: JobSpec, select: exp.Select):
        self.text, self.spec, self.select = text, spec, select
        first, joins = select.args["from_"].this, select.args.get("joins") or []
        if _table_of(spec, first) is not None:
            raise text.error(
                f"FROM begins with the table {first.name}", first, "begin with a stream: FROM A, B, Places P"
            )
        self.items = [self._item(join, n) for n, join in enumerate(joins) if _table_of(spec, join.this) is not None]
        self.joins = [(n, join) for n, join in enumerate(joins) if _table_of(spec, join.this) is None]
        self.streams: dict[str, Stream] = {}
        """The streams of FROM by their aliases, in the order of the text."""
        for node in (first, *(join.this for _, join in self.joins)):
            name = find(spec.streams, ".".join(part.name for part in getattr(node, "parts", [])))
            if name is not None:
                self.streams[node.alias_or_name] = spec.streams[name]
        self.homes: dict[str, str] = {}
        """The alias of the stream that each table is joined to, by the table's."""

    def _item(self, join: exp.Join, at: int) -> _Item:
        table = _table_of(self.spec, join.this)
        assert table is not None
        words = [str(join.args[arg]).upper() for arg in ("method", "side", "kind") if join.args.get(arg)]
        if [word for word in words if word not in ("LEFT", "INNER", "OUTER")]:
            raise self.text.refuse(f"{' '.join(words)} JOIN with a table", join, _ON)
        if isinstance(join.this, StreamRef):
            hint = "leave it out: a table is as it is when a row of the stream comes"
            raise self.text.error(f"the table {table.name} has no window", join.this, hint)
        for arg, value in join.args.items():
            if value and arg not in ("this", "on", "side", "kind"):
                raise self.text.refuse(f"a join with a table by {arg.upper()}", join, _ON)
        return _Item(join.this.alias_or_name, table, join, at, "LEFT" in words)

    def attached(self) -> Attached:
        aliases = [alias.lower() for alias in (*self.streams, *(item.alias for item in self.items))]
        for item in self.items:
            if aliases.count(item.alias.lower()) > 1:
                hint = f"give each its own: JOIN {item.table.name} P2 ON ..."
                raise self.text.error(f"two things of FROM are called {item.alias}", item.join, hint)
        self.select.set("joins", [join for _, join in self.joins] or None)
        self._keep_output_names()
        for item in self.items:
            self._qualify(item)
        for item in self.items:
            item.lookup = self._lookup(item)
            for column in self._columns_of(item):
                self._rewrite(column, item)
            self._place(item)
        lookups = tuple(item.found for item in self.items)
        streams = {name: stream.looking_up(lookups) for name, stream in self.spec.streams.items()}
        return Attached(self.select, replace(self.spec, streams=streams), lookups)

    # names

    def _keep_output_names(self) -> None:
        """Columns of the output are called as if nothing were put in their place."""
        for item in list(self.select.expressions):
            if isinstance(item, exp.Alias | exp.Star) or not any(True for _ in item.find_all(exp.Column)):
                continue
            last = item.expression if isinstance(item, exp.Dot) else item
            name = last.name if isinstance(last, exp.Column | exp.Identifier) else output_name(self.text, item)
            alias = exp.Alias(this=item.copy(), alias=exp.to_identifier(name, quoted=True))
            alias.meta.update(item.meta)
            item.replace(alias)

    def _nodes(self) -> Iterator[exp.Expr]:
        """Where columns may stand: the query, and the conditions of its tables."""
        yield self.select
        yield from (item.join for item in self.items)

    def _columns(self) -> list[exp.Column]:
        found = [column for node in self._nodes() for column in node.find_all(exp.Column)]
        return [column for column in found if isinstance(column.this, exp.Identifier)]

    def _qualify(self, item: _Item) -> None:
        """Let names without a table mean its columns, where no other has them."""
        others = [*(s.schema for s in self.streams.values()), *(o.table.schema for o in self.items if o is not item)]
        aliases = {alias.lower() for alias in (*self.streams, *(other.alias for other in self.items))}
        for column in self._columns():
            first = column.parts[0].name
            if (len(column.parts) > 1 and first.lower() in aliases) or item.table.schema.find(first) is None:
                continue
            if any(schema.find(first) for schema in others):
                hint = f"write {item.alias}.{first}, or the other one with its name before it"
                raise self.text.error(f"{first} is in {item.table.name} and in another part of FROM", column, hint)
            self._become(column, [item.alias, *(part.name for part in column.parts)])

    def _columns_of(self, item: _Item) -> list[exp.Column]:
        return [c for c in self._columns() if len(c.parts) > 1 and c.parts[0].name.lower() == item.alias.lower()]

    def _rewrite(self, column: exp.Column, item: _Item) -> None:
        """Put the stream's column in the place of the table's."""
        _, name, *fields = [part.name for part in column.parts]
        wanted = self._field(item, column, name)
        item.wanted[wanted.name] = wanted
        self._become(column, [self.homes[item.alias], item.found.named(wanted.name), *fields])

    def _field(self, item: _Item, column: exp.Column, name: str) -> Field:
        found = item.table.schema.find(name)
        if found is None:
            names = item.table.schema.names
            hint = did_you_mean(name, names, f"columns are {listing(names)}")
            raise self.text.error(f"{item.table.name} has no column {name}", column, hint)
        return found

    def _become(self, column: exp.Column, parts: list[str]) -> None:
        written = column.meta.get("written") or self.text.slice(column)
        for arg in ("catalog", "db", "table", "this"):
            column.set(arg, None)
        for arg, name in zip(("catalog", "db", "table", "this")[-len(parts) :], parts, strict=True):
            identifier = exp.to_identifier(name, quoted=True)
            identifier.meta.update({k: v for k, v in column.meta.items() if k in ("start", "end")})
            column.set(arg, identifier)
        column.meta["written"] = written

    # keys

    def _lookup(self, item: _Item) -> Lookup:
        """What the equalities of a table say; its other conditions go to WHERE."""
        on = conjuncts([item.join.args["on"]] if item.join.args.get("on") else [])
        item.join.set("on", None)
        keys = {id(part): key for part in on if (key := self._equality(item, part)) is not None}
        rest = [part for part in on if id(part) not in keys]
        if not keys and not item.outer and self.select.args.get("where") is not None:
            where = conjuncts([self.select.args["where"].this])
            keys = {id(part): key for part in where if (key := self._equality(item, part)) is not None}
            self._set_where([part for part in where if id(part) not in keys])
        self._check(item, list(keys.values()), rest)
        for part in rest:
            self._add_where(part)
        (home,) = {alias for alias, _, _ in keys.values()}
        self.homes[item.alias] = home
        stream = self.streams[home].looking_up([o.found for o in self.items if o.lookup is not None])
        bound = [self._bound(item, stream, node, column) for _, node, column in keys.values()]
        return Lookup(stream.name, item.table.name, tuple(sorted(bound, key=lambda key: key.name)))

    def _check(self, item: _Item, keys: list[tuple[str, exp.Expr, exp.Column]], rest: list[exp.Expr]) -> None:
        if not keys:
            column = item.table.schema.names[0]
            message = f"no equality joins {item.table.name} to a stream"
            hint = f"write ... ON {next(iter(self.streams), 'A')}.key = {item.alias}.{column}"
            raise self.text.error(message, item.join, hint)
        if len({alias for alias, _, _ in keys}) > 1:
            hint = "name the key of one stream in JOIN ... ON, and compare with the other in WHERE"
            raise self.text.error(f"{item.table.name} is joined to several streams", item.join, hint)
        if item.outer and rest:
            hint = f"LEFT JOIN {item.table.name} takes equalities with its columns; write others in CASE WHEN or WHERE"
            raise self.text.refuse("another condition in LEFT JOIN with a table", rest[0], hint)

    def _equality(self, item: _Item, part: exp.Expr) -> tuple[str, exp.Expr, exp.Column] | None:
        """The stream, its side and the table's column of an equality between the two; None for another condition."""
        part = part.unnest()
        if not isinstance(part, exp.EQ):
            return None
        for node, column in ((part.this, part.expression), (part.expression, part.this)):
            column = column.unnest()
            mine = isinstance(column, exp.Column) and column.parts[0].name.lower() == item.alias.lower()
            if not mine or len(column.parts) != 2:
                continue
            used = {self._stream_of(c) for c in node.find_all(exp.Column)}
            if len(used) == 1 and (alias := used.pop()) is not None:
                return alias, node, column
        return None

    def _stream_of(self, column: exp.Column) -> str | None:
        """The alias of the stream that has a column, None where none or several have it."""
        first = column.parts[0].name
        if len(column.parts) > 1 and (alias := find(self.streams, first)) is not None:
            return alias
        if find({item.alias: item for item in self.items}, first) is not None:
            return None
        having = [alias for alias, stream in self.streams.items() if stream.schema.find(first) is not None]
        return having[0] if len(having) == 1 else None

    def _bound(self, item: _Item, stream: Stream, node: exp.Expr, column: exp.Column) -> LookupKey:
        """An equality of the key, over the columns of the stream alone."""
        root = exp.Tuple(expressions=[node.copy()])
        for own in list(root.find_all(exp.Column)):
            parts = [part.name for part in own.parts]
            if len(parts) > 1 and parts[0].lower() == self.homes[item.alias].lower():
                self._become(own, parts[1:])
        unfold_fields(root, (), stream.schema.names)
        columns = [(Side.LEFT.prefix + f.name, f.type) for f in stream.schema]
        expressions = Expressions(self.text, StreamNames(self.text, stream.name, stream.schema), columns)
        expr = expressions.expression(root.expressions[0])
        expressions.verify()
        wanted = self._field(item, column, column.name)
        kind = common_type(expr.type, wanted.type)
        if kind is None or kind in _UNFIT:
            hint = "bring both to one type, but not to a floating one, with CAST(... AS ...)"
            message = f"a key of types {expr.type} and {wanted.type} cannot be looked up"
            raise self.text.error(message, node, hint)
        return LookupKey(expr, wanted.name, kind)

    # conditions

    def _place(self, item: _Item) -> None:
        """Whether a row of the table was found, or with LEFT JOIN whether anybody has looked, as a condition."""
        home, lookup = self.homes[item.alias], item.found
        found: exp.Expr = exp.Column(this=exp.to_identifier(lookup.name, quoted=True), table=exp.to_identifier(home))
        found.meta["written"] = " AND ".join(f"{key.expr.text} = {item.alias}.{key.column}" for key in lookup.keys)
        if item.outer:
            found = exp.Not(this=exp.Is(this=found, expression=exp.Null()))
            found.meta["written"] = f"{item.alias} looked up"
        found.meta.update({k: v for k, v in item.join.meta.items() if k in ("start", "end")})
        at, join = self.joins[0] if self.joins else (0, None)
        first = home == next(iter(self.streams))
        if join is None or (item.at > at and not item.outer):
            self._add_where(found)
        elif join.side == "FULL":
            if not item.outer:
                hint = f"join {item.table.name} after it, or write LEFT JOIN {item.table.name}"
                raise self.text.refuse("JOIN with a table before FULL JOIN", item.join, hint)
        elif (join.side == "RIGHT") if first else (join.side == "LEFT" or join.kind in ("SEMI", "ANTI") or join.method):
            on = join.args.get("on")
            join.set("on", exp.And(this=on, expression=found) if on is not None else found)
        else:
            self._add_where(found)

    def _add_where(self, condition: exp.Expr) -> None:
        where = self.select.args.get("where")
        self._set_where([*([where.this] if where is not None else []), condition])

    def _set_where(self, conditions: list[exp.Expr]) -> None:
        whole: exp.Expr | None = None
        for condition in conditions:
            whole = condition if whole is None else exp.And(this=whole, expression=condition)
        self.select.set("where", exp.Where(this=whole) if whole is not None else None)
