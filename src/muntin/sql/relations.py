"""What FROM offers: streams, and subqueries and common table expressions that only rename columns and filter rows.

Such a subquery is the stream itself under another name: its columns are the stream's by other names, and its
conditions join those of the query. Anything else in one is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from muntin.model import OUTPUT_TIME, DimensionTable, JobSpec, Stream, relation
from muntin.sql.names import find
from muntin.sql.places import SqlText, did_you_mean, listing
from muntin.sql.tree import StreamRef

MAX_DERIVED = 50
"""How many subqueries and common table expressions a query may have."""
_EXAMPLE = "a subquery of FROM renames columns and filters rows: (SELECT id AS x, k FROM Stream WHERE v > 3) S"
_CLAUSES = {
    "joins": "a join",
    "distinct": "DISTINCT",
    "windows": "WINDOW",
    "group": "GROUP BY",
    "having": "HAVING",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "emit": "EMIT and EVERY",
}


@dataclass(frozen=True)
class Relation:
    """A stream as FROM names it: `columns` are the names that are seen, with those of the stream's own columns."""

    alias: str
    columns: Mapping[str, str]
    table: exp.Table
    filters: tuple[exp.Expr, ...] = ()
    derived: bool = False

    def seen(self, name: str) -> str | None:
        """A column by any spelling, as it is spelled where it is named."""
        return find(self.columns, name)

    def column(self, seen: str, source: exp.Expr, fields: tuple[str, ...] = ()) -> exp.Column:
        """The stream's own column for a name that is seen, standing where `source` stands."""
        parts = [self.alias, self.columns[seen], *fields]
        names = dict(zip(("catalog", "db", "table", "this")[-len(parts) :], parts, strict=True))
        made = exp.Column(**{arg: exp.to_identifier(name) for arg, name in names.items()})
        made.meta.update({k: v for k, v in source.meta.items() if k in ("start", "end", "written")})
        for identifier in made.find_all(exp.Identifier):
            identifier.meta.update({k: v for k, v in made.meta.items() if k in ("start", "end")})
        return made


Relations = Mapping[str, Relation]


