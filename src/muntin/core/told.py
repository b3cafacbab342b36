"""What several shards have told of groups, side by side: which rows are of the same group, and what each told last."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.kernels.hashing import hash_keys

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


def numbered(table: pa.Table, *columns: str) -> Int64s:
    """A number for each different combination of these columns."""
    stacked = np.ascontiguousarray(np.stack([table[c].to_numpy() for c in columns], axis=1))
    return np.unique(stacked.view(f"V{8 * len(columns)}").ravel(), return_inverse=True)[1].ravel().astype(np.int64)


def shared(group: Int64s, source: Int64s) -> bool:
    """Whether some group is in several sources."""
    groups = int(group.max(initial=-1)) + 1
    return len(np.unique(group + groups * source)) > groups


def last(keys: Int64s, wanted: Int64s, instants: int, exact: bool) -> tuple[Bools, Int64s]:
    """For each wanted (group, instant): whether there is an entry for the group by then, and where the last is."""
    at = np.searchsorted(keys, wanted, side="right") - 1
    there = at >= 0
    at = np.maximum(at, 0)
    if len(keys):
        there &= keys[at] == wanted if exact else keys[at] // instants == wanted // instants
    return there & bool(len(keys)), at


def begins(numbers: Int64s) -> Bools:
    """Where a number differs from the one before."""
    return np.concatenate([[True], numbers[1:] != numbers[:-1]]) if len(numbers) else np.zeros(0, bool)


def fingerprints(columns: list[pa.ChunkedArray]) -> tuple[Int64s, Int64s]:
    """128 bits for each row that say whether all columns are equal, NULL being equal to NULL."""
    return hash_keys([part for column in columns for part in (column, column.is_null())])[:2]
