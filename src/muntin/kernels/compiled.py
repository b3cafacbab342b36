"""How kernels are compiled, and where their machine code is kept.

Numba tells stale machine code by the file that a function stands in, but our kernels have functions of other files
inlined. So the machine code lies in a folder that bears the digest of all kernel sources: whoever changes one of them
gets a new folder. The process that makes a folder removes those of other digests. A process that is still at work with
one of these makes it again when it compiles.
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
        for old in root.iterdir() if is_new else ():
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)
        return folder
    return None


FOLDER = code_folder(SOURCES, possible_roots(SOURCES))
inlined: Callable[[Kernel], Kernel] = numba.njit(inline="always")
"""A part of other kernels: its code is copied to where it is called."""


def _compiled(function: Kernel, **options: bool) -> Kernel:
    """Compile a function when it is first called, and keep its machine code for other processes."""
    elsewhere = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(FOLDER)
    try:
        compiled: Kernel = numba.njit(cache=FOLDER is not None, **options)(function)
    finally:
        numba.config.CACHE_DIR = elsewhere
    return compiled


def kernel(function: Kernel) -> Kernel:
    """A function that is compiled when it is first called."""
    return _compiled(function)


def kernel_in_place(function: Kernel) -> Kernel:
    """A kernel that makes no arrays: it need not count references, which costs where arrays are handed on in a loop."""
    return _compiled(function, _nrt=False)
