"""Functions of strings."""

from __future__ import annotations

from sqlglot import exp

from muntin.model.types import INTEGERS
from muntin.sql.casts import converted
from muntin.sql.catalog import accepted, form, function, simple
from muntin.sql.translate import NULL, Translator, Value, duckdb_type_node, fill, rule, wrap

LONGEST = 1 << 24
"""Texts that are padded or repeated beyond this many characters are NULL: one row must not take all memory."""

_ASCII = "CASE WHEN length(a) = strlen(a) THEN {0}(a) ELSE unicode_{0}(a) END"
"""Letters that are not ASCII may become several (ß, İ), in DuckDB's own functions they do not."""

for _name, _function in {
    "upper": "upper",
    "ucase": "upper",
    "lower": "lower",
    "lcase": "lower",
    "reverse": "reverse",
}.items():
    simple(f"{_name}(string) -> string", _ASCII.format(_function))
for _side in ("lpad", "rpad"):
    _padded = f"CASE WHEN c = '' OR length(a) >= b THEN substring(a, 1, greatest(b, 0)) ELSE {_side}(a, b, c) END"
    simple(
        f"{_side}(string, integer, string = ' ') -> string",
        f"CASE WHEN c IS NOT NULL AND b <= {LONGEST} THEN {_padded} END",
    )

_SIMPLE = {
    "initcap(string) -> string": "unicode_initcap(a)",
    "startswith(string, string) -> boolean": "starts_with(a, b)",
    "endswith(string, string) -> boolean": "ends_with(a, b)",
    "contains(string, string) -> boolean": "contains(a, b)",
    "replace(string, string, string = '') -> string": "replace(a, b, c)",
    "translate(string, string, string) -> string": "translate(a, b, c)",
    "left(string, integer) -> string": "CASE WHEN b IS NOT NULL THEN substring(a, 1, greatest(b, 0)) END",
    "right(string, integer) -> string": (
        "CASE WHEN b IS NOT NULL THEN substring(a, 1 + greatest(length(a) - greatest(CAST(b AS BIGINT), 0), 0)) END"
    ),
    "repeat(string, integer) -> string": (
        f"CASE WHEN length(a) * CAST(b AS HUGEINT) <= {LONGEST} THEN repeat(a, greatest(b, 0)) END"
    ),
    "space(integer) -> string": f"CASE WHEN a <= {LONGEST} THEN repeat(' ', greatest(a, 0)) END",
    "instr(string, string) -> int": "CASE WHEN b = '' AND a IS NOT NULL THEN 1 ELSE strpos(a, b) END",
    "locate(string, string, integer = 1) -> int": (
        "CASE WHEN c IS NULL THEN 0 WHEN a IS NULL OR b IS NULL THEN NULL WHEN c < 1 THEN 0 WHEN a = '' THEN 1 "
        "WHEN strpos(substring(b, c), a) = 0 THEN 0 ELSE strpos(substring(b, c), a) + c - 1 END"
    ),
    "split_part(string, string, integer) -> string": (
        "CASE WHEN b = '' AND abs(CAST(c AS BIGINT)) = 1 THEN a WHEN b = '' AND c <> 0 AND a IS NOT NULL THEN '' "
        "WHEN c <> 0 THEN split_part(a, b, c) END"
    ),
    "ascii(string) -> int": "CASE WHEN a = '' THEN 0 ELSE unicode(a) END",
    "chr(integer) -> string": "CASE WHEN a < 0 THEN '' ELSE chr(CAST(a % 256 AS INTEGER)) END",
    "md5(bytes) -> string": "md5(a)",
    "sha1(bytes) -> string": "sha1(a)",
    "sha(bytes) -> string": "sha1(a)",
}
for _signature, _template in _SIMPLE.items():
    simple(_signature, _template)
simple("char(integer) -> string", _SIMPLE["chr(integer) -> string"])
simple("position(string, string, integer = 1) -> int", _SIMPLE["locate(string, string, integer = 1) -> int"])
for _form in (
    "trim([BOTH | LEADING | TRAILING] [string FROM] string) -> string",
    "substring(string, integer, integer = all) -> string",
    "substr(string, integer, integer = all) -> string",
    "position(string IN string) -> int",
):
    form(_form)


