"""What is said where Spark does not start."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.spark.session.session import _unstarted


class FromJava(Exception):
    """What Py4J raises: its own text says only which call failed."""

    def __init__(self, message: str):
        super().__init__("An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.")
        self.java_exception: Any = self
        self.getMessage = lambda: message


@pytest.mark.parametrize(
    ("error", "settings", "said", "hint"),
    [
        (FromJava("Could not parse Master URL: 'x'"), {}, "Could not parse Master URL: 'x'", "--master"),
        (ValueError(), {}, "ValueError", "--conf"),
        (
            RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"),
            {"spark.jars.packages": "a:b:1"},
            "Java ended while it fetched packages",
            "could not fetch a:b:1",
        ),
    ],
)
def test_the_reason_is_told_in_java_s_words(error: Exception, settings: dict[str, str], said: str, hint: str) -> None:
    found = _unstarted(error, settings)
    assert found.message == f"Spark does not start: {said}"
    assert found.hint is not None and hint in found.hint
