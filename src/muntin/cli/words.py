"""How the command line speaks: the library speaks Python, here the same things are flags; warnings go to stderr."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable

from muntin.model import MuntinError

FLAGS = {
    "`checkpoint=`": "--checkpoint",
    "`output=`": "--output",
    "`truncate_output=True`": "--truncate-output",
    '`mode="available-now"`': "--available-now",
    '`mode="bounded"`': "--bounded",
}


def in_flags(error: MuntinError) -> MuntinError:
    """An error whose message and hint name flags instead of arguments; a text of SQL in it stays as it is."""
    said = copy.copy(error)
    for argument, flag in FLAGS.items():
        said.message = said.message.replace(argument, flag)
        said.hint = said.hint.replace(argument, flag) if said.hint else said.hint
    return said


def warn(lines: Iterable[str]) -> None:
    """A warning for each line."""
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)