@function("length(bytes) -> int", "char_length(bytes) -> int", "character_length(bytes) -> int", "len(bytes) -> int")
def length(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    value = t.expect(t.value(arguments[0]), ("string", "binary"), node.name.upper(), "string")
    template = "octet_length(a)" if value.type == "binary" else "length(a)"
    return t.made(node, fill(f"CAST({template} AS INTEGER)", a=value.node), "int")


@function("octet_length(bytes) -> int", "bit_length(bytes) -> int")
def size_in_memory(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    value = t.expect(t.value(arguments[0]), ("string", "binary"), node.name.upper(), "string")
    template = "octet_length(a)" if value.type == "binary" else "strlen(a)"
    factor = 8 if node.name.lower() == "bit_length" else 1
    return t.made(node, fill(f"CAST({template} * {factor} AS INTEGER)", a=value.node), "int")


@function("hex(any) -> string")
def hexadecimal(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    value = t.expect(t.value(arguments[0]), ("string", "binary", *INTEGERS), "HEX", "string, binary or an integer")
    number = exp.Cast(this=value.node, to=duckdb_type_node("bigint")) if value.type in INTEGERS else value.node
    return t.made(node, fill("hex(a)", a=number), "string")


@function("sha2(bytes, integer) -> string")
def sha2(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    a, bits = accepted(t, "bytes", arguments[0], "sha2"), t.value(arguments[1])
    if bits.integer not in (0, 256):
        raise t.text.refuse("SHA2 with another number of bits", arguments[1], "write SHA2(text, 256)")
    return t.made(node, fill("sha256(a)", a=a), "string")


@rule(exp.Trim, args="this expression position")
def trim(t: Translator, node: exp.Expr) -> Value:
    value = t.string(t.value(node.this), "TRIM")
    chars = t.optional(node, "expression")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    what = t.string(chars, "TRIM").node if chars else exp.Literal.string(" ")
    return t.made(node, exp.Anonymous(this=name, expressions=[value.node, what]), "string")


@function(
    "ltrim(string, string...) -> string", "rtrim(string, string...) -> string", "btrim(string, string = ' ') -> string"
)
def one_trim(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """LTRIM and RTRIM take what is to be cut off first, BTRIM last."""
    name = node.name.lower()
    if name != "btrim":
        arguments = [*arguments[1:2], arguments[0]] if len(arguments) == 2 else [*arguments, exp.Literal.string(" ")]
    nodes = [accepted(t, "string", n, name) for n in arguments[:2]]
    return t.made(node, exp.Anonymous(this="trim" if name == "btrim" else name, expressions=nodes), "string")


@rule(exp.StrPosition, args="this substr position")
def position(t: Translator, node: exp.Expr) -> Value:
    given = [node.args["substr"], node.this, *([node.args["position"]] if node.args.get("position") else [])]
    return t.value(exp.Anonymous(this="position", expressions=given))


@function("concat_ws(string, text...) -> string")
def concat_ws(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    first, *rest = arguments
    nodes = [accepted(t, "string", first, "concat_ws"), *(accepted(t, "text", n, "concat_ws") for n in rest)]
    if len(nodes) == 1:
        nodes.append(exp.Null())
    return t.made(node, exp.Anonymous(this="concat_ws", expressions=nodes), "string")


@function("substring_index(string, string, integer) -> string")
def substring_index(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    a, b, c = (
        accepted(t, kind, n, "substring_index")
        for kind, n in zip(("string", "string", "integer"), arguments, strict=True)
    )
    if not isinstance(b, exp.Literal) or len(b.name) != 1:
        raise t.error(
            "SUBSTRING_INDEX needs one character in quotes", arguments[1], "write SUBSTRING_INDEX(text, '.', 2)"
        )
    first = "array_to_string(list_slice(string_split(a, b), 1, c), b)"
    last = "array_to_string(list_slice(string_split(a, b), c, -1), b)"
    parts = (
        f"CASE WHEN c > 0 THEN {first} WHEN c < -len(string_split(a, b)) THEN a WHEN c < 0 THEN {last} "
        "WHEN a IS NOT NULL AND c = 0 THEN '' END"
    )
    return t.made(node, fill(parts, a=a, b=b, c=exp.Cast(this=c, to=duckdb_type_node("bigint"))), "string")


@rule(exp.Substring, args="this start length zero_start")
def substring(t: Translator, node: exp.Expr) -> Value:
    text = t.string(t.value(node.this), "SUBSTRING")
    start, size = t.optional(node, "start"), t.optional(node, "length")
    if start is None:
        raise t.error("SUBSTRING needs a start", node, "write SUBSTRING(text, 1, 3)")
    for value in (start, size):
        if value is not None:
            t.expect(value, INTEGERS, "SUBSTRING", "an integer")
    # `from`: how many characters stand before the window, negative where it starts before the text
    first, known = start.integer, size.integer if size else None
    if first is not None and first >= 0 and (size is None or (known is not None and known >= 0)):
        call = "substring(s, p)" if size is None else "substring(s, p, n)"
        values = {"s": text.node, "p": exp.Literal.number(max(first, 1))} | ({"n": size.node} if size else {})
        return t.made(node, fill(call, **values), "string")
    before = fill("CASE WHEN p > 0 THEN p - 1 WHEN p = 0 THEN 0 ELSE length(s) + p END", p=start.node, s=text.node)
    if size is None:
        return t.made(
            node, fill("substring(s, CASE WHEN f < 0 THEN 1 ELSE f + 1 END)", s=text.node, f=before), "string"
        )
    end = fill("f + n", f=before, n=exp.Cast(this=size.node, to=duckdb_type_node("bigint")))
    cut = fill(
        "CASE WHEN e <= 0 OR n <= 0 THEN '' WHEN f < 0 THEN substring(s, 1, e) ELSE substring(s, f + 1, n) END",
        s=text.node, f=before, e=end, n=size.node,
    )  # fmt: skip
    known_all = fill(
        "CASE WHEN f + n IS NOT NULL AND s IS NOT NULL THEN c END", f=before, n=size.node, s=text.node, c=cut
    )
    return t.made(node, known_all, "string")


@rule(exp.DPipe, args="this expression safe")
def joined(t: Translator, node: exp.Expr) -> Value:
    return concat(t, node, [node.this, node.expression])


@function("concat(text...) -> string")
def concat(t: Translator, node: exp.Expr, parts: list[exp.Expr]) -> Value:
    whole: exp.Expr | None = None
    for part in parts:
        value = t.value(part)
        text = value.node if value.type in ("string", NULL) else converted(t, value, "string", part).node
        whole = wrap(text) if whole is None else exp.DPipe(this=whole, expression=wrap(text), safe=True)
    return t.made(node, whole or exp.Literal.string(""), "string")
