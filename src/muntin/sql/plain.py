"""A SELECT as people write it, in the plain form that is bound: declared streams in FROM, conditions in ON and WHERE,
and no name that stands for something else.

    WITH, (SELECT ...) S     the stream itself; its conditions go to ON or WHERE, its names to the stream's own
    JOIN ... USING (k)       ON A.k = B.k; k alone is the one that the join keeps
    *, A.*, * EXCEPT (k)     the columns
    an alias, a position     in GROUP BY, HAVING and ORDER BY: what the SELECT list has there

Which of a column and an alias of the same name is meant, is Spark's rule: GROUP BY means the column, ORDER BY the
alias, and HAVING the column where it is grouped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from sqlglot import exp

from muntin.model import JobSpec
from muntin.sql.places import SqlText, did_you_mean, listing
from muntin.sql.relations import Relation, RelationReader, Relations, excepted
from muntin.sql.translate import MAX_TERMS


def plain_select(text: SqlText, spec: JobSpec, select: exp.Expr) -> exp.Expr:
    """The same query in plain form; what is not a SELECT over declared streams is left for the binder to refuse."""
    if not isinstance(select, exp.Select) or not select.args.get("from_"):
        return select
    return _plain(text, RelationReader(text, spec), select.copy(), {}, None)


def _plain(
    text: SqlText, reader: RelationReader, select: exp.Select, known: Relations, outer: _Scope | None
) -> exp.Select:
    known = reader.common(select, known)
    select.set("with_", None)
    joins = select.args.get("joins") or []
    relations: list[Relation] = []
    for item in [select.args["from_"], *joins]:
        relation = reader.relation(item.this, known)
        if relation is None:
            return select
        if relation.derived:
            item.set("this", relation.table)
        relations.append(relation)
    scope = _Scope(text, relations, joins, outer)
    _check_quotes(text, scope, select)
    scope.join_using()
    if outer is None:
        select.set("expressions", [column for item in select.expressions for column in scope.expand(item)])
    _name_aliases(text, scope, select)
    for query in [q for q in _below(select) if isinstance(q, exp.Select)]:
        if query.args.get("from_"):
            query.replace(_plain(text, reader, query, known, scope))
    scope.resolve_all(select)
    _place_filters(text, select, relations, joins)
    return select


class _Scope:
    """What names mean in one SELECT."""

    def __init__(self, text: SqlText, relations: list[Relation], joins: list[exp.Join], outer: _Scope | None):
        self.text = text
        self.relations = relations
        self.outer = outer
        self._joins = joins
        self._using: dict[str, list[Relation]] = {}
        """The columns of USING, with the streams whose column each is."""
        gone = [join.kind in ("SEMI", "ANTI") for join in joins]
        self._shown = [relations[0], *(r for r, hidden in zip(relations[1:], gone, strict=True) if not hidden)]

    def join_using(self) -> None:
        """Say USING as ON."""
        for n, join in enumerate(self._joins):
            if not join.args.get("using") or join.method or n:
                continue
            left, right = self.relations[:2]
            for identifier in join.args["using"]:
                node = identifier.this if isinstance(identifier, exp.Column) else identifier
                equal = exp.EQ(**{arg: self._of(r, node) for arg, r in (("this", left), ("expression", right))})
                equal.meta.update({**node.meta, "written": f"{left.alias}.{node.name} = {right.alias}.{node.name}"})
                on = join.args.get("on")
                join.set("on", exp.And(this=on, expression=equal) if on is not None else equal)
                kept = {"RIGHT": [right], "FULL": [left, right]}.get(join.side, [left])
                self._using[node.name.lower()] = kept
            join.set("using", None)

    def _of(self, relation: Relation, name: exp.Expr) -> exp.Column:
        """`alias.name`, where there is such a column."""
        seen = relation.seen(name.name)
        if seen is None:
            raise self._unknown(name, [relation])
        return self._named(relation, seen, name)

    @staticmethod
    def _named(relation: Relation, seen: str, source: exp.Expr) -> exp.Column:
        table, name = (exp.to_identifier(n) for n in (relation.alias, seen))
        column = exp.Column(this=name, table=table)
        column.meta.update({k: v for k, v in source.meta.items() if k in ("start", "end")})
        column.meta["written"] = f"{relation.alias}.{seen}"
        return column

    # stars

    def expand(self, item: exp.Expr) -> list[exp.Expr]:
        """The columns that an item of the SELECT list stands for."""
        star = item.this if isinstance(item, exp.Column) else item
        if not isinstance(star, exp.Star):
            return [item]
        of = self._shown
        if star is not item:
            table = item.args["table"]
            of = [r for r in self.relations if r.alias.lower() == table.name.lower()]
            if not of and any(r.seen(table.name) for r in self.relations):
                hint = f"name its fields: {table.name}.x, {table.name}.y"
                raise self.text.refuse("* of a struct", item, hint)
            if not of:
                aliases = [r.alias for r in self.relations]
                hint = did_you_mean(table.name, aliases, f"FROM has {listing(aliases)}")
                raise self.text.error(f"FROM has no {table.name}", table, hint)
        once = [] if star is not item else list(self._using)
        columns = [self._of_using(name, item) for name in once]
        plain = [(r, name) for r in of for name in r.columns if name.lower() not in (*once, "_ts")]
        columns += [self._named(r, name, item) for r, name in plain]
        left_out = [self._left_out(column, columns) for column in excepted(self.text, star, item)]
        kept: list[exp.Expr] = [c for c in columns if not any(c is gone for gone in left_out)]
        if not kept:
            raise self.text.error("EXCEPT leaves no column", item, "leave at least one")
        return kept

    def _of_using(self, name: str, item: exp.Expr) -> exp.Column:
        relation = self._using[name][0]
        column = self._named(relation, relation.seen(name) or name, item)
        column.set("table", None)
        return column

    def _left_out(self, column: exp.Column, among: list[exp.Column]) -> exp.Column:
        def fits(candidate: exp.Column) -> bool:
            table = column.table.lower()
            return candidate.name.lower() == column.name.lower() and table in ("", candidate.table.lower())

        found = [candidate for candidate in among if fits(candidate)]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(f"{c.table}.{c.name}" for c in found)
            raise self.text.error(f"{column.name} is in both streams", column, f"write {choices}")
        names = [c.name for c in among]
        hint = did_you_mean(column.name, names, f"columns are {listing(dict.fromkeys(names))}")
        raise self.text.error(f"* has no column {self.text.slice(column)}", column, hint)

    # columns

    def has(self, name: str) -> bool:
        """Whether a name alone is a column of some stream."""
        return any(r.seen(name) for r in self.relations) or (self.outer is not None and self.outer.has(name))

    def resolve_all(self, select: exp.Select) -> None:
        """Give every column its stream and the stream's own name, where they are not what is written."""
        if not self._using and not any(r.derived for r in self._all()):
            return
        for column in [c for c in _below(select) if isinstance(c, exp.Column) and isinstance(c.this, exp.Identifier)]:
            made = self._resolved(column)
            if made is None:
                continue
            item = column.parent is select and column.arg_key == "expressions" and self.outer is None
            name = self._output_name(column) if item else ""
            if name and (not isinstance(made, exp.Column) or made.name != name):
                alias = exp.Alias(this=made, alias=exp.to_identifier(name, quoted=True))
                alias.meta.update(made.meta)
                made = alias
            column.replace(made)

    def _all(self) -> Iterator[Relation]:
        yield from self.relations
        if self.outer is not None:
            yield from self.outer._all()

    def _output_name(self, column: exp.Column) -> str:
        seen = (r.seen(column.name) for r in self.relations)
        return next((name for name in seen if name), column.name)

    def _resolved(self, column: exp.Column) -> exp.Expr | None:
        """What a column is in full; None where it is left as it is written."""
        first, *rest = [part.name for part in column.parts]
        for relation in self._all():
            if rest and relation.alias.lower() == first.lower():
                return self._in(relation, rest[0], column, tuple(rest[1:]))
        if first.lower() in self._using and not rest:
            kept = [self._in(r, first, column, ()) for r in self._using[first.lower()]]
            if len(kept) == 1:
                return kept[0]
            both = exp.Anonymous(this="coalesce", expressions=kept)
            both.meta.update({k: v for k, v in column.meta.items() if k in ("start", "end")})
            return both
        found = [r for r in self.relations if r.seen(first)]
        if len(found) > 1:
            choices = " or ".join(f"{r.alias}.{r.seen(first)}" for r in found)
            raise self.text.error(f"{first} is in both streams", column, f"write {choices}")
        if not found:
            if self.outer is not None:
                return self.outer._resolved(column)
            if rest:
                return None
            raise self._unknown(column.this, self.relations)
        return self._in(found[0], first, column, tuple(rest))

    def _in(self, relation: Relation, name: str, column: exp.Column, fields: tuple[str, ...]) -> exp.Column:
        seen = relation.seen(name)
        if seen is None:
            raise self._unknown(column.parts[min(1, len(column.parts) - 1)], [relation])
        return relation.column(seen, column, fields)

    def _unknown(self, node: exp.Expr, relations: list[Relation]) -> Exception:
        known = [name for r in relations for name in r.columns]
        hint = did_you_mean(node.name, known, f"columns are {listing(dict.fromkeys(known))}")
        where = " or ".join(r.alias for r in relations)
        return self.text.error(f"{where} has no column {node.name}", node, hint)


