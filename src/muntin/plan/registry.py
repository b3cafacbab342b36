"""The policies of one kind, in one tuple: SQL, the planner, EXPLAIN and the benches all read it.

A new policy is one new file, and one more entry where its kind's registry is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    """What every policy says of itself: its name in SQL, the paper it is from, and what it does in one line."""

    @property
    def name(self) -> str: ...

    @property
    def paper(self) -> str: ...

    @property
    def summary(self) -> str: ...


class Stateless:
    """A policy has no state: two of one class are the same, also after one has travelled to a worker."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


P = TypeVar("P", bound=Named)


class Registry(Generic[P]):
    """Policies in the order in which people see them; those who need one find it by its name."""

    def __init__(self, *policies: P):
        self.policies = policies

    def __iter__(self) -> Iterator[P]:
        return iter(self.policies)

    def __getitem__(self, name: str) -> P:
        for policy in self.policies:
            if policy.name == name:
                return policy
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(policy.name for policy in self.policies)
