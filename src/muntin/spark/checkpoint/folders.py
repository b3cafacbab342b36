"""From what a user writes to a folder; a URI of other storage is refused by name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from muntin.model import UsageError

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How a URI begins; a pathlib.Path of one has lost a slash."""


def folder_of(place: str | os.PathLike[str]) -> Path:
    """The folder that a path or a `file:` URI names. Taken for a path, another URI would become a folder `s3a:`."""
    text = os.fspath(place)
    if (found := URI.match(text)) is None:
        return Path(text).absolute()
    parts = urlsplit(text)
    if found[1].lower() == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    raise UsageError(f"{text} is not a folder of this machine", hint="name a folder: a path, or file:///PATH")
