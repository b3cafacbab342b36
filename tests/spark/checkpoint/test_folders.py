"""Folders are paths and `file:` URIs; what is in other storage is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.model import UsageError
from muntin.spark.checkpoint import folder_of
from muntin.spark.sink import OutputRequest, open_sink


@pytest.mark.parametrize("text", ["s3a://b/x", "hdfs://host/x", "ftp://h/x", "s3://b/x", "file://other/x"])
def test_a_uri_of_other_storage_is_no_folder(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for place in (text, *([] if text.startswith("file:") else [Path(text)])):
        with pytest.raises(UsageError, match="is not a folder of this machine") as refused:
            folder_of(place)
        assert refused.value.hint
    for output in (text, f"csv:{text}"):
        with pytest.raises(UsageError, match="is not a folder of this machine"):
            open_sink(OutputRequest(output))
    assert not list(tmp_path.iterdir())


def test_paths_and_file_uris_are_folders():
    assert folder_of("a/b") == Path("a/b").absolute() == folder_of(Path("a/b"))
    assert folder_of("file:///a/b%20c") == Path("/a/b c") == folder_of("file:/a/b%20c")
    assert folder_of("C:x") == Path("C:x").absolute()
