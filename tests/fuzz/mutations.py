"""Valid inputs, spoilt: texts word by word, bytes bit by bit, JSON value by value. A seed brings each case back."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

WORD = re.compile(r"\w+|\s+|'[^']*'|.", re.DOTALL)
NASTY = (
    "", "'", '"', "`", "(", ")", ";", "--", "/*", "*/", "\\", "\0", "\n", "\r", "\u2028", "\u202e", "\ufeff",
    "\U0010ffff", "é", "0", "-1", "1e999", "NaN", "9223372036854775807", "9223372036854775808", "1" * 400,
    "-9223372036854775809", "0.1e-400", "NULL", "*", "%", "_", "{", "}", "[", "]", "$", "?", ":", "::", "=>", ",", ".",
    "..", "'a", "x'ff'",
    "INTERVAL '1' YEAR", "DATE '9999-12-31'", "TIMESTAMP '0000-00-00'", "A.", "B.", "A.*", "(SELECT 1)", "CASE", "END",
)  # fmt: skip
NUMBERS = (0, -1, 1, 255, 256, 2**31, 2**32, 2**62, 2**63, -(2**63), 2**64, 1e308, float("inf"), float("nan"), 0.5)
VALUES: tuple[Any, ...] = (
    None, True, False, "", "x", "\ud800", "../../etc/passwd", "\0", [], {}, [[]], {"": None}, "1" * 300, *NUMBERS,
)  # fmt: skip
DEEP = 200
"""How deep things are nested that should not be."""


def spoilt_text(dice: random.Random, corpus: Sequence[str], words: Sequence[str]) -> str:
    """A text of the corpus with a few changes."""
    parts = WORD.findall(dice.choice(corpus))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        at = dice.randrange(len(parts) + 1)
        match dice.randrange(9):
            case 0:
                del parts[at : at + dice.choice((1, 1, 2, 8))]
            case 1:
                parts.insert(at, dice.choice(NASTY))
            case 2:
                parts[at : at + 1] = [f" {dice.choice(words)} "]
            case 3:
                parts.insert(at, f" {dice.choice(words)} ")
            case 4:
                other = dice.randrange(len(parts) + 1)
                parts[at:at] = parts[other : other + dice.choice((1, 2, 5, 20))]
            case 5:
                other = WORD.findall(dice.choice(corpus))
                start = dice.randrange(len(other) + 1)
                parts[at:] = other[start:]
            case 6:
                end = min(len(parts), at + dice.choice((1, 2, 5)))
                times = dice.choice((1, 2, 30, DEEP))
                parts[at:end] = ["(" * times, *parts[at:end], ")" * dice.choice((times, times, times - 1))]
            case 7:
                parts[at : at + 1] = ["".join(parts[at : at + 1]) * dice.choice((2, 3, 100, 2000))]
            case 8:
                parts.insert(at, chr(dice.randrange(1, 0x2FF)))
    return "".join(parts)[:300_000]


def varied_text(dice: random.Random, corpus: Sequence[str], expressions: Sequence[str]) -> str:
    """A text of the corpus with other numbers, texts, columns and functions: one that may well be right."""
    parts = WORD.findall(dice.choice(corpus))
    numbers = [n for n, part in enumerate(parts) if part.isdecimal()]
    texts = [n for n, part in enumerate(parts) if part[0] == "'"]
    columns = [n for n in range(2, len(parts)) if parts[n - 1] == "." and parts[n - 2] in ("A", "B")]
    for _ in range(dice.choice((1, 2, 3))):
        match dice.randrange(4):
            case 0 if numbers:
                parts[dice.choice(numbers)] = dice.choice(
                    ("0", "1", "7", "1000", "2147483648", "99999999999999", "0.5")
                )
            case 1 if texts:
                parts[dice.choice(texts)] = "'" + dice.choice(NASTY).replace("'", "''") + "'"
            case _ if columns:
                at = dice.choice(columns)
                if parts[at - 1] == ".":
                    column = parts[at - 2] + "." + dice.choice(("k", "v", "s", "d", "b", "day", "ts", "tags", "g"))
                    parts[at - 2 : at + 1] = ["", "", dice.choice((column, f"({dice.choice(expressions)})"))]
            case _:
                pass
    return "".join(parts)


def spoilt_bytes(dice: random.Random, data: bytes) -> bytes:
    """Bytes with flipped bits, pieces gone, moved, repeated or replaced."""
    found = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 16))):
        at = dice.randrange(len(found) + 1)
        match dice.randrange(6):
            case 0 | 1 if found:
                found[at % len(found)] ^= 1 << dice.randrange(8)
            case 2:
                del found[at : at + dice.choice((1, 4, 64, len(found)))]
            case 3:
                found[at:at] = dice.randbytes(dice.choice((1, 4, 8, 40)))
            case 4:
                found[at : at + 8] = dice.choice((0, 1, 2**31, 2**63, 2**64 - 1)).to_bytes(8, "little")
            case _:
                found[at:at] = found[: dice.randrange(len(found) + 1)]
    return bytes(found[:100_000])


def spoilt_json(dice: random.Random, value: Any) -> Any:
    """JSON of which one value is another, gone, or somewhere else."""
    if dice.random() < 0.25 or not value or not isinstance(value, dict | list):
        return _other(dice, value)
    if isinstance(value, list):
        at = dice.randrange(len(value))
        changed = [*value]
        if dice.random() < 0.15:
            del changed[at]
        elif dice.random() < 0.1:
            changed.append(dice.choice(VALUES))
        else:
            changed[at] = spoilt_json(dice, value[at])
        return changed
    name = dice.choice([*value])
    if dice.random() < 0.15:
        return {other: item for other, item in value.items() if other != name}
    if dice.random() < 0.1:
        return {**value, dice.choice(("", "x", name.upper(), "\0")): dice.choice(VALUES)}
    return {**value, name: spoilt_json(dice, value[name])}


def _other(dice: random.Random, value: Any) -> Any:
    if dice.random() < 0.02:
        nested: Any = value
        for _ in range(DEEP):
            nested = [nested]
        return nested
    if isinstance(value, str) and dice.random() < 0.5:
        return value[: dice.randrange(len(value) + 1)] + dice.choice(NASTY)
    return dice.choice(VALUES)
