"""Files of this machine, with the guarantees that a table needs of them."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from columnar_kafka.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LocalFileWriter", "LocalFiles", "local_path", "uri_path"]


class LocalFiles:
    """The operations on a file system that a table needs; another kind of store would replace it.

    Every method may raise OSError. None overwrites a file.
    """

    def create(self, path: Path) -> BinaryIO:
        """Create a file for writing, and its folder if needed."""
        self.make_folder(path.parent)
        return path.open("xb")

    def write(self, file: BinaryIO, data: Any) -> int:
        """Append all of a buffer; return its size in bytes."""
        return file.write(data)

    def sync(self, file: BinaryIO) -> int:
        """Make a file's content survive a crash of the machine; return its size."""
        file.flush()
        os.fsync(file.fileno())
        return file.tell()

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name, atomically; FileExistsError if that name exists."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def size(self, path: Path) -> int | None:
        """Return a file's size, or None if it does not exist."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def same(self, one: Path, other: Path) -> bool:
        """Return whether two names are one file; FileNotFoundError if either does not exist."""
        return one.samefile(other)

    def read(self, path: Path) -> bytes:
        """Return a file's content."""
        return path.read_bytes()

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        try:
            return os.listdir(folder)  # noqa: PTH208 - names are wanted, not a hundred thousand Paths
        except FileNotFoundError:
            return []

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it, so that they survive a crash of the machine."""
        if not folder.is_dir():
            self.make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            self.sync_folder(folder.parent)

    def sync_folder(self, folder: Path) -> None:
        """Make created, linked and removed names of a folder survive a crash of the machine.

        Windows opens no folder; there the file system's own journal has to do.
        """
        if sys.platform == "win32":
            return
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class LocalFileWriter:
    """A `FileWriter` for a file of this machine; `path` is relative to the table."""

    def __init__(
        self,
        path: str,
        full_path: Path,
        files: LocalFiles,
        field_ids: Mapping[tuple[str, ...], int] | None = None,
    ) -> None:
        self.path = path
        self.field_ids = field_ids
        self._full_path = full_path
        self._files = files
        self._file = files.create(full_path)

    def write(self, data: Any, /) -> int:
        """See `FileWriter.write`."""
        return self._files.write(self._file, data)

    def finish(self) -> int:
        """See `FileWriter.finish`."""
        with self._file:
            return self._files.sync(self._file)

    def discard(self) -> None:
        """See `FileWriter.discard`."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._files.remove(self._full_path)


def local_path(root: str | os.PathLike[str]) -> Path:
    """Return a path or ``file:`` URI of this machine (percent signs are not decoded), absolute.

    Raises:
        LakeError: it is another place.
    """
    path = re.sub(r"^file:(//(localhost)?(?=/[^/]))?", "", os.fspath(root))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//|$", path):
        raise LakeError(f"path {os.fspath(root)!r}: only paths of this machine are supported")
    return Path(os.path.abspath(path))  # noqa: PTH100 - executors may have another working directory; keep links


def uri_path(root: str | os.PathLike[str]) -> Path:
    """As `local_path`, for libraries that take paths as URIs and disagree about encoding them.

    Raises:
        LakeError: it is another place, or has a character that means something in a URI.
    """
    path = local_path(root)
    if found := re.search(r"[%#?]", str(path)):
        raise LakeError(f"path {str(path)!r}: {found[0]} cannot be in the path of a table here")
    return path
