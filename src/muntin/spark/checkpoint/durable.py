"""Our durable files of JSON: each is there whole or not at all, and says what it is.

    {"checksum": "1c291ca3", "file": {"kind": "manifest", "format": 2, "job": "5f", "name": "0000000003", "content": .}}

The checksum is the CRC32 of the bytes of `file`. Kind, job and name are part of what it covers: a whole file of
another kind, of another checkpoint or of another number is recognised, also where it was copied over this one.
`docs/state-format.md` says what each holds, `docs/durable-files.md` what damage in them does.
"""

from __future__ import annotations

import json
import zlib
from enum import StrEnum
from typing import Any

from muntin.model import MuntinError
from muntin.model.records import Record, from_json, to_json
from muntin.spark.store import Location, crash_points, store_of

FORMAT = 2
_BEGIN, _MIDDLE, _END = b'{"checksum": "', b'", "file": ', b"}"
_BODY = len(_BEGIN) + 8 + len(_MIDDLE)
_HEAD = {"kind", "format", "job", "name", "content"}
UNFIT = TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError, RecursionError
"""What is raised where a whole file has other contents than its kind."""
OTHER_FORMAT = "finish it with the Muntin that wrote it, or start with another `checkpoint=` and `output=`"
_RESTORE = "restore checkpoint and output from one back-up, or begin anew with another `checkpoint=` and `output=`"


class FileKind(StrEnum):
    JOB = "job"
    MANIFEST = "manifest"
    FENCE = "fence"
    LEASE = "lease"
    PLACE = "place of Spark's half"
    LOG = "log of an output"
    PLAN = "plan"
    TABLE = "version of a table"
    CONTROL = "control message"
    STATUS = "status"
    HISTORY = "history"
    CONSTANTS = "constants"
    REQUEST = "request"
    ANSWER = "answer"
    OWNER = "owner of an output"
    PUBLISHED = "last published"
    COLUMNS = "columns of a query"
    RESCALE = "rescale"
    MOVED = "moved pipeline"
    SLICES = "layout of slices"
    TAKE_OVER = "take-over"


WHAT_TO_DO = {
    FileKind.JOB: _RESTORE,
    FileKind.MANIFEST: _RESTORE,
    FileKind.FENCE: _RESTORE,
    FileKind.LEASE: "remove it if no driver runs on the checkpoint",
    FileKind.PLACE: "remove it, and name the folder with `spark_checkpoint=`",
    FileKind.LOG: _RESTORE,
    FileKind.PLAN: _RESTORE,
    FileKind.TABLE: _RESTORE,
    FileKind.CONTROL: _RESTORE,
    FileKind.STATUS: "it is only a report: run the job, and it is written anew",
    FileKind.HISTORY: "it is only a report: remove it, and charts begin anew",
    FileKind.CONSTANTS: "run muntin calibrate again, or remove the file",
    FileKind.REQUEST: "send it again with `muntin query`",
    FileKind.ANSWER: "`muntin query list` shows whether the change is in force",
    FileKind.OWNER: "remove the file if the folder is this job's: the next start writes it anew",
    FileKind.PUBLISHED: "remove the file if no file here is newer than the checkpoint: the next start writes it anew",
    FileKind.COLUMNS: "remove the file: the next start writes it anew",
    FileKind.RESCALE: _RESTORE,
    FileKind.MOVED: _RESTORE,
    FileKind.TAKE_OVER: _RESTORE,
    FileKind.SLICES: "restore it from a back-up: it says which rows of the slices beside it are whose",
}


class DamageError(MuntinError):
    """A durable file is not what was written there; the message names it."""


class MissingError(DamageError):
    """A durable file that must be there is not."""


def write_json(file: Location, kind: FileKind, content: Any, job: str | None = None) -> None:
    """Write a file whole. `job` is the id of the checkpoint that it belongs to, None for one that fits any."""
    with crash_points.durable(kind):
        store_of(file).put(file, f"{to_line(kind, file.stem, content, job)}\n".encode())


def read_json(file: Location, kind: FileKind, job: str | None = None) -> Any:
    """The content of a file of this kind and of this name; with a `job`, of this checkpoint."""
    try:
        data = store_of(file).read(file)
    except FileNotFoundError:
        raise MissingError(f"{file} is missing", hint=WHAT_TO_DO[kind]) from None
    return from_line(data.removesuffix(b"\n"), kind, file.stem, job, str(file))


