"""Files of this machine, with the guarantees that a table needs of them."""

from __future__ import annotations

import os
import re
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.tables.files import StagedWriter, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from columnar_kafka.lake.model import FileWriter
    from columnar_kafka.lake.tables.files import T

__all__ = ["LocalFiles", "local_path"]


class LocalFiles:
    """The files of this machine, as `Files`."""

    options: Mapping[str, str] | None = None
    late_requests = False  # a file system has done what it was asked for, or has not

    def root(self, place: str | os.PathLike[str]) -> Path:
        """See `Files.root`. Percent signs are not decoded."""
        return local_path(place)

    def uri(self, path: Path) -> str:
        """See `Files.uri`."""
        return str(path)

    def writer(
        self, name: str, path: Path, field_ids: Mapping[tuple[str, ...], int] | None = None
    ) -> FileWriter:
        """See `Files.writer`."""
        return _LocalFileWriter(name, path, self, field_ids)

    def for_each(self, items: Iterable[T], do: Callable[[T], object]) -> None:
        """See `Files.for_each`: one after another."""
        for item in items:
            do(item)

    def put(self, path: Path, data: bytes) -> None:
        """See `Files.put`. The content is written elsewhere, and linked."""
        draft = path.with_name(f"{uuid.uuid4().hex}.draft")
        try:
            with writing("", path):
                with self.create(draft) as file:
                    self.write(file, data)
                    self.sync(file)
                self.link(draft, path)
        finally:
            with suppress(OSError):
                self.remove(draft)

    def create(self, path: Path) -> BinaryIO:
        """Create a file for writing, and its folder if needed."""
        self.make_folder(path.parent)
        return path.open("xb")

    def write(self, file: BinaryIO, data: Any) -> int:
        """Append all of a buffer; return its size in bytes."""
        return file.write(data)

    def sync(self, file: BinaryIO) -> None:
        """Make a file's content survive a crash of the machine."""
        file.flush()
        os.fsync(file.fileno())

    def link(self, old: Path, new: Path) -> None:
        """See `Files.link`."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """See `Files.remove`."""
        path.unlink(missing_ok=True)

    def size(self, path: Path) -> int | None:
        """See `Files.size`."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def same(self, one: Path, other: Path) -> bool:
        """See `Files.same`."""
        return one.samefile(other)

    def read(self, path: Path) -> bytes:
        """See `Files.read`."""
        return path.read_bytes()

    def open(self, path: Path) -> Path:
        """See `Files.open`."""
        return path

    def footer(self, path: Path, nbytes: int) -> Path:
        """See `Files.footer`."""
        return path

    def names(self, folder: Path, after: str = "") -> list[str]:
        """See `Files.names`."""
        try:
            return os.listdir(folder)  # noqa: PTH208 - names are wanted, not a hundred thousand Paths
        except FileNotFoundError:
            return []

    def older(self, folder: Path, when: float, *, suffix: str, after: str = "") -> list[str]:
        """See `Files.older`."""
        older = []
        names = (name for name in self.names(folder) if name > after and name.endswith(suffix))
        for name in names:
            with suppress(FileNotFoundError):  # another process has removed it
                if (folder / name).stat().st_mtime < when:
                    older.append(name)
        return older

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


class _LocalFileWriter(StagedWriter):
    """A `FileWriter` for a file of this machine, which is durable when it is finished."""

    def __init__(
        self,
        path: str,
        full_path: Path,
        files: LocalFiles,
        field_ids: Mapping[tuple[str, ...], int] | None,
    ) -> None:
        super().__init__(path, files.create(full_path), field_ids)
        self._full_path = full_path
        self._files = files

    def write(self, data: Any, /) -> int:
        """See `FileWriter.write`."""
        written = self._files.write(self.file, data)
        self.nbytes += written
        return written

    def finish(self) -> int:
        """See `FileWriter.finish`."""
        with self.file:
            self._files.sync(self.file)
        return self.nbytes

    def discard(self) -> None:
        """See `FileWriter.discard`."""
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            self._files.remove(self._full_path)


def local_path(root: str | os.PathLike[str]) -> Path:
    """Return a path or ``file:`` URI of this machine (percent signs are not decoded), absolute.

    Raises:
        LakeError: it is another place.
    """
    path = re.sub(r"^file:(//(localhost)?(?=/[^/]))?", "", os.fspath(root))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//|$", path):
        raise LakeError(
            f"path {os.fspath(root)!r}: only local paths and URLs of object stores (s3://, "
            "gs://, az://) are supported"
        )
    return Path(os.path.abspath(path))  # noqa: PTH100 - executors may have another working directory; keep links
