"""What a store of our durable files can do: the few verbs that a file system and an object store both have.

    read, exists, files, folders    look
    put                             a file is there whole, or as it was before
    put_new                         the same, unless somebody else has put it: how two drivers are told apart
    remove, remove_all              it stays removed

`store_of` finds the store of a location. The POSIX form writes aside, syncs and renames; the object form puts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Generic, TypeVar

from muntin.spark.store.location import Location, ObjectPath

Place = TypeVar("Place", Path, ObjectPath)


class Store(ABC, Generic[Place]):
    """Our files in one kind of storage."""

    poll_s: float
    """How often somebody who waits for a file may look."""

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

    @abstractmethod
    def remove_all(self, folder: Place) -> None:
        """Remove a folder with all that is in it."""

    @abstractmethod
    def written_at(self, file: Place) -> float:
        """When a file was written, as a Unix time of the clock of the storage."""


def store_of(place: Location) -> Store[Any]:
    """The store in which a location lies."""
    from muntin.spark.store.posix import POSIX

    return POSIX if isinstance(place, Path) else place.store
