"""Every job of these tests checks the state of its operators after every step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muntin.testing import LocalJob


@pytest.fixture(autouse=True, scope="module")
def checked() -> Iterator[None]:
    LocalJob.checks = True
    yield
    LocalJob.checks = False
