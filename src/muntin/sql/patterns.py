"""Regular expressions: patterns of Java, in which users write them, as those of RE2, which evaluates them.

A pattern is a literal. What both engines take to mean the same is passed on, what they spell differently is translated
(`.` stops at more line ends in Java, `\\s` knows one more blank, `(?i)` folds ASCII letters only), and what RE2 has not
(look-around, back references, possessive quantifiers) is refused by name.
"""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from muntin.kernels.evaluate import evaluate, type_of
from muntin.sql.catalog import accepted, function
from muntin.sql.translate import Translator, Value, fill, rule, written_call

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_BLANKS = r"\t\n\x0B\f\r "
_LAST = rf"(?:\r\n|[{_LINE_ENDS}])?\z"
"""What `$` matches in Java: the end, or a line end before it."""
_QUANTIFIER = re.compile(r"[*+?]|\{(\d{1,4})(?:,(\d{0,4}))?\}")
_PROPERTY = re.compile(r"\\[pP](?:[LNPSZ]|\{(?:[LNPSZ]|L[ul]|Nd)\})")
_UNICODE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})")
_RANGE = re.compile(r"([a-z])-([a-z])|([A-Z])-([A-Z])|([a-zA-Z])")
_HINT = "write it without, or with LIKE and SUBSTRING"


class RegularExpression:
    """One pattern on its way from Java's syntax to RE2's; `groups` counts what it captures."""

    def __init__(self, t: Translator, node: exp.Expr, text: str, tested: bool = False):
        self._t, self._node, self._text, self._at = t, node, text, 0
        flags = re.match(r"\(\?([is]+)\)", text)
        self._folds, self._spans = (flag in (flags[1] if flags else "") for flag in "is")
        self._at = flags.end() if flags else 0
        self._end = _LAST if tested else "$"
        self.groups = 0
        self.re2 = "".join(self._parts())
        try:
            type_of("regexp_matches('', " + exp.Literal.string(self.re2).sql("duckdb") + ")", [])
        except Exception as error:
            message = f"the pattern is not a regular expression: {str(error).splitlines()[0]}"
            raise t.error(message, node, "look at its brackets and quantifiers") from error

    @property
    def may_be_empty(self) -> bool:
        """Whether the pattern may match nothing at all; where it begins with ^ it does so once."""
        anchored = self._text.startswith("^") and "|" not in self._text
        empty = f"regexp_full_match('', {exp.Literal.string(self.re2).sql('duckdb')})"
        (found,) = evaluate(pa.table({"_": [0]}), [(empty, "boolean")])
        return not anchored and bool(found[0].as_py())

    def _refused(self, what: str) -> Exception:
        return self._t.text.refuse(f"{what} in a pattern", self._node, _HINT)

    def _rest(self, form: re.Pattern[str] | str) -> re.Match[str] | None:
        return re.compile(form).match(self._text, self._at)

    def _parts(self) -> list[str]:
        parts: list[str] = []
        while self._at < len(self._text):
            parts.append(self._part())
        return parts

    def _part(self) -> str:
        char = self._text[self._at]
        if char == "\\":
            return self._escape(inside=False)
        if char == "[":
            return self._class()
        if char == "(":
            return self._group()
        found = self._rest(_QUANTIFIER)
        if found is not None:
            return self._quantifier(found)
        if char == "{":
            raise self._refused("{ that is no quantifier")
        self._at += 1
        if char == ".":
            return "(?s:.)" if self._spans else f"[^{_LINE_ENDS}]"
        if char == "$":
            return self._end
        return self._folded(char)

    def _folded(self, char: str) -> str:
        return f"[{char.lower()}{char.upper()}]" if self._folds and char.isascii() and char.isalpha() else char

    def _quantifier(self, found: re.Match[str]) -> str:
        self._at = found.end()
        if self._text[self._at : self._at + 1] == "+":
            raise self._refused("a possessive quantifier")
        if any(n and int(n) > 1000 for n in found.groups()):
            raise self._refused("more than 1000 repetitions")
        if self._text[self._at : self._at + 1] == "?":
            self._at += 1
            return found[0] + "?"
        return found[0]

    def _group(self) -> str:
        named = self._rest(r"\(\?<([A-Za-z]\w*)>")
        if self._text.startswith("(?:", self._at):
            self._at += 3
            return "(?:"
        if named is None and self._text.startswith("(?", self._at):
            raise self._refused(f"{self._text[self._at : self._at + 3]}...)")
        self._at = named.end() if named else self._at + 1
        self.groups += 1
        return "("

    def _escape(self, inside: bool) -> str:
        found = self._rest(_PROPERTY)
        if found is not None:
            self._at = found.end()
            return found[0]
        found = self._rest(_UNICODE)
        if found is not None:
            self._at = found.end()
            return f"\\x{{{found[1] or found[2]}}}"
        char = self._text[self._at + 1 : self._at + 2]
        known = "dDwWtnrfa" if inside else "dDwWtnrfabBAz"
        if char == "s":
            self._at += 2
            return _BLANKS if inside else f"[{_BLANKS}]"
        if char == "S" and not inside:
            self._at += 2
            return f"[^{_BLANKS}]"
        if not char or (char.isalnum() and char not in known) or not char.isascii():
            raise self._refused(f"\\{char}")
        self._at += 2
        return f"\\{char}"

    def _class(self) -> str:
        start = self._rest(r"\[\^?")
        assert start is not None
        made, self._at = start[0], start.end()
        if self._text.startswith("]", self._at):
            raise self._refused("] as the first of a class")
        while not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise self._t.error("the pattern has a [ without an end", self._node, "close it with ]")
            if self._text[self._at] == "[" or self._text.startswith("&&", self._at):
                raise self._refused("a class within a class")
            made += self._member()
        self._at += 1
        return made + "]"

    def _member(self) -> str:
        if self._text[self._at] == "\\":
            return self._escape(inside=True)
        found = self._rest(_RANGE) if self._folds else None
        if found is None:
            self._at += 1
            return self._text[self._at - 1]
        self._at = found.end()
        return found[0].lower() + found[0].upper()


