"""Files of an object store (S3, Google Cloud Storage, Azure); needs the extra ``stores``.

Every object appears whole or not at all. Data files are streamed to unique names, since obstore's
writer overwrites silently. A log's entry is one request, which the store refuses if the name is
taken. A killed process leaves the parts of a large file that it had begun; no listing shows them,
and a lifecycle rule of the bucket removes them.
"""

from __future__ import annotations

import collections
import io
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import from_url

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.model import NotLandedError
from columnar_kafka.lake.tables.files import StagedWriter, refuse_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from columnar_kafka.lake.model import FileWriter
    from columnar_kafka.lake.tables.files import T

__all__ = ["ObjectFiles"]

_PART: Final = 8 << 20  # bytes; S3 takes at most 10,000 parts of at least 5 MiB
_PARTS_AT_ONCE: Final = 4
_FILES_AT_ONCE: Final = 16
_TAIL: Final = 64 << 10  # bytes; nearly all footers are smaller
_CLIENT_KEYS: Final = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"}
)
"""Keys that obstore takes apart from those of the store."""


class ObjectFiles:
    """`Files` under one URL; paths are relative to it. Picklable; connects with the first request.

    Credentials and settings come from `storage` and the environment.
    """

    late_requests = True

    def __init__(self, url: str, storage: Mapping[str, str]) -> None:
        """Name the place.

        Args:
            url: as ``s3://bucket/path``.
            storage: keys of the store, as ``aws_region``; as deltalake takes them, too.

        Raises:
            ConfigError: a key does not exist, has no such value, or is missing; an endpoint's URL
                has a password.
        """
        self.options = storage = Hidden(storage)
        refuse_passwords(storage)
        self._url = url.rstrip("/")
        self._refuses_taken_names = False  # until it was seen
        config: Any = Hidden(storage)
        client: Any = Hidden()
        for name in storage:
            if (key := name.lower().removeprefix("aws_")) in _CLIENT_KEYS:
                client[key] = config.pop(name)
        if self._url.startswith("s3"):
            # By parts, which S3 completes only if there is no object of that name.
            config.setdefault("aws_copy_if_not_exists", "multipart")
            if allows := os.environ.get("AWS_ALLOW_HTTP"):  # obstore overlooks it
                client.setdefault("allow_http", allows)
        wrong = ""
        try:
            self._store: Any = from_url(self._url, config=config, client_options=client)
        except UnknownConfigurationKeyError as error:
            wrong = f"storage of {url}: {_first_line(error)}"
        except (BaseError, ValueError) as error:
            wrong = f"{url} cannot be opened: {_first_line(error)}"
        if wrong:  # not from the library's error, which quotes wrong values, as of a proxy
            raise ConfigError(wrong)

    def __reduce__(self) -> tuple[type[ObjectFiles], tuple[str, Hidden]]:
        return ObjectFiles, (self._url, self.options)

    def root(self, place: str | os.PathLike[str]) -> PurePosixPath:
        """See `Files.root`: paths begin at the URL."""
        return PurePosixPath()

    def uri(self, path: PurePosixPath) -> str:
        """See `Files.uri`."""
        return self._url if path == PurePosixPath() else f"{self._url}/{path}"

    def writer(
        self,
        name: str,
        path: PurePosixPath,
        field_ids: Mapping[tuple[str, ...], int] | None = None,
    ) -> FileWriter:
        """See `Files.writer`. The name must be unique: an object of that name is overwritten."""
        return _ObjectFileWriter(name, self._store, str(path), field_ids)

    def put(self, path: PurePosixPath, data: bytes) -> None:
        """See `Files.put`. The first time it is tried whether the store refuses taken names.

        Raises:
            NotLandedError: it does not: of two commits at once both would seem to come first.
        """
        if not self._refuses_taken_names:
            self._try_store(f"{path.parent}/{uuid.uuid4().hex}.draft")
        with _os_errors():
            obstore.put(self._store, str(path), data, mode="create", use_multipart=False)

    def link(self, old: PurePosixPath, new: PurePosixPath) -> None:
        """See `Files.link`. The store copies the object."""
        if self.size(new) is not None:  # which costs one request, not three
            raise FileExistsError(f"{new} exists")
        with _os_errors():
            obstore.copy(self._store, str(old), str(new), overwrite=False)

    def same(self, one: PurePosixPath, other: PurePosixPath) -> bool:
        """See `Files.same`: a copy has the size of the original, and its footer."""
        size, other_size = self.size(one), self.size(other)
        if size is None or other_size is None:
            raise FileNotFoundError(f"{one if size is None else other} does not exist")
        return size == other_size and self._tail(one, size) == self._tail(other, size)

    def remove(self, path: PurePosixPath) -> None:
        """See `Files.remove`."""
        with _os_errors(), suppress(FileNotFoundError):
            obstore.delete(self._store, str(path))

    def size(self, path: PurePosixPath) -> int | None:
        """See `Files.size`."""
        try:
            with _os_errors():
                return int(obstore.head(self._store, str(path))["size"])
        except FileNotFoundError:
            return None

    def read(self, path: PurePosixPath) -> bytes:
        """See `Files.read`."""
        with _os_errors():
            return bytes(obstore.get(self._store, str(path)).bytes())

    def open(self, path: PurePosixPath) -> Any:
        """See `Files.open`."""
        if (size := self.size(path)) is None:
            raise FileNotFoundError(f"{path} does not exist")
        return pa.PythonFile(_ObjectReader(self._store, str(path), size), mode="r")

    def footer(self, path: PurePosixPath, nbytes: int) -> Any:
        """See `Files.footer`: the end of the file, which is all that the reader looks at."""
        tail = self._tail(path, nbytes)
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if length > len(tail):
            tail = self._tail(path, nbytes, length)
        return pa.BufferReader(tail)

    def names(self, folder: PurePosixPath, after: str = "") -> list[str]:
        """See `Files.names`. A request lists a thousand objects."""
        return [name for name, _ in self._list(folder, after)]

    def older(
        self, folder: PurePosixPath, when: float, *, suffix: str, after: str = ""
    ) -> list[str]:
        """See `Files.older`."""
        files = self._list(folder, after)
        return [name for name, written in files if name.endswith(suffix) and written < when]

    def make_folder(self, folder: PurePosixPath) -> None:
        """See `Files.make_folder`: there are no folders."""

    def sync_folder(self, folder: PurePosixPath) -> None:
        """See `Files.sync_folder`: what a store has confirmed is durable."""

    def for_each(self, items: Iterable[T], do: Callable[[T], object]) -> None:
        """See `Files.for_each`: a copy alone takes four requests."""
        with ThreadPoolExecutor(_FILES_AT_ONCE, "columnar-kafka-files") as pool:
            collections.deque(pool.map(do, items), maxlen=0)

    def _try_store(self, path: str) -> None:
        try:
            with _os_errors():
                for _ in range(2):  # the first may be refused too: it repeats one without an answer
                    obstore.put(self._store, path, b"", mode="create", use_multipart=False)
        except FileExistsError:
            self._refuses_taken_names = True
        finally:
            with suppress(OSError), _os_errors():
                obstore.delete(self._store, path)
        if not self._refuses_taken_names:
            raise NotLandedError(
                f"{self._url}: the store does not support If-None-Match, since it created an "
                "object whose name was taken: no table can be committed to there"
            )

    def _list(self, folder: PurePosixPath, after: str = "") -> list[tuple[str, float]]:
        """Return the names in a folder, and when they were written."""
        offset = f"{folder}/{after}" if after else None
        with _os_errors():
            objects = obstore.list(self._store, str(folder), offset=offset).collect()
        return [
            (meta["path"].rpartition("/")[2], meta["last_modified"].timestamp()) for meta in objects
        ]

    def _tail(self, path: PurePosixPath, nbytes: int, length: int = _TAIL) -> bytes:
        with _os_errors():
            start = max(0, nbytes - length)
            return bytes(obstore.get_range(self._store, str(path), start=start, end=nbytes))


