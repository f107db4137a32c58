"""The files of a table, wherever they are: the operations that a table needs of a store."""

from __future__ import annotations

import os
import re
import uuid
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from columnar_kafka.config import HiddenText
from columnar_kafka.errors import ConfigError, LakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from columnar_kafka.lake.model import FileWriter, PartitionValues, SourcePartition, StagedFile
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = [
    "LEFT_OVER",
    "Files",
    "NamedWriter",
    "StagedWriter",
    "canonical_place",
    "check_staged",
    "hide_password",
    "is_object_store",
    "new_file",
    "plain_uri",
    "refuse_password",
    "refuse_passwords",
    "unique_name",
    "unreferenced",
    "visible_folder",
    "writing",
]

P = TypeVar("P", bound=PurePath)
T = TypeVar("T")

LEFT_OVER: Final = 7 * 24 * 3600.0
"""Seconds from when a file was begun until it is taken for a killed process'. No commit may come so
late: it might name a file that is being removed."""
_STORES: Final = r"(s3a?|gs|azure|az|adl|abfss?)://"
_PASSWORD: Final = re.compile(
    rf"{_STORES}[^/]*:"  # what is no password there is a port, which a bucket does not have
    r"|[a-z][a-z0-9+.-]*://[^/\[]*:(?!\d*(/|$)).*@",
    re.IGNORECASE | re.DOTALL,
)
_QUERY: Final = re.compile(rf"({_STORES}|https?://).*\?", re.IGNORECASE | re.DOTALL)
_NO_DATABASE: Final = re.compile(rf"{_STORES}|https?://", re.IGNORECASE)
_UNPLAIN: Final = re.compile(r"[%#?\x00-\x1f\x7f]" + ("" if os.sep == "\\" else r"|\\"))


class Files(Protocol[P]):
    """A file system or an object store. Every method may raise OSError. None overwrites a file."""

    options: Mapping[str, str] | None
    """What a library needs to open the same store, by object_store's keys; None for local files."""
    late_requests: bool
    """Whether a request whose answer was lost may be carried out later still."""

    def root(self, place: str | os.PathLike[str]) -> P:
        """Return the path of a table's place; LakeError if it is none of this store."""
        ...

    def uri(self, path: P) -> str:
        """Return a path as other libraries name it."""
        ...

    def writer(
        self, name: str, path: P, field_ids: Mapping[tuple[str, ...], int] | None = None
    ) -> FileWriter:
        """Create a file that the table calls `name`, at `path`; see `FileWriter.field_ids`."""
        ...

    def put(self, path: P, data: bytes) -> None:
        """Write a whole small file, which appears at once; FileExistsError if its name exists."""
        ...

    def link(self, old: P, new: P) -> None:
        """Give a file a second name, atomically; FileExistsError if that name exists."""
        ...

    def same(self, one: P, other: P) -> bool:
        """Return whether two names are one file; FileNotFoundError if either does not exist."""
        ...

    def remove(self, path: P) -> None:
        """Remove a file, if it exists."""
        ...

    def size(self, path: P) -> int | None:
        """Return a file's size, or None if it does not exist."""
        ...

    def read(self, path: P) -> bytes:
        """Return a file's content."""
        ...

    def open(self, path: P) -> Any:
        """Return what pyarrow can read any part of a file from."""
        ...

    def footer(self, path: P, nbytes: int) -> Any:
        """Return what pyarrow can read the footer of a Parquet file of `nbytes` from."""
        ...

    def names(self, folder: P, after: str = "") -> list[str]:
        """Return the names of the files in a folder; none if it does not exist.

        Those up to `after`, which a long listing had before, may be left out.
        """
        ...

    def older(self, folder: P, when: float, *, suffix: str, after: str = "") -> list[str]:
        """Return the names of files in a folder that were written before a time (Unix's).

        They end with `suffix`, and come after `after`.
        """
        ...

    def make_folder(self, folder: P) -> None:
        """Make a folder and those above it, so that they survive a crash of the machine."""
        ...

    def sync_folder(self, folder: P) -> None:
        """Make created, linked and removed names of a folder survive a crash of the machine."""
        ...

    def for_each(self, items: Iterable[T], do: Callable[[T], object]) -> None:
        """Do something with each file, with several at once where that waits for answers.

        An error ends it, when what has begun is done.
        """
        ...


class StagedWriter:
    """The `FileWriter` of a file that a store has opened; each store says how it ends."""

    def __init__(
        self, path: str, file: Any, field_ids: Mapping[tuple[str, ...], int] | None
    ) -> None:
        """Write to `file`, which the table calls `path`, relative to itself."""
        self.path = path
        self.field_ids = field_ids
        self.file = file
        self.nbytes = 0

    def write(self, data: Any, /) -> int:
        """See `FileWriter.write`."""
        written = int(self.file.write(memoryview(data)))
        self.nbytes += written
        return written

    def finish(self) -> int:
        """See `FileWriter.finish`."""
        self.file.close()
        return self.nbytes

    def discard(self) -> None:
        """See `FileWriter.discard`."""
        raise NotImplementedError