def _check_quotes(text: SqlText, scope: _Scope, select: exp.Select) -> None:
    """Double quotes make a text, as in Spark; refuse them where a name is surely meant."""
    aliases = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    for node in _below(select):
        if isinstance(node, exp.Literal) and node.is_string and text.slice(node).startswith('"'):
            in_column = isinstance(node.parent, exp.Column)
            if in_column or scope.has(node.name) or node.name.lower() in aliases:
                other = "" if in_column else f", the text '{node.name}'"
                hint = f"the name is written `{node.name}`{other}"
                raise text.error(f"{text.slice(node)} in double quotes is a text, not a name", node, hint)


# -- aliases and positions --------------------------------------------------------------------------------------------


def _name_aliases(text: SqlText, scope: _Scope, select: exp.Select) -> None:
    """Put what the SELECT list has in the place of its aliases and positions."""
    aliases: dict[str, exp.Expr] = {}
    for item in select.expressions:
        _substitute(text, item, {name: node for name, node in aliases.items() if not scope.has(name)})
        if isinstance(item, exp.Alias):
            aliases.setdefault(item.alias.lower(), item.this)
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier):
            aliases.setdefault(item.name.lower(), item)
    group, having, order = (select.args.get(clause) for clause in ("group", "having", "order"))
    if group is not None:
        _take_positions(text, "GROUP BY", select, group.expressions)
        _substitute(text, group, {name: node for name, node in aliases.items() if not scope.has(name)})
    if having is not None:
        grouped = {node.name.lower() for node in (group.expressions if group else []) if isinstance(node, exp.Column)}
        _substitute(text, having, {name: node for name, node in aliases.items() if name not in grouped}, scope)
    if order is not None:
        ordered = [node.this for node in order.expressions if isinstance(node, exp.Ordered)]
        _take_positions(text, "ORDER BY", select, ordered)
        _substitute(text, order, aliases)