def put_new_json(file: Location, kind: FileKind, content: Any, job: str | None = None) -> bool:
    """Write a file whole unless there is one; whether it was written."""
    with crash_points.durable(kind):
        return store_of(file).put_new(file, f"{to_line(kind, file.stem, content, job)}\n".encode())


def write_record(file: Location, kind: FileKind, record: Any, job: str | None = None) -> None:
    """Write a dataclass as a whole file."""
    write_json(file, kind, to_json(record), job)


def read_record(file: Location, kind: FileKind, made: type[Record], job: str | None = None) -> Record:
    """The dataclass that `write_record` wrote."""
    return as_record(read_json(file, kind, job), kind, made, str(file))


def as_record(content: Any, kind: FileKind, made: type[Record], where: str) -> Record:
    """The content of a file as a dataclass; `where` says in the message which file it was."""
    try:
        return from_json(made, content)
    except UNFIT as error:
        raise unfit(where, kind, error) from None


def unfit(where: object, kind: FileKind, error: Exception) -> DamageError:
    """What is wrong with a whole file whose contents are not those of its kind."""
    return _damaged(str(where), kind, f"it does not have the fields of a {kind} ({error})")


def job_of(file: Location, kind: FileKind) -> str | None:
    """The id of the checkpoint that a file belongs to."""
    found: str | None = _opened(store_of(file).read(file).removesuffix(b"\n"), kind, str(file))["job"]
    return found


def kind_of(data: bytes, wanted: FileKind, where: str) -> str:
    """What a file says it is, if it is whole; `wanted` is what it should be."""
    return str(_checked(data, wanted, where)["kind"])


def to_line(kind: FileKind, name: str, content: Any, job: str | None = None) -> str:
    """A file as one line of text."""
    body = json.dumps({"kind": kind, "format": FORMAT, "job": job, "name": name, "content": content})
    crc = f"{zlib.crc32(body.encode()):08x}"
    return f"{_BEGIN.decode()}{crc}{_MIDDLE.decode()}{body}{_END.decode()}"


def from_line(data: bytes, kind: FileKind, name: str | None, job: str | None, where: str) -> Any:
    """What `to_line` was given; `name` None where nobody knows it. `where` says in the message which file it was."""
    found = _opened(data, kind, where)
    if name is not None and found["name"] != name:
        raise _damaged(where, kind, f"it is the {kind} {found['name']}, copied here")
    if job is not None and found["job"] != job:
        raise _damaged(where, kind, f"it is of checkpoint {found['job']}, job.json says {job}: one was copied here")
    return found["content"]


def _opened(data: bytes, kind: FileKind, where: str) -> dict[str, Any]:
    found = _checked(data, kind, where)
    if found["kind"] != kind:
        raise _damaged(where, kind, f"it is not a {kind}, but a {found['kind']}")
    return found


def _checked(data: bytes, kind: FileKind, where: str) -> dict[str, Any]:
    """A file that is whole, of whatever kind; `kind` is what it should be."""
    if not data:
        raise _damaged(where, kind, "it is empty")
    body = data[_BODY : -len(_END)]
    if data[: len(_BEGIN)] != _BEGIN or data[_BODY - len(_MIDDLE) : _BODY] != _MIDDLE:
        raise _damaged(where, kind, "it does not begin as one of Muntin's files, or is from before these had checksums")
    if data[-len(_END) :] != _END or data[len(_BEGIN) : len(_BEGIN) + 8] != b"%08x" % zlib.crc32(body):
        raise _damaged(where, kind, "its checksum does not match")
    try:
        found: dict[str, Any] = dict(json.loads(body))
        missing = _HEAD - found.keys()
    except UNFIT:
        missing = _HEAD
    if missing:
        raise _damaged(where, kind, "its checksum is right, but it does not say what it is")
    if found["format"] != FORMAT:
        message = f"{where} is a file of format {found['format']}, this Muntin reads format {FORMAT}"
        raise DamageError(message, hint=OTHER_FORMAT)
    return found


def _damaged(where: str, kind: FileKind, what: str) -> DamageError:
    return DamageError(f"{where} is damaged: {what}", hint=WHAT_TO_DO[kind])
