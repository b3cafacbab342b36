"""Names of streams and queries: which there may be, and which there are; case does not matter.

A name is a word of letters of any script, digits and `_`. It is also the name of the folder that a query writes to, as
it stands: such a word has no character that means something in a path. Letters that can be spelled in two ways (é as
one character or two) are the same, and are kept as one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from muntin.sql.places import SqlText, did_you_mean, listing

MAX_NAME = 100
MAX_NAME_BYTES = 200
"""File systems take 255 bytes for the name of a folder."""
MOST_LISTED = 6
"""How many queries a hint names; a job may have hundreds."""


def check_name(sql: SqlText, what: str, node: exp.Expr) -> str:
    """The name of a new stream or query, which becomes that of a directory or of columns."""
    name = composed(node.name)
    if not is_name(name):
        raise sql.error(f"{name!r} cannot name a {what}", node, "a name is a letter, then letters, digits and _")
    if len(name) > MAX_NAME:
        raise sql.error(f"the name of the {what} has {len(name)} characters", node, f"at most {MAX_NAME} are allowed")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise sql.error(f"the name of the {what} has {len(name.encode())} bytes", node, "choose a shorter one")
    return name


def is_name(name: str) -> bool:
    """Whether a text can name a stream or query."""
    return name.isidentifier() and not name.startswith("_")


def composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def find(known: Mapping[str, Any], name: str) -> str | None:
    wanted = composed(name).lower()
    return next((k for k in known if composed(k).lower() == wanted), None)


def known_query(sql: SqlText, queries: Mapping[str, Any], node: exp.Expr) -> str:
    """The name of a query that there is, as it was first spelled."""
    name = find(queries, node.name)
    if name is None:
        names = [*queries][:MOST_LISTED]
        more = f" and {len(queries) - len(names)} more" if len(queries) > len(names) else ""
        hint = f"{did_you_mean(node.name, queries, '')} queries are {listing(names)}{more}".strip()
        raise sql.error(f"there is no query {node.name}", node, hint)
    return name
