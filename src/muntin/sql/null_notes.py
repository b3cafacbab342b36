"""Conditions that NULL keeps from ever being true, and what was probably meant.

They are no mistakes, and their answers are empty as SQL says. So the reader of the text gets a note.
"""

from __future__ import annotations

from sqlglot import exp

from muntin.sql.places import SqlText

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def null_notes(text: SqlText, select: exp.Expr) -> list[str]:
    """A note for each condition of a query that can never be true because of NULL."""
    if not isinstance(select, exp.Select):
        return []
    found = [note for node in select.find_all(*_COMPARISONS, exp.In) if (note := _comparison(text, node)) is not None]
    return found + _missing_keys(text, select)


def _comparison(text: SqlText, node: exp.Expr) -> str | None:
    if isinstance(node, exp.In):
        return _list(text, node)
    sides = [side.unnest() for side in (node.this, node.expression)]
    nulls = [isinstance(side, exp.Null) for side in sides]
    if not any(nulls):
        return None
    other = text.slice(sides[nulls[0]]) if not all(nulls) else "..."
    word = "IS NOT NULL" if isinstance(node, exp.NEQ) else "IS NULL"
    return f"{text.where(node)}: {text.slice(node)} is never true; write {other} {word}"


def _list(text: SqlText, node: exp.In) -> str | None:
    nulls = [isinstance(item.unnest(), exp.Null) for item in node.expressions]
    negated = isinstance(node.parent, exp.Not)
    if not nulls or not (any(nulls) if negated else all(nulls)):
        return None
    value, whole = text.slice(node.this), node.parent if negated else node
    if not negated:
        write = f"{value} IS NULL"
    else:
        write = f"{value} IS NOT NULL" if all(nulls) else f"{value} NOT IN (...) without the NULL"
    assert whole is not None
    return f"{text.where(node)}: {text.slice(whole)} is never true; write {write}"


def _missing_keys(text: SqlText, select: exp.Select) -> list[str]:
    """`A.k = B.k AND A.k IS NULL`: a row with NULL in its key is in no pair."""
    joins = select.args.get("joins") or []
    where = select.args.get("where")
    if where is None or any(join.side or join.kind in ("SEMI", "ANTI") or join.method for join in joins):
        return []
    parts: list[exp.Expr] = []
    for condition in (where.this, *(join.args["on"] for join in joins if join.args.get("on"))):
        parts += condition.flatten() if isinstance(condition, exp.And) else [condition]
    equal = {_name(side): part for part in parts if isinstance(part, exp.EQ) for side in (part.this, part.expression)}
    notes = []
    for part in parts:
        if isinstance(part, exp.Is) and isinstance(part.expression, exp.Null) and isinstance(part.this, exp.Column):
            key = equal.get(_name(part.this))
            if key is not None:
                why = f"{text.slice(key)} is true for no NULL"
                write = "leave one of them out, or write LEFT JOIN to find rows without a partner"
                notes.append(f"{text.where(part)}: {text.slice(part)} is never true here: {why}; {write}")
    return notes


def _name(node: exp.Expr) -> str:
    return node.sql("spark", comments=False).lower() if isinstance(node, exp.Column) else ""
