"""`docs/state-format.md` shows what is written: its examples have the fields of the records, no more, no fewer."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest

from muntin.core.operator_state import OperatorMeta
from muntin.core.results import SliceLayout
from muntin.model.records import from_json, to_json
from muntin.plan.cost import Constants
from muntin.spark.checkpoint import durable
from muntin.spark.checkpoint.identity import STATE_FORMAT, JobIdentity
from muntin.spark.checkpoint.manifests import Manifest
from muntin.spark.checkpoint.plans import StoredPlan
from muntin.spark.checkpoint.requests import Answer, Request
from muntin.spark.checkpoint.take_over import TakeOver
from muntin.spark.control.control_stream import TYPES
from muntin.spark.run.history import History
from muntin.spark.run.rescaling import Moved, Moves
from muntin.spark.run.status import JobStatus
from muntin.spark.shard import ShardMeta
from muntin.spark.tables.versions import StoredVersion

from . import make

PAGE = (Path(__file__).parents[3] / "docs" / "state-format.md").read_text()
SECTIONS = dict(re.findall(r"^### ([^\n:]+)[^\n]*\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
RECORDS: dict[str, list[type]] = {
    "Job identity": [JobIdentity],
    "Plans": [StoredPlan],
    "Tables": [StoredVersion],
    "Manifests": [Manifest],
    "Requests and answers": [Request, Answer],
    "Status": [JobStatus],
    "History": [History],
    "Rescales": [Moves, Moved],
    "Take-overs": [TakeOver],
    "Constants": [Constants],
    "Layouts of slices": [SliceLayout],
}
GOLDEN = {"job.json": JobIdentity, "plans/*.json": StoredPlan, "commits/*.json": Manifest, "status.json": JobStatus}


def examples(section: str) -> list[Any]:
    """The JSON of a section: one value, or several, each on lines of its own."""
    (text,) = re.findall(r"^```json\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)
    found, decoder = [], json.JSONDecoder()
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


def unknown(kind: Any, example: Any) -> list[str]:
    """The fields of an example, at any depth, that its record does not have."""
    args = [arg for arg in typing.get_args(kind) if arg is not type(None)]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        wrong = [f"{kind.__name__}.{name}" for name in example if name not in hints]
        return wrong + [w for name, value in example.items() if name in hints for w in unknown(hints[name], value)]
    if isinstance(example, dict) and typing.get_origin(kind) is dict:
        return [w for value in example.values() for w in unknown(args[1], value)]
    if isinstance(example, list) and args:
        return [w for value in example for w in unknown(args[0], value)]
    return unknown(args[0], example) if len(args) == 1 and example is not None else []


@pytest.mark.parametrize("section", RECORDS)
def test_an_example_has_the_fields_of_its_record(section: str):
    shown = examples(section)
    assert len(shown) == len(RECORDS[section])
    for kind, example in zip(RECORDS[section], shown, strict=True):
        assert unknown(kind, example) == []
        assert [f.name for f in dataclasses.fields(kind) if f.name not in example] == []


def test_the_example_of_a_plan_is_explained_field_by_field():
    told = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", SECTIONS["Plans"], re.MULTILINE)
    assert re.findall(r"\w+", " ".join(told)) == [f.name for f in dataclasses.fields(StoredPlan)]


def test_the_control_messages_are_those_that_are_written():
    told = re.findall(r"^\| `(\w+)` \| (.*?) \|", SECTIONS["Control messages"], re.MULTILINE)
    fields = {name: ", ".join(f"`{f.name}`" for f in dataclasses.fields(kind)) for name, kind in TYPES.items()}
    assert dict(told[1:]) == fields


def test_the_example_of_a_meta_value_has_the_fields_of_an_operator():
    (example,) = examples("The meta value")
    assert list(example) == [f.name for f in dataclasses.fields(ShardMeta)]
    assert unknown(OperatorMeta, example["operator"]) == []
    assert list(example["operator"]) == [f.name for f in dataclasses.fields(OperatorMeta)]


def test_the_numbers_of_the_formats_are_those_in_force():
    told = re.findall(r"(?:It is|this Muntin reads format|state format:|\"state_format\":|\{\"format\":)\s(\d+)", PAGE)
    assert len(told) == 5 and set(told) == {str(STATE_FORMAT)}
    envelope = re.findall(r"\"kind\": \"plan\", \"format\": (\d+)|format of this envelope: (\d+)", PAGE)
    assert [a or b for a, b in envelope] == [str(durable.FORMAT)] * 2


def test_every_kind_of_file_is_on_the_page():
    assert [kind for kind in durable.FileKind if f"`{kind}`" not in PAGE] == []


@pytest.mark.parametrize("pattern", GOLDEN)
def test_the_golden_checkpoint_has_the_fields_of_the_records(tmp_path: Path, pattern: str):
    make.unpack(tmp_path)
    files = sorted((tmp_path / "ckpt" / "muntin").glob(pattern))
    assert files
    for file in files:
        content = json.loads(file.read_text())["file"]["content"]
        assert to_json(from_json(GOLDEN[pattern], content)) == content, file.name
