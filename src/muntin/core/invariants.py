"""What the state of an operator is, checked."""

from __future__ import annotations

from muntin.core.operator_parts import OperatorParts


def assert_invariants(parts: OperatorParts) -> None:
    pass
