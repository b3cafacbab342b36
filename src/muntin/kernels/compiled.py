"""How kernels are compiled, and where their machine code is kept.

Numba tells stale machine code by the file that a function stands in, but our kernels have functions of other files
inlined. So the machine code lies in a folder that bears the digest of all kernel sources: whoever changes one of them
gets a new folder. The process that makes a folder removes those of other digests. A process that is still at work with
one of these makes it again when it compiles.

Numba also files machine code by where the sources lie. Ours has a place of its own instead (`CodeFolder`): a package
that was shipped lies elsewhere on each executor, and brings its machine code along.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numba
from numba.core.caching import _CacheLocator

Kernel: TypeAlias = Callable[..., Any]
SOURCES = Path(__file__).parent


def sources_digest(sources: Path) -> str:
    """A digest of the names and contents of all kernel sources."""
    digest = hashlib.sha256()
    for source in sorted(sources.glob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def possible_roots(sources: Path) -> list[Path]:
    """Where machine code may be kept, best first: where Numba's user wants it, beside the sources, or in the home."""
    own = f"kernels-{zlib.crc32(str(sources).encode()):08x}"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "muntin", own)
    asked = [Path(numba.config.CACHE_DIR, own)] if numba.config.CACHE_DIR else []
    return [*asked, sources / "__pycache__" / "machine_code", home]


def code_folder(sources: Path, roots: Iterable[Path]) -> Path | None:
    """The folder for the machine code of these sources under the first root that can be written to, None without any.

    Whoever makes the folder removes what else lies under the root.
    """
    for root in roots:
        folder = root / sources_digest(sources)
        is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        if not is_trusted(folder):
            continue
        for old in root.iterdir() if is_new else ():
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)
        return folder
    return None


def is_trusted(folder: Path) -> bool:
    """Whether nobody but this user and the one who installs programs can write to a folder: what lies there is run."""
    found = os.lstat(folder)
    return found.st_uid in (0, os.getuid()) and not found.st_mode & 0o002


FOLDER = code_folder(SOURCES, possible_roots(SOURCES))


class CodeFolder(_CacheLocator):  # type: ignore[misc]
    """Tells Numba where machine code is: in the folder of these sources, wherever they lie."""

    def __init__(self, function: Kernel):
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Kernel, py_file: str) -> CodeFolder:
        return cls(py_func)

    def get_cache_path(self) -> str:
        return str(FOLDER)

    def get_source_stamp(self) -> str:
        """All sources are in the name of the folder."""
        assert FOLDER is not None
        return FOLDER.name

    def get_disambiguator(self) -> str:
        return str(self._line)


LOCATOR = f"{__name__}.{CodeFolder.__name__}"
inlined: Callable[[Kernel], Kernel] = numba.njit(inline="always")
"""A part of other kernels: its code is copied to where it is called."""


def _compiled(function: Kernel, **options: bool) -> Kernel:
    """Compile a function when it is first called, and keep its machine code for other processes."""
    usual = numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_LOCATOR_CLASSES = LOCATOR
    try:
        compiled: Kernel = numba.njit(cache=FOLDER is not None, **options)(function)
    finally:
        numba.config.CACHE_LOCATOR_CLASSES = usual
    return compiled


def kernel(function: Kernel) -> Kernel:
    """A function that is compiled when it is first called."""
    return _compiled(function)


def kernel_in_place(function: Kernel) -> Kernel:
    """A kernel that makes no arrays: it need not count references, which costs where arrays are handed on in a loop."""
    return _compiled(function, _nrt=False)