def pattern_of(t: Translator, node: exp.Expr, name: str, tested: bool = False) -> RegularExpression:
    """The pattern that a literal is; `tested`: only whether it matches is asked."""
    value = t.value(node)
    if not value.is_text:
        raise t.error(
            f"{name} needs its pattern in quotes", node, "write a literal: a pattern from data is not supported"
        )
    return RegularExpression(t, node, value.node.name, tested)


def _literal(text: str) -> exp.Expr:
    return exp.Literal.string(text)


@rule(exp.RegexpLike)
def rlike(t: Translator, node: exp.Expr) -> Value:
    return regexp_like(t, node, [node.this, node.expression])


@function("regexp_like(string, pattern) -> boolean", "regexp(string, pattern) -> boolean")
def regexp_like(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = written_call(node) or "RLIKE"
    a, p = accepted(t, "string", arguments[0], name), pattern_of(t, arguments[1], name, tested=True)
    return t.made(node, fill("regexp_matches(a, p)", a=a, p=_literal(p.re2)), "boolean")


@function(
    "regexp_extract(string, pattern, integer = 1) -> string",
    "regexp_extract_all(string, pattern, integer = 1) -> array<string>",
)
def regexp_extract(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = node.name.lower()
    a, p = accepted(t, "string", arguments[0], name), pattern_of(t, arguments[1], name.upper())
    group = t.value(arguments[2]).integer
    if group is None or not 0 <= group <= p.groups:
        hint = "write a number from 0, which is all of the match"
        raise t.error(f"the pattern has {p.groups} group{'s' * (p.groups != 1)}", arguments[1], hint)
    found = fill(f"{name}(a, p, {group})", a=a, p=_literal(p.re2))
    return t.made(node, found, "string" if name == "regexp_extract" else "array<string>")


@function("regexp_substr(string, pattern) -> string", "regexp_count(string, pattern) -> int")
def regexp_found(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = node.name.lower()
    a, p = accepted(t, "string", arguments[0], name), _never_empty(t, arguments[1], name.upper())
    if name == "regexp_substr":
        template = "CASE WHEN regexp_matches(a, p) THEN regexp_extract(a, p, 0) END"
        return t.made(node, fill(template, a=a, p=_literal(p.re2)), "string")
    return t.made(node, fill("CAST(len(regexp_extract_all(a, p, 0)) AS INTEGER)", a=a, p=_literal(p.re2)), "int")


@function("regexp_replace(string, pattern, replacement) -> string")
def regexp_replace(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    a, p = accepted(t, "string", arguments[0], "regexp_replace"), _never_empty(t, arguments[1], "REGEXP_REPLACE")
    value = t.value(arguments[2])
    if not value.is_text:
        raise t.error("REGEXP_REPLACE needs its replacement in quotes", arguments[2], "write a literal")
    by = _literal(_replacement(t, arguments[2], value.node.name, p.groups))
    return t.made(node, fill("regexp_replace(a, p, r, 'g')", a=a, p=_literal(p.re2), r=by), "string")


@function("split(string, pattern) -> array<string>")
def split(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    a, p = accepted(t, "string", arguments[0], "split"), _never_empty(t, arguments[1], "SPLIT")
    return t.made(node, fill("string_split_regex(a, p)", a=a, p=_literal(p.re2)), "array<string>")


def _never_empty(t: Translator, node: exp.Expr, name: str) -> RegularExpression:
    """A pattern that finds something: the engines differ in how often they find nothing."""
    found = pattern_of(t, node, name)
    if found.may_be_empty:
        raise t.error(
            f"the pattern of {name} can match nothing", node, "write it so that it matches a character at least"
        )
    return found


def _replacement(t: Translator, node: exp.Expr, text: str, groups: int) -> str:
    """`$1` and `\\$` of Java as `\\1` and `$` of RE2."""
    made = ""
    for found in re.finditer(r"\\(.)|\$(\d)|(\$|\\)|([^$\\]+)", text, re.DOTALL):
        escaped, group, stray, plain = found.groups()
        if stray or (group and int(group) > groups):
            hint = r"write $1 for the first group, \\$ for a dollar sign"
            raise t.error(f"{found[0]} is not a group of the pattern", node, hint)
        made += f"\\{group}" if group else "\\\\" if escaped == "\\" else escaped or plain
    return made
