"""What a store of our durable files can do: the few verbs that a file system and an object store both have.

    read, exists, files, folders    look
    put                             a file is there whole, or as it was before
    put_new                         the same, unless somebody else has put it: how two drivers are told apart
    remove, remove_all              it stays removed

`store_of` finds the store of a location. The POSIX form writes aside, syncs and renames; the object form puts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from muntin.spark.store.location import Location, ObjectPath

Place = TypeVar("Place", Path, ObjectPath)


class Store(ABC, Generic[Place]):
    """Our files in one kind of storage. Each guard is asked before something below its folder is written."""

    def __init__(self) -> None:
        self._guards: list[tuple[Place, Callable[[Place], None]]] = []

    def guard(self, folder: Place, check: Callable[[Place], None]) -> None:
        """Ask before each write below a folder; a check that raises prevents it."""
        self._guards.append((folder, check))

    def unguard(self, check: Callable[[Place], None]) -> None:
        self._guards = [guard for guard in self._guards if guard[1] != check]

    def ask(self, file: Place) -> None:
        """Whether a file may be written or removed."""
        for folder, check in self._guards:
            if f"{file}/".startswith(f"{folder}/"):
                check(file)

    patience_s: float
    """How long what was looked at may be taken to be so still: a look at an object store has its price."""

    @abstractmethod
    def read(self, file: Place) -> bytes:
        """The whole file; raises FileNotFoundError where there is none."""

    @abstractmethod
    def exists(self, file: Place) -> bool: ...

    @abstractmethod
    def files(self, folder: Place) -> list[Place]:
        """The whole files of a folder by name, none where it is not there; those being written are not listed."""

    @abstractmethod
    def folders(self, folder: Place) -> list[str]:
        """The names of the folders in a folder."""

    @abstractmethod
    def put(self, file: Place, data: bytes) -> None:
        """Write or replace a file, with the folders that it needs; it is durable when this returns."""

    @abstractmethod
    def put_new(self, file: Place, data: bytes) -> bool:
        """Write a file unless there is one; whether it was written."""

    @abstractmethod
    def remove(self, file: Place) -> None:
        """Remove a file if it is there."""

    def remove_files(self, files: list[Place]) -> None:
        """Remove several."""
        for file in files:
            self.remove(file)

    @abstractmethod
    def remove_all(self, folder: Place) -> None:
        """Remove a folder with all that is in it."""

    @abstractmethod
    def stamp(self, file: Place) -> object:
        """What is another thing as soon as a file is written again; None where there is no file."""

    @abstractmethod
    def written_at(self, file: Place) -> float:
        """When a file was written, as a Unix time of the clock of the storage."""


def store_of(place: Location) -> Store[Any]:
    """The store in which a location lies."""
    from muntin.spark.store.posix import POSIX

    return POSIX if isinstance(place, Path) else place.store