@contextmanager
def writing(what: object, path: object = None) -> Iterator[None]:
    """Have an OSError say what was being written, and where: a full disk names nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise OSError(f"{what}: {error}") from error
        where = error.filename or (None if path is None else str(path))
        text = f"{error.strerror}: {what}" if what else error.strerror
        raise OSError(error.errno, text, where) from error


class NamedWriter:
    """A `FileWriter` whose errors say what it writes."""

    def __init__(self, writer: FileWriter, what: str) -> None:
        self._writer = writer
        self._what = f"{what}, file {writer.path}"

    @property
    def path(self) -> str:
        """See `FileWriter.path`."""
        return self._writer.path

    @property
    def field_ids(self) -> Mapping[tuple[str, ...], int] | None:
        """See `FileWriter.field_ids`."""
        return self._writer.field_ids

    def write(self, data: Any, /) -> int:
        """See `FileWriter.write`."""
        with writing(self._what):
            return self._writer.write(data)

    def finish(self) -> int:
        """See `FileWriter.finish`."""
        with writing(self._what):
            return self._writer.finish()

    def discard(self) -> None:
        """See `FileWriter.discard`."""
        self._writer.discard()


def new_file(
    table: LakeTable,
    source: SourcePartition,
    first: int,
    schema: pa.Schema,
    partition: PartitionValues,
) -> FileWriter:
    """Do as `LakeTable.create`; errors of the file name the table and the partition, too."""
    values = ", ".join(f"{name}={value}" for name, value in partition)
    what = f"{table}: {source} from offset {first}{values and f', partition {values}'}"
    with writing(what):
        return NamedWriter(table.create(source, first, schema, partition), what)


def unique_name(partition: int, first: int) -> str:
    """Return a new name for a file with messages of a partition from offset `first` on."""
    return f"p{partition}-{first:020}-{uuid.uuid4().hex}.parquet"


def check_staged(file: StagedFile, nbytes: int | None) -> None:
    """Check that a staged file is there, whole; `nbytes` is what `Files.size` says now.

    Raises:
        LakeError: it is not.
    """
    if nbytes != file.nbytes:
        raise LakeError(f"{file.path} ({file}) is gone or cut short: stage the input again")


def unreferenced(files: Iterable[StagedFile], landed: Iterable[str]) -> list[StagedFile]:
    """Return the files that are not among those that have landed, given by path or URI.

    These are encoded in one way or another; the names are unique, and plain.
    """
    names = {path.rpartition("/")[2] for path in landed}
    return [file for file in files if file.path.rpartition("/")[2] not in names]


def visible_folder(topic: str, mark: str = "~") -> str:
    """Return the folder of a topic's files. Readers skip folders that begin with _ or a dot."""
    return f"{mark}{topic}" if topic[0] in "_." else topic


def is_object_store(place: str) -> bool:
    """Return whether a place is a URL of an object store; other places are paths."""
    return bool(re.match(_STORES, place))


def hide_password(place: str) -> str:
    """Return a text with a place in it, which reports of crashes do not show if it has a password.

    In a function that gets one: it may raise before `refuse_password` has seen it, or by that.
    """
    return HiddenText(place) if _has_secrets(place) else place


def refuse_password(place: str) -> None:
    """Check that a place is no URL with a password, nor with a query, where tokens are.

    No store takes one: obstore and deltalake pass over it, pyiceberg takes it for the bucket. And
    it would be in errors, in logs, in the table's metadata.

    Raises:
        ConfigError: it is; the text has nothing of it.
    """
    place = hide_password(place)
    if _has_secrets(place):
        scheme = place.partition("://")[0].rpartition(":")[2]
        raise ConfigError(
            f"{scheme}://…: the URL of a table must have no password, no port and no query, which "
            "no store takes and errors would show. Credentials are storage options, such as "
            "aws_access_key_id and aws_secret_access_key, or come from the environment"
        )


def refuse_passwords(options: Mapping[str, str]) -> None:
    """Check the URLs among the options of a store or catalog, as endpoints, in the same way.

    Those of proxies and databases may have a password, which is used there.

    Raises:
        ConfigError: one has a password; the text names its key.
    """
    for key in options:
        if "proxy" not in key and _has_useless_password(options[key]):
            raise ConfigError(
                f"{key}: its URL must have no password, which errors would show. Credentials are "
                "options of their own, such as aws_secret_access_key, or credential and token of a "
                "catalog"
            )


def _has_secrets(text: str) -> bool:
    return bool(_PASSWORD.search(text) or _QUERY.search(text))


def _has_useless_password(option: str) -> bool:
    return bool(_NO_DATABASE.match(str(option)) and _PASSWORD.match(str(option)))


def canonical_place(place: str) -> str:
    """Return a path or URL in the form that all names of one place have. Follows links."""
    if is_object_store(place):
        return re.sub("^s3a:", "s3:", place).rstrip("/")
    return os.path.realpath(place)


def plain_uri(uri: str) -> str:
    """Return a path or URI for libraries that disagree about encoding it.

    Raises:
        LakeError: it has a character that means something in a URI, or is none of one.
    """
    if match := _UNPLAIN.search(uri):
        raise LakeError(f"path {uri!r}: a table's path must not contain {match[0]!r}")
    return uri
