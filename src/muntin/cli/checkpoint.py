"""`--checkpoint`: a folder, or a URI, as the commands about a job take it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muntin.spark.store import Location


def a_checkpoint(text: str) -> Location:
    """The checkpoint that an argument names; what is in no supported storage is refused by name."""
    from muntin.spark.checkpoint import open_checkpoint
    from muntin.spark.store import is_uri

    return open_checkpoint(text) if is_uri(text) else Path(text)
