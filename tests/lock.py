"""Gives every line of requirements.lock the hashes of its files: `python tests/lock.py`.

A line is `name==version`. What the index has of that version, for every platform and Python that Muntin runs on, may be
installed, and nothing else: pip refuses a file with another hash. After a change of versions, write the plain lines and
run this.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

LOCK = Path(__file__).parents[1] / "requirements.lock"
PYPI = "https://pypi.org/simple"
LINK = re.compile(r'href="([^"]+?)#sha256=([0-9a-f]{64})"')
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)")
OLD = re.compile(r"-(?:cp2\d?|cp3[0-9]|cp310|pp3\d{0,2})-(?!abi3)|-graalpy")
"""Files for a Python that is too old, or another."""


def indexes() -> list[str]:
    """Where pip looks."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    more = " ".join(value.strip("'") for name, value in told.items() if name.endswith("extra-index-url"))
    first = next((value.strip("'") for name, value in told.items() if name.endswith(".index-url")), PYPI)
    return [url.rstrip("/") for url in (first, *more.split())]


def hashes(name: str, version: str, places: list[str]) -> list[str]:
    """Of all files of a version that Muntin may run on."""
    found: set[str] = set()
    for place in places:
        try:
            with urllib.request.urlopen(f"{place}/{canonicalize_name(name)}/{_page(place)}", timeout=180) as page:
                text = page.read().decode()
        except OSError:
            continue
        for link, digest in LINK.findall(text):
            file = urllib.parse.unquote(html.unescape(link).rsplit("/", 1)[-1])
            if _version(file) == Version(version) and not OLD.search(file):
                found.add(digest)
    if not found:
        raise SystemExit(f"{name}=={version}: no index has it")
    return sorted(found)


def _page(place: str) -> str:
    return "index.html" if place.startswith("file:") else ""


def _version(file: str) -> Version | None:
    try:
        return (parse_wheel_filename(file) if file.endswith(".whl") else parse_sdist_filename(file))[1]
    except ValueError:
        return None


def pins(text: str) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for line in text.splitlines() if (found := PIN.match(line)) is not None]


def main() -> None:
    text, places = LOCK.read_text(), indexes()
    head = [line for line in text.splitlines() if line.startswith("#")]
    wanted = sorted(set(pins(text)), key=lambda pin: canonicalize_name(pin[0]))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pin: hashes(*pin, places), wanted))
    lines = [
        " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in digests)])
        for (name, version), digests in zip(wanted, found, strict=True)
    ]
    LOCK.write_text("\n".join([*head, *lines]) + "\n")
    print(f"{len(wanted)} packages, {sum(map(len, found))} files")


if __name__ == "__main__":
    main()
