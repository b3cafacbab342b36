"""Our files as objects of S3 and its like: each put is whole, and a put can be made to fail where there is one.

`obstore` has the conditional put (`If-None-Match`) that PyArrow's file systems lack. It tries again by itself where a
call fails, so a put that has arrived may be told that it was there before: what lies there then says whose it is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from muntin.model import MuntinError
from muntin.spark.store.location import ObjectPath
from muntin.spark.store.store import Store

Found = TypeVar("Found")


class ObjectStore(Store[ObjectPath]):
    """A bucket, behind one of obstore's stores. `root` is how its URIs begin; `calls` and `seconds` count what it took.

    It goes to tasks as its URI, and is opened there anew.
    """

    patience_s = 2.0

    def __init__(self, backend: Any, root: str):
        super().__init__()
        self._backend = backend
        self.root = root
        self.calls: Counter[str] = Counter()
        self.seconds = 0.0

    def __reduce__(self) -> tuple[Callable[[str], ObjectStore], tuple[str]]:
        from muntin.spark.store.locate import bucket

        return bucket, (self.root,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and other.root == self.root

    def __hash__(self) -> int:
        return hash(self.root)

    def read(self, file: ObjectPath) -> bytes:
        import obstore

        return self._call("read", file, lambda: bytes(obstore.get(self._backend, file.key).bytes()))

    def exists(self, file: ObjectPath) -> bool:
        try:
            self._head(file)
        except FileNotFoundError:
            return False
        return True

    def files(self, folder: ObjectPath) -> list[ObjectPath]:
        return [folder / name for name in sorted(self.sizes(folder))]

    def sizes(self, folder: ObjectPath) -> dict[str, int]:
        """The files of a folder by name, with their sizes; some storage lists an empty folder as a file, too."""
        found = ((entry["path"], entry["size"]) for entry in self._listed(folder)["objects"])
        return {path.rpartition("/")[2]: size for path, size in found if path != folder.key}

    def folders(self, folder: ObjectPath) -> list[str]:
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in self._listed(folder)["common_prefixes"])

    def _listed(self, folder: ObjectPath) -> Any:
        import obstore

        prefix = f"{folder.key}/" if folder.key else None
        return self._call("list", folder, lambda: obstore.list_with_delimiter(self._backend, prefix))

    def put(self, file: ObjectPath, data: bytes) -> None:
        import obstore

        self.ask(file)
        self._call("put", file, lambda: obstore.put(self._backend, file.key, data))

    def put_new(self, file: ObjectPath, data: bytes) -> bool:
        import obstore

        self.ask(file)
        try:
            self._call("put", file, lambda: obstore.put(self._backend, file.key, data, mode="create"))
        except FileExistsError:
            return self.read(file) == data
        return True

    def remove(self, file: ObjectPath) -> None:
        self.remove_files([file])

    def remove_files(self, files: list[ObjectPath]) -> None:
        """Remove files with one call."""
        import obstore

        if files:
            self.ask(files[0])
            try:
                self._call("delete", files[0], lambda: obstore.delete(self._backend, [file.key for file in files]))
            except FileNotFoundError:
                return

    def remove_all(self, folder: ObjectPath) -> None:
        import obstore

        keys = [entry["path"] for page in obstore.list(self._backend, f"{folder.key}/") for entry in page]
        self.remove_files([ObjectPath(self, key) for key in keys])

    def stamp(self, file: ObjectPath) -> object:
        try:
            return self._head(file)["e_tag"]
        except FileNotFoundError:
            return None

    def written_at(self, file: ObjectPath) -> float:
        return float(self._head(file)["last_modified"].timestamp())

    def _head(self, file: ObjectPath) -> Any:
        import obstore

        return self._call("head", file, lambda: obstore.head(self._backend, file.key))

    def _call(self, verb: str, place: ObjectPath, call: Callable[[], Found]) -> Found:
        """One call; what the storage refuses is said in a sentence."""
        from obstore import exceptions

        self.calls[verb] += 1
        began = time.monotonic()
        try:
            return call()
        except exceptions.AlreadyExistsError as error:
            raise FileExistsError(str(place)) from error
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            if "NoSuchBucket" in str(error):
                raise MuntinError(f"there is no bucket for {place}", hint="make it, or look at the name") from error
            raise FileNotFoundError(str(place)) from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            hint = "look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and at what they allow"
            raise MuntinError(f"no access to {place} ({verb})", hint=hint) from error
        except exceptions.BaseError as error:
            said = str(error).strip().splitlines()[0]
            hint = "look at AWS_ENDPOINT_URL, AWS_REGION and the network; the next start goes on from the last commit"
            raise MuntinError(f"the storage does not take {verb} of {place}: {said}", hint=hint) from error
        finally:
            self.seconds += time.monotonic() - began
