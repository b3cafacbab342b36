"""Folders of this user alone, also where others may write beside them: in temporary folders that all users share."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from muntin.model import MuntinError

PRIVATE = 0o700
_OTHERS_MAY_WRITE = 0o022


def private_folder(folder: Path) -> Path:
    """Make a folder that nobody else may enter, or take one that is; whatever another user could have put there under
    its name is refused."""
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise _refused(folder, "belongs to somebody else")
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise _refused(folder, "can be written by others")
    if found.st_mode & 0o777 != PRIVATE:
        folder.chmod(PRIVATE)
    return folder


def _refused(folder: Path, why: str) -> MuntinError:
    hint = "remove it, or name another place: TMPDIR, XDG_CACHE_HOME, or spark.local.dir for executors"
    return MuntinError(f"{folder} {why}: it is no place for state or programs of this user", hint=hint)
