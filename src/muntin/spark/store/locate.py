"""From what a user writes to a location: a folder, a `file:` URI, or the URI of an object store.

What is not supported is refused by name, before anything is written: a URI that is taken for a path becomes a folder
named `s3a:` somewhere, and nobody notices until the machine is gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from muntin.model import UsageError
from muntin.spark.store.location import Location, ObjectPath
from muntin.spark.store.objects import ObjectStore

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How a URI begins; a pathlib.Path of one has lost a slash."""
INSTEAD = {
    "s3a": "write s3://: Spark's own half of a checkpoint then goes to s3a:// by itself",
    "s3n": "write s3://",
    "hdfs": "mount it as a folder (NFS gateway, FUSE), or use s3://: HDFS has no put that fails where a file is there",
    "dbfs": "write the path of its mount, /dbfs/...",
}
"""What to write instead of schemes that people know from Spark."""


def _open_s3(root: str) -> Any:
    """S3 and what speaks its language: keys, region and AWS_ENDPOINT_URL come from the environment."""
    from obstore.store import S3Store

    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    options: Any = {"allow_http": True} if plain else None
    return S3Store.from_url(root, client_options=options)


def _open_other(root: str) -> Any:
    from obstore.store import from_url

    return from_url(root)


BACKENDS: dict[str, Callable[[str], Any]] = {"s3": _open_s3, "gs": _open_other, "az": _open_other}
"""How the storage behind each scheme is opened, given the URI of a bucket."""


def is_uri(text: str) -> bool:
    """Whether a text is meant as a URI, supported or not."""
    return URI.match(text) is not None


def locate(place: str | os.PathLike[str]) -> Location:
    """The location that a user names; refuses a URI of storage that we cannot write to."""
    text = os.fspath(place)
    found = URI.match(text)
    if found is None:
        return Path(text)
    scheme, parts = found[1].lower(), urlsplit(text)
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"{text} names another machine", hint="write file:///FOLDER, or the folder alone")
        return Path(unquote(parts.path))
    if scheme not in BACKENDS:
        known = ", ".join(f"{name}://" for name in BACKENDS)
        raise UsageError(
            f"{text}: Muntin cannot keep its files in {scheme}:// storage",
            hint=INSTEAD.get(scheme, f"name a folder, or one of {known}"),
        )
    if not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"{text} is not the URI of a folder in a bucket", hint=f"write {scheme}://BUCKET/FOLDER")
    key = "/".join(part for part in unquote(parts.path).split("/") if part)
    return ObjectPath(bucket(f"{scheme}://{parts.netloc}"), key)


@cache
def bucket(root: str) -> ObjectStore:
    """The store of a bucket, the same for a whole process."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        raise UsageError(f"{root} needs the package obstore", hint="pip install 'muntin[s3]' everywhere") from None
    try:
        return ObjectStore(BACKENDS[root.partition(":")[0]](root), root)
    except Exception as error:
        raise UsageError(f"{root} cannot be opened: {str(error).strip().splitlines()[0]}") from error