def _take_positions(text: SqlText, clause: str, select: exp.Select, nodes: list[exp.Expr]) -> None:
    items = select.expressions
    for node in nodes:
        if isinstance(node, exp.Literal) and not node.is_string:
            if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
                hint = f"the SELECT list has {len(items)} columns"
                raise text.error(f"{clause} {node.name} is no column of the SELECT list", node, hint)
            node.replace(items[int(node.name) - 1].unalias().copy())


def _substitute(text: SqlText, tree: exp.Expr, aliases: Mapping[str, exp.Expr], scope: _Scope | None = None) -> None:
    """Put expressions in the place of names; with a `scope`, not of its columns inside aggregates."""
    for column in [c for c in _below(tree) if isinstance(c, exp.Column) and len(c.parts) == 1]:
        found = aliases.get(column.name.lower())
        if found is None or (scope is not None and scope.has(column.name) and column.find_ancestor(exp.AggFunc)):
            continue
        if next(islice(found.walk(), MAX_TERMS, None), None) is not None:
            raise text.error("the expression is too large", column, "write it with fewer names that stand for others")
        column.replace(found.copy())


def _below(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes below one; queries inside are told, but not what is in them."""
    stack = list(tree.iter_expressions(reverse=True))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, exp.Query):
            stack += node.iter_expressions(reverse=True)


# -- conditions of subqueries -----------------------------------------------------------------------------------------


def _place_filters(text: SqlText, select: exp.Select, relations: list[Relation], joins: list[exp.Join]) -> None:
    """Conditions of subqueries of FROM hold before the join: on a side whose rows are kept they stand in WHERE, on the
    other one in ON."""
    for n, relation in enumerate(relations):
        for condition in relation.filters:
            own = joins[n - 1] if n else None
            later = next((join for join in joins[n:] if join.side in ("RIGHT", "FULL")), None)
            if "FULL" in (own.side if own else "", later.side if later else ""):
                hint = "filter in WHERE, or in a query of its own"
                raise text.refuse("a subquery with WHERE beside FULL JOIN", condition, hint)
            join = later or own
            if join is None or (join is own and not _is_about_the_first(join)):
                where = select.args.get("where")
                both = exp.And(this=where.this, expression=condition) if where is not None else condition
                select.set("where", exp.Where(this=both))
            else:
                on = join.args.get("on")
                join.set("on", exp.And(this=on, expression=condition) if on is not None else condition)


def _is_about_the_first(join: exp.Join) -> bool:
    """Whether a join keeps rows of what stands before it that match nothing, or tells only whether they match."""
    return join.side == "LEFT" or join.kind in ("SEMI", "ANTI") or bool(join.method)
