"""Join keys as 128 bits: exact where they fit, Spark's equality, the published test vectors of the hash."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from muntin.kernels.hashing import hash_keys, shard_of

REFERENCE = tuple(int.from_bytes(bytes(range(n, n + 8)), "little") for n in (0, 8))


def digest(*columns: pa.Array) -> list[tuple[int, int] | None]:
    h1, h2, valid = hash_keys(list(columns))
    return [(int(a), int(b)) if v else None for a, b, v in zip(h1, h2, valid, strict=True)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"", "a3817f04ba25a8e66df67214c7550293"),
        (bytes(1), "da87c1d86b99af44347659119b22fc45"),
        (bytes(range(15)), "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_strings_are_hashed_by_siphash_as_its_authors_published_it(message, expected):
    h1, h2, _ = hash_keys([pa.array([message])], REFERENCE)
    assert (h1.tobytes() + h2.tobytes()).hex() == expected


def test_nan_equals_nan_and_minus_zero_equals_zero():
    quiet, other = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    keys = digest(pa.array([quiet, other, 0.0, -0.0, 1.0]))
    assert keys[0] == keys[1] and keys[2] == keys[3] and len(set(keys)) == 3


def test_a_null_in_any_part_makes_the_key_match_nothing():
    keys = digest(pa.array([1, None, 1]), pa.array(["a", "a", None]))
    assert keys[0] is not None and keys[1] is None and keys[2] is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([-(2**63), -1, 0, 1, 2**63 - 1]),
        pa.array([decimal.Decimal(n) / 100 for n in (-5, 0, 5, 10**30)], pa.decimal128(38, 2)),
        pa.array([datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
        pa.array([0, 1, 2**52], pa.timestamp("us", "UTC")),
        pa.array([True, False]),
        pa.array(["", "a", "a\0", "A", "ä", "x" * 1_000_000]),
        pa.array([b"", b"\0", b"\0\0"]),
    ],
)
def test_different_keys_have_different_bits(column):
    assert len(set(digest(column))) == len(column)


def test_the_order_of_the_parts_matters_and_parts_do_not_run_together():
    one, two = pa.array(["ab", "a"]), pa.array(["c", "bc"])
    assert len(set(digest(one, two)) | set(digest(two, one))) == 4


def test_slices_and_chunks_of_a_column_give_the_same_keys_as_the_whole():
    column = pa.array(["x", None, "yy", "zzz", ""])
    whole = digest(column)
    assert digest(column.slice(2)) == whole[2:]
    assert digest(pa.chunked_array([column.slice(0, 2), column.slice(2)])) == whole


def test_shards_are_evenly_filled_by_consecutive_keys():
    h1, h2, _ = hash_keys([pa.array(np.arange(100_000))])
    counts = np.bincount(shard_of(h1, h2, 8), minlength=8)
    assert counts.min() > 0.95 * 100_000 / 8
