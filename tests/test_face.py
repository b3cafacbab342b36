"""What `import muntin` offers: all of it documented, nothing private, and nothing heavy before it is used."""

from __future__ import annotations

import inspect
import typing
from pathlib import Path

import muntin

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text()


def test_dir_has_the_public_names_and_no_others():
    assert dir(muntin) == sorted(muntin.__all__)
    assert [name for name in dir(muntin) if name.startswith("_") and name != "__version__"] == []
    assert all(getattr(muntin, name) is not None for name in dir(muntin))


def test_every_public_name_is_documented():
    assert [name for name in muntin.__all__ if f"muntin.{name}" not in PAGE] == []


def test_every_public_method_and_argument_of_jobs_and_runs_is_documented_on_the_page_and_in_the_code():
    for kind, spelled in ((muntin.Job, "job"), (muntin.Run, "run")):
        for name, method in inspect.getmembers(kind, inspect.isroutine):
            if name.startswith("_"):
                continue
            assert method.__doc__, f"{spelled}.{name} says nothing"
            assert f"{spelled}.{name}(" in PAGE or f"{kind.__name__}.{name}(" in PAGE, (
                f"{spelled}.{name} is not on the page"
            )
            for argument in list(inspect.signature(method).parameters)[1:]:
                assert argument in PAGE, f"{spelled}.{name}({argument}) is not on the page"


def test_all_errors_are_caught_by_the_base():
    errors = [muntin.UsageError, muntin.SqlError, muntin.DamageError]
    assert all(issubclass(error, muntin.MuntinError) for error in errors)
    assert [error.__name__ for error in errors if error.__name__ not in muntin.__all__] == []


def test_the_times_of_an_answer_are_datetimes():
    hints = typing.get_type_hints(muntin.Answer)
    assert hints["applied_from"] == hints["complete_from"]
    assert "datetime" in str(hints["complete_from"])
