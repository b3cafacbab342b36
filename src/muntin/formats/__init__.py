"""The values of messages: bytes on one side, columns on the other.

A broker, a socket or a line of text brings a value of bytes. A format says how the columns that a stream declares come
out of it, and how rows of a query go into it. Each format is one file, and `FORMATS` lists them. Nothing here knows
where the bytes come from.
"""

from muntin.formats.format import Decoded, Format
from muntin.formats.json_texts import json_lines, json_rows, json_texts
from muntin.formats.registry import FORMATS, format_named

__all__ = ["FORMATS", "Decoded", "Format", "format_named", "json_lines", "json_rows", "json_texts"]
