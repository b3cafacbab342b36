"""Names of streams and queries: which there may be, and which there are; case does not matter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from muntin.sql.places import SqlText, did_you_mean, listing

MAX_NAME = 100
MOST_LISTED = 6
"""How many queries a hint names; a job may have hundreds."""


def check_name(sql: SqlText, what: str, node: exp.Expr) -> str:
    """The name of a new stream or query, which becomes that of a directory or of columns."""
    name = node.name
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is None:
        raise sql.error(f"{name!r} cannot name a {what}", node, "a name is a letter, then letters, digits and _")
    if len(name) > MAX_NAME:
        raise sql.error(f"the name of the {what} has {len(name)} characters", node, f"at most {MAX_NAME} are allowed")
    return name


def find(known: Mapping[str, Any], name: str) -> str | None:
    return next((k for k in known if k.lower() == name.lower()), None)


def known_query(sql: SqlText, queries: Mapping[str, Any], node: exp.Expr) -> str:
    """The name of a query that there is, as it was first spelled."""
    name = find(queries, node.name)
    if name is None:
        names = [*queries][:MOST_LISTED]
        more = f" and {len(queries) - len(names)} more" if len(queries) > len(names) else ""
        hint = f"{did_you_mean(node.name, queries, '')} queries are {listing(names)}{more}".strip()
        raise sql.error(f"there is no query {node.name}", node, hint)
    return name
