"""An object store as a file system of PyArrow's, for whoever reads Parquet from it."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import pyarrow.fs as fs

from muntin.spark.store.location import ObjectPath


def arrow_files(place: ObjectPath) -> tuple[fs.FileSystem, str]:
    """The file system, and the path of a location in it; keys and endpoint come from the environment, as ours do."""
    parts = urlsplit(str(place))
    if parts.scheme != "s3":
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(str(place))
        return found
    endpoint, region = os.environ.get("AWS_ENDPOINT_URL"), os.environ.get("AWS_REGION")
    files = fs.S3FileSystem(endpoint_override=endpoint, region=region or os.environ.get("AWS_DEFAULT_REGION"))
    return files, f"{parts.netloc}{parts.path}"
