"""One sentence about why a streaming query failed, out of what Spark throws."""

from __future__ import annotations

import re

from muntin.model import MuntinError
from muntin.spark.session import AFTER_ERROR_S, java_failure

_FILE = re.compile(r"(?:[Ee]ncountered error while reading file|[Ee]rror reading file|file path:?)\s+(\S+?)\.?(?:\s|$)")
_FILE_FALLBACK = re.compile(r"(file:/\S+?\.(?:parquet|json|csv|txt|orc|avro|gz)\b)")
_PYTHON = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt|Exit))(?:: (.*))?$", re.MULTILINE)
"""An exception by name, which may have no message."""
_OURS = re.compile(r"^muntin\.[\w.]+Error: (.*)(?:\n +hint: (.*))?$", re.MULTILINE)
"""Our own errors, raised in a worker: a message, and a hint on the next line."""
_WORKER = re.compile(r"Error from python worker:\n(.*?)\nPYTHONPATH was:\n\s*(\S*)", re.DOTALL)
"""What a Python process of Spark's said before it could begin, and where it looked for packages."""
_PROGRAM = re.compile(r'Cannot run program "([^"]+)"[^:\n]*: (?:error=\d+, )?([^\n]*)')
_TORN = re.compile(
    r"Incomplete log file|[Mm]alformed log|ChecksumException|Checksum error|CHECKPOINT_FILE_CHECKSUM|"
    r"CANNOT_LOAD_STATE_STORE|Unterminated string|magic bytes|Parquet file size is 0|is not a Parquet file"
)
"""How Spark and its libraries speak of files that are not what was written."""
_PLACE = re.compile(r"(?:file:/{1,3}|(?<=[\s\"'(])/)[^\s\"'),;]+")
_CODE = re.compile(r"^\[[A-Z_.]+\]\s*")
_NOISE = ("Py4JJavaError", "Py4JError", "PythonException", "StreamingQueryException", "SparkException")


_GO_ON = "then run it again with the same checkpoint: it goes on after the last micro-batch"
_MACHINE = (
    (r"No space left on device|ENOSPC|Disk quota exceeded", "a disk is full", f"make room, {_GO_ON}"),
    (r"Read-only file system", "a file system is read-only", f"let it be written, {_GO_ON}"),
    (
        r"Too many open files",
        "there are too many open files",
        f"raise the limit (`ulimit -n 65536`, LimitNOFILE), {_GO_ON}",
    ),
    (
        r"OutOfMemoryError|Cannot allocate memory|\bMemoryError\b|ArrowMemoryError|malloc of size \d+ failed",
        "memory is short",
        f"bring less in one micro-batch (SET batch_limit), or give Java more (spark.driver.memory), {_GO_ON}",
    ),
    (
        r"Permission denied",
        "a file may not be read or written",
        f"look who owns it, {_GO_ON}",
    ),
)
"""What a machine has run out of: how libraries say it, what it is, and what to do."""
_PATH = re.compile(r"(?:'|\"| |\(|: )(/[^\s'\")(:,]+)")


def explain_failure(error: BaseException) -> MuntinError:
    """A MuntinError for whatever ended a run, with that as its cause."""
    if isinstance(error, MuntinError):
        return error
    may_be_java = isinstance(error, OSError) or type(error).__name__.startswith("Py4J")  # it broke the connection
    found = java_failure(AFTER_ERROR_S if may_be_java else 0.0) or _explained(error)
    found.__cause__ = error
    return found


def _explained(error: BaseException) -> MuntinError:
    texts = list(_texts(error))
    whole = "\n".join(texts)
    unreadable = _unreadable_file(whole)
    if unreadable:
        return MuntinError(
            f"cannot read {unreadable}: it is damaged, not of the declared format, or not what the columns say",
            hint="mend or remove the file and run again: everything before it is safe in the checkpoint",
        )
    if (unstarted := _unstarted_worker(whole)) is not None:
        return unstarted
    if _TORN.search(whole) is not None and _OURS.search(whole) is None:
        return _torn_file(whole, texts)
    ours = _OURS.search(whole)
    if ours and ours[1].strip():
        return MuntinError(ours[1].strip(), hint=ours[2])
    if (short := _short_of(whole)) is not None:
        return short
    python = [m for m in _PYTHON.finditer(whole) if m[1] not in _NOISE]
    if python:
        return MuntinError(f"the job failed: {(python[-1][2] or '').strip() or python[-1][1]}")
    return MuntinError(f"the job failed: {_sentence(texts)}")


def _torn_file(whole: str, texts: list[str]) -> MuntinError:
    """A file of the checkpoint that Spark cannot read, by its name where Spark gives one."""
    place = next((re.sub(r"^file:/+", "/", found[0]).rstrip(".:") for found in _PLACE.finditer(whole)), None)
    said = _sentence(texts)
    name = f"{place} is damaged" if place is not None else "a file of the checkpoint is damaged"
    return MuntinError(
        f"{name}: {said if place is None or place in said else f'Spark says {said!r}'}",
        hint="`muntin doctor --checkpoint DIR` says which files are damaged; with --repair it goes back to the last "
        "whole micro-batch",
    )


def _texts(error: BaseException) -> list[str]:
    """The messages of an error and of its causes, the outermost first."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(texts) < 20:
        texts.append(str(seen) or type(seen).__name__)
        java = getattr(seen, "java_exception", None) or getattr(seen, "_origin", None)
        while java is not None and len(texts) < 20:
            texts.append(str(java.toString()))
            java = java.getCause()
        seen = seen.__cause__
    return texts


def _short_of(text: str) -> MuntinError | None:
    """Where the machine is the reason: which line says so, with the file where it names one."""
    for line in text.splitlines():
        for said, what, hint in _MACHINE:
            if re.search(said, line) is not None:
                path = _PATH.search(line)
                return MuntinError(what + (f": {path[1]}" if path else ""), hint=hint)
    return None


def _unstarted_worker(text: str) -> MuntinError | None:
    """Where the Python of Spark's workers does not run, or lacks what they need."""
    if (program := _PROGRAM.search(text)) is not None:
        return MuntinError(
            f"Spark cannot start its Python process: {program[1]}: {program[2].strip()}",
            hint="name a Python that has Muntin installed in spark.pyspark.python, the same on every machine",
        )
    worker = _WORKER.search(text)
    if worker is None:
        return None
    said = [line.strip() for line in worker[1].splitlines() if line.strip()]
    return MuntinError(
        f"Spark's Python process ended before it began: {said[-1] if said else 'it gave no reason'}",
        hint="its Python (spark.pyspark.python) needs Muntin and its libraries, on every machine, installed or shipped "
        f"(`muntin package`); it looked in {worker[2] or 'no PYTHONPATH'}",
    )


def _unreadable_file(text: str) -> str | None:
    if "FAILED_READ_FILE" not in text and "is not a Parquet file" not in text and "reading file" not in text:
        return None
    found = _FILE.search(text) or _FILE_FALLBACK.search(text)
    return re.sub(r"^file:/+", "/", found[1]) if found else None


def _sentence(texts: list[str]) -> str:
    """The innermost message, without class names and stack."""
    for text in reversed(texts):
        line = next((ln.strip() for ln in text.splitlines() if ln.strip()), "")
        line = re.sub(r"^(?:\w+\.)+\w+: ", "", line)
        if line:
            return _CODE.sub("", line)
    return "Spark gave no reason"