class RelationReader:
    """Reads the items of FROM of one statement."""

    def __init__(self, text: SqlText, spec: JobSpec):
        self.text = text
        self.spec = spec
        self._derived_so_far = 0

    def common(self, select: exp.Select, known: Relations) -> Relations:
        """What WITH names, beside what is known already; each may be made of those before it."""
        clause = select.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise self.text.refuse("WITH RECURSIVE", clause.expressions[0].this, _EXAMPLE)
        found = dict(known)
        for cte in clause.expressions:
            alias = cte.args["alias"]
            found[alias.name.lower()] = self._derived(cte.this, alias, found, cte)
        return found

    def relation(self, node: exp.Expr, known: Relations) -> Relation | None:
        """An item of FROM; None for what is neither a declared stream nor a subquery."""
        if isinstance(node, exp.Subquery):
            alias = node.args.get("alias")
            if alias is None or not alias.this:
                raise self.text.error("a subquery in FROM has no name", node, "write (SELECT ...) S")
            return self._derived(node.this, alias, known, node)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            return None
        alias = node.args.get("alias")
        if alias is not None and (alias.args.get("columns") or not alias.this):
            return None
        common = known.get(node.name.lower()) if not node.db else None
        if common is not None:
            return self._named(common, alias.name if alias is not None else node.name, node)
        written = ".".join(part.name for part in node.parts)
        declared: dict[str, Stream | DimensionTable] = {**self.spec.streams, **self.spec.tables}
        name = find(declared, written)
        if name is not None:
            columns = {n: n for n in declared[name].schema.names}
            return Relation(alias.name if alias is not None else name, columns, node)
        name = find(self.spec.queries, written)
        if name is None:
            return None
        columns = {"_ts" if n == OUTPUT_TIME else n: n for n in relation(self.spec, name).schema.names}
        return Relation(alias.name if alias is not None else name, columns, node, derived=True)

    def _derived(self, query: exp.Expr, alias: exp.TableAlias, known: Relations, node: exp.Expr) -> Relation:
        self._derived_so_far += 1
        if self._derived_so_far > MAX_DERIVED:
            raise self.text.error(f"more than {MAX_DERIVED} subqueries", query, "write the query with fewer of them")
        select = self._checked(query)
        known = self.common(select, known)
        inner = self.relation(select.args["from_"].this, known)
        if inner is None:
            first = select.args["from_"].this
            streams = listing(self.spec.streams)
            hint = did_you_mean(first.name, [*self.spec.streams, *known], f"streams are {streams}")
            raise self.text.error(f"there is no stream {self.text.slice(first)}", first, hint)
        columns: dict[str, str] = {}
        for item in select.expressions:
            for name, own in self._items(item, inner):
                if find(columns, name):
                    raise self.text.error(f"two columns are called {name}", item, "give one of them another name")
                columns[name] = own
        columns = self._renamed(alias, columns)
        where = select.args.get("where")
        parts: list[exp.Expr] = [where.this] if where is not None else []
        if parts and isinstance(parts[0], exp.And):
            parts = list(parts[0].flatten())
        filters = (*inner.filters, *(self._filter(part, inner) for part in parts))
        whole = Relation(inner.alias, columns, inner.table, filters, derived=True)
        return self._named(whole, alias.name, node)

    def _checked(self, query: exp.Expr) -> exp.Select:
        if not isinstance(query, exp.Select):
            what = query.key.upper() if isinstance(query, exp.SetOperation) else "this"
            raise self.text.refuse(f"{what} in a subquery of FROM", query, _EXAMPLE)
        for key, arg in query.args.items():
            if arg and key not in ("expressions", "from_", "where", "with_"):
                what = _CLAUSES.get(key, key.replace("_", " ").strip().upper())
                first = arg[0] if isinstance(arg, list) else arg
                at = first if isinstance(first, exp.Expr) else query
                raise self.text.refuse(f"{what} in a subquery of FROM", at, _EXAMPLE)
        if not query.args.get("from_"):
            raise self.text.error("the subquery has no FROM", query, _EXAMPLE)
        return query

    def _items(self, item: exp.Expr, inner: Relation) -> list[tuple[str, str]]:
        """Name and stream's own column of each column that an item of the subquery's SELECT list stands for."""
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            if star is not item:
                self._own(exp.Column(this=exp.to_identifier("*"), table=item.args["table"]), inner, star=True)
            left_out = {self._own(c, inner) for c in excepted(self.text, star, item)}
            return [(n, own) for n, own in inner.columns.items() if n not in left_out]
        column = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(column, exp.Column):
            hint = f"compute it in the query itself; {_EXAMPLE}"
            raise self.text.refuse("an expression in a subquery of FROM", item, hint)
        seen = self._own(column, inner)
        return [(item.alias if isinstance(item, exp.Alias) else seen, inner.columns[seen])]

    def _own(self, column: exp.Column, inner: Relation, star: bool = False) -> str:
        table = column.args.get("table")
        if table is not None and table.name.lower() != inner.alias.lower():
            raise self.text.error(f"FROM has no {table.name}", table, f"FROM has {inner.alias}")
        if star:
            return ""
        seen = inner.seen(column.name)
        if seen is None:
            hint = did_you_mean(column.name, inner.columns, f"columns are {listing(inner.columns)}")
            raise self.text.error(f"{inner.alias} has no column {column.name}", column.this, hint)
        return seen

    def _renamed(self, alias: exp.TableAlias, columns: dict[str, str]) -> dict[str, str]:
        """The columns by the names of `S (a, b)`, where it has such a list."""
        names = [column.name for column in alias.args.get("columns") or []]
        if not names:
            return columns
        if len(names) != len(columns):
            message = f"{alias.name} names {len(names)} columns, its SELECT has {len(columns)}"
            raise self.text.error(message, alias.args["columns"][0], "name each column once")
        return dict(zip(names, columns.values(), strict=True))

    def _filter(self, condition: exp.Expr, inner: Relation) -> exp.Expr:
        if (query := condition.find(exp.Query)) is not None:
            raise self.text.refuse("a subquery in a subquery of FROM", query, _EXAMPLE)
        root = exp.Tuple(expressions=[condition.copy()])
        for column in list(root.find_all(exp.Column)):
            column.replace(inner.column(self._own(column, inner), column))
        return root.expressions[0]

    def _named(self, relation: Relation, alias: str, node: exp.Expr) -> Relation:
        """A relation under another name, with a window of its own where `node` or the relation has one."""
        table = relation.table.copy()
        own = node.args.get("range") if isinstance(node, StreamRef) else None
        if own is not None and table.args.get("range") is not None:
            raise self.text.error(f"{alias} has a window already", own, "keep one of them")
        if own is not None:
            table = StreamRef(this=table.this, range=own.copy())
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        table.meta.update({k: v for k, v in node.meta.items() if k in ("start", "end")})
        filters = tuple(_about(condition, alias) for condition in relation.filters)
        return Relation(alias, relation.columns, table, filters, derived=True)


def excepted(text: SqlText, star: exp.Star, item: exp.Expr) -> list[exp.Column]:
    """The columns that `* EXCEPT (...)` leaves out."""
    for arg, value in star.args.items():
        if value and arg != "except_":
            raise text.refuse(f"* with {arg.strip('_').upper()}", item, "name the columns")
    columns: list[exp.Column] = []
    for node in star.args.get("except_") or []:
        column = exp.Column(this=node) if isinstance(node, exp.Identifier) else node
        if not isinstance(column, exp.Column):
            raise text.error("EXCEPT needs names of columns", node, "write * EXCEPT (ts, k)")
        columns.append(column)
    return columns


def _about(condition: exp.Expr, alias: str) -> exp.Expr:
    """A condition of a subquery, as it would be written under another name."""
    root = exp.Tuple(expressions=[condition.copy()])
    for column in root.find_all(exp.Column):
        column.parts[0].set("this", alias)
    made: exp.Expr = root.expressions[0]
    made.meta["written"] = made.sql("spark", comments=False)
    return made
