"""`--checkpoint`: a folder, or a URI, as the commands about a job take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muntin.spark.store import Location


def a_checkpoint(text: str) -> Location:
    """The checkpoint that an argument names; what is in no supported storage is refused by name. Nothing is read."""
    from muntin.spark.store import locate

    return locate(text)
