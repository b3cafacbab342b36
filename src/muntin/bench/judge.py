"""DuckDB as the judge of rows."""

from __future__ import annotations

import duckdb


def compared(base: duckdb.DuckDBPyConnection, want: str, got: str) -> tuple[int, int, int]:
    """Rows of `want`, those of them that `got` does not have, and those that it has beside them; as multisets."""
    rows, missing, too_many = (
        int(base.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0])
        for sql in (f"FROM {want}", f"FROM {want} EXCEPT ALL FROM {got}", f"FROM {got} EXCEPT ALL FROM {want}")
    )
    return rows, missing, too_many