class _ObjectReader(io.RawIOBase):
    """Reads any part of an object: a request for each."""

    def __init__(self, store: Any, path: str, size: int) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = origin + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._size, self._at + len(buffer))
        if end <= self._at:
            return 0
        with _os_errors():
            data = bytes(obstore.get_range(self._store, self._path, start=self._at, end=end))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _ObjectFileWriter(StagedWriter):
    """A `FileWriter` for an object, which appears when it is finished.

    It holds up to 8 MiB, and 32 MiB more that are being sent.
    """

    def __init__(
        self, path: str, store: Any, full_path: str, field_ids: Mapping[tuple[str, ...], int] | None
    ) -> None:
        file = obstore.open_writer(
            store, full_path, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE
        )
        super().__init__(path, file, field_ids)
        self._store = store
        self._full_path = full_path

    def write(self, data: Any, /) -> int:
        """See `FileWriter.write`."""
        with _os_errors():
            return super().write(data)

    def finish(self) -> int:
        """See `FileWriter.finish`."""
        with _os_errors():
            return super().finish()

    def discard(self) -> None:
        """See `FileWriter.discard`."""
        with suppress(OSError), _os_errors():
            if self.file.closed():
                obstore.delete(self._store, self._full_path)
            else:
                self.file.__exit__(KeyboardInterrupt, None, None)  # sends nothing more


@contextmanager
def _os_errors() -> Iterator[None]:
    """Turn obstore's errors into those of a file system."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(_first_line(error)) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(_first_line(error)) from error
    except BaseError as error:
        raise OSError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
