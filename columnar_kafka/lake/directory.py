"""A directory of Parquet files as a table: what any reader of Parquet finds, and a log for us.

    <root>/<topic>/p<partition>-<first>-<last>.parquet     offsets of 20 digits: names sort by them
    <root>/_columnar/log/<sequence>.json                   one entry a commit
    <root>/_columnar/staged/<unique>.segment               files that have not landed yet

A topic that begins with ``_`` or ``.`` (which Spark does not look into) has ``~`` before its
name, a character no topic's name has. Only paths of this machine, for now.

**The log.** An entry is the intent of one commit: its files, and the fences of the whole table
after it. It appears whole or not at all and never changes, and before any of its files is
visible; from then on the commit has landed. Whoever commits next rolls the newest entry forward
before adding one, so that only the newest can be unfinished. A reader of the directory therefore
sees each file whole, perhaps late, and never rows twice.

**What is noticed.** Files of the newest commit that are gone; a partition counted as landed whose
last file is gone; files of a partition the log knows nothing of. **What is not**: other files that
were removed or changed. A backup of the whole directory, log and all, is a consistent table.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import (
    CommitResult,
    Count,
    Fence,
    MayHaveLandedError,
    NotLandedError,
    Sink,
    Staged,
    StagedFile,
)
from columnar_kafka.lake.plan import Admission, admit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.lake.model import Source

__all__ = ["LocalFiles", "ParquetDirectory"]

_LOG: Final = "_columnar/log"
_STAGED: Final = "_columnar/staged"
_ENTRY: Final = re.compile(r"([0-9]{20})\.json", re.ASCII)
_TRIES: Final = 1000
"""Each lost try is another's commit that landed; so many in a row mean something is wrong."""


class LocalFiles:
    """All that is done to a file system, in one place: object stores will take this one's.

    Every method raises OSError. Nothing here overwrites a file.
    """

    def create(self, path: Path) -> BinaryIO:
        """Open a new file for writing, its folder included."""
        self.make_folder(path.parent)
        return path.open("xb")

    def write(self, file: BinaryIO, data: Any) -> int:
        """Append all of a buffer."""
        return file.write(data)

    def sync(self, file: BinaryIO) -> int:
        """Make a file's content outlast a crash of the machine; return its size."""
        file.flush()
        os.fsync(file.fileno())
        return file.tell()

    def link(self, old: Path, new: Path) -> None:
        """Let a file appear under another name as well, whole; FileExistsError if that is taken."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def size(self, path: Path) -> int | None:
        """Return a file's size, or None if it is not there."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def same(self, one: Path, other: Path) -> bool:
        """Say whether two names stand for one file; FileNotFoundError if either is not there."""
        return one.samefile(other)

    def read(self, path: Path) -> bytes:
        """Return a file's content."""
        return path.read_bytes()

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder; none if it is not there."""
        try:
            return os.listdir(folder)  # noqa: PTH208 - names are wanted, not a hundred thousand Paths
        except FileNotFoundError:
            return []

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and those above it, outlasting a crash of the machine."""
        if not folder.is_dir():
            self.make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            self.sync_folder(folder.parent)

    def sync_folder(self, folder: Path) -> None:
        """Make what was created, linked and removed in a folder outlast a crash of the machine."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One commit, as the log has it. `tails` names, by fence, the last file that landed."""

    sequence: int = 0
    attempt: str = ""
    files: Mapping[str, StagedFile] = field(default_factory=dict)  # by final path
    fences: Mapping[str, Fence] = field(default_factory=dict)
    tails: Mapping[str, str] = field(default_factory=dict)

    def next(self, admission: Admission) -> _Entry:
        """Return the entry to follow this one."""
        files = {_final(file): file for file in admission.lands}
        return _Entry(
            sequence=self.sequence + 1,
            attempt=uuid.uuid4().hex,
            files=files,
            fences=admission.fences,
            tails={**self.tails, **{file.fence: path for path, file in files.items()}},
        )

    def to_json(self) -> bytes:
        return json.dumps({"version": 1, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> _Entry:
        """Raise ValueError, TypeError, KeyError or AttributeError if it is no entry."""
        found = json.loads(data)
        if (version := found.pop("version")) != 1:
            raise ValueError(f"its version is {version}; upgrade columnar-kafka")
        files = {path: StagedFile(**each) for path, each in found.pop("files").items()}
        fences = {name: Fence(**each) for name, each in found.pop("fences").items()}
        return cls(files=files, fences=fences, **found)


class ParquetDirectory:
    """A `Table` in a directory: see this module's text, and `base.Table` for the contract."""

    def __init__(self, root: str | os.PathLike[str], *, files: LocalFiles | None = None) -> None:
        """Name the directory; it need not exist yet.

        Args:
            root: a path, or a ``file:`` URI as Spark takes it (nothing in it is unquoted).
            files: the file system.

        Raises:
            LakeError: it is no path of this machine.
        """
        self.root = _local(root)
        self._files = files or LocalFiles()

    def __repr__(self) -> str:
        return f"ParquetDirectory({str(self.root)!r})"

    def fences(self) -> Mapping[str, Fence]:
        """See `Table.fences`."""
        try:
            return self._newest().fences
        except OSError as error:
            raise LakeError(f"cannot read the log of {self.root}: {error}") from error

    def create(self, source: Source, first: int) -> Sink:
        """See `Table.create`."""
        return _LocalSink(f"{_STAGED}/{uuid.uuid4().hex}.segment", self.root, self._files)

    def commit(self, staged: Iterable[Staged]) -> CommitResult:
        """See `Table.commit`. Blocks for the file system; lands by itself what others left."""
        attempts = tuple(staged)
        for _ in range(_TRIES):
            if (result := self._try_commit(attempts)) is not None:
                return result
        raise NotLandedError(f"{self.root}: {_TRIES} other commits came first, one after another")

    def discard(self, staged: Iterable[Staged]) -> None:
        """See `Table.discard`."""
        # What the newest entry names must be moved to where it belongs, or stay.
        with suppress(LakeError, OSError):
            self._roll_forward(self._newest())
            self._remove(file for each in staged for file in each.files)

    def _try_commit(self, attempts: tuple[Staged, ...]) -> CommitResult | None:
        """Commit, or return None because another commit came first."""
        try:
            newest = self._newest()
            self._roll_forward(newest)
            admission = admit((file for each in attempts for file in each.files), newest.fences)
            trouble = self._trouble(newest, attempts, admission)
            if trouble and self._newest().sequence != newest.sequence:
                return None  # what was found may be that other commit's doing
        except NotLandedError:
            raise
        except (LakeError, OSError) as error:
            raise NotLandedError(f"{self.root}: nothing has landed: {error}") from error
        if trouble:
            raise NotLandedError(f"{self.root}: nothing has landed: {trouble}")
        if admission.lands:
            entry = newest.next(admission)
            if not self._log(entry):
                return None
            self._show(entry)
        self._clear(admission)
        return _result(attempts, admission)

    def _show(self, entry: _Entry) -> None:
        """Make visible what has been logged."""
        try:
            self._roll_forward(entry)
        except (LakeError, OSError) as error:
            raise MayHaveLandedError(
                f"{self.root}: commit {entry.sequence} has landed, but not all of its files are "
                f"visible yet; the next commit goes on with it: {error}"
            ) from error

    def _clear(self, admission: Admission) -> None:
        """Remove what need not land; its staged file may also be one that landed, and has moved."""
        self._remove((*admission.landed_before, *admission.repeated))

    def _newest(self) -> _Entry:
        """Read the newest entry, an empty one if there is none yet."""
        found = [_ENTRY.fullmatch(name) for name in self._files.names(self.root / _LOG)]
        sequence = max((int(match[1]) for match in found if match), default=0)
        return self._read(sequence) if sequence else _Entry()

    def _read(self, sequence: int) -> _Entry:
        path = self._entry_path(sequence)
        try:
            return _Entry.from_json(self._files.read(path))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LakeError(f"{path} is not an entry of the log: {error}") from error

    def _entry_path(self, sequence: int) -> Path:
        return self.root / _LOG / f"{sequence:020}.json"

    def _log(self, entry: _Entry) -> bool:
        """Add an entry, or say that its number was taken by another."""
        draft = self.root / _LOG / f"{entry.attempt}.draft"
        try:
            self._write_draft(draft, entry)
            return self._publish(draft, entry)
        finally:
            with suppress(OSError):
                self._files.remove(draft)

    def _write_draft(self, draft: Path, entry: _Entry) -> None:
        try:
            # The entry must not outlast a crash that the files it names do not.
            self._files.sync_folder(self.root / _STAGED)
            with self._files.create(draft) as file:
                self._files.write(file, entry.to_json())
                self._files.sync(file)
        except OSError as error:
            raise NotLandedError(f"{self.root}: nothing has landed: {error}") from error

    def _publish(self, draft: Path, entry: _Entry) -> bool:
        try:
            self._files.link(draft, self._entry_path(entry.sequence))
        except OSError as error:
            # On a network an answer can be lost: who has the number now?
            return self._is_ours(entry, error)
        return True

    def _is_ours(self, entry: _Entry, cause: OSError) -> bool:
        path = self._entry_path(entry.sequence)
        try:
            if self._files.size(path) is not None:
                return self._read(entry.sequence).attempt == entry.attempt
        except (LakeError, OSError) as error:
            raise MayHaveLandedError(
                f"{self.root}: {path} may have been written ({cause}) and cannot be read: {error}"
            ) from cause
        raise NotLandedError(f"{self.root}: nothing has landed: {cause}") from cause

    def _roll_forward(self, entry: _Entry) -> None:
        """Let all files of an entry be where they belong.

        Raises:
            LakeError: one is nowhere, or another file is in its place.
        """
        if not entry.files:
            return
        # What is relied on from here on must outlast a crash of the machine.
        self._files.sync_folder(self.root / _LOG)
        for path, file in entry.files.items():
            self._move(self.root / file.path, self.root / path, entry)
        for folder in {(self.root / path).parent for path in entry.files}:
            self._files.sync_folder(folder)
        # Only now: a name removed from where it was staged must not outlast its new one.
        self._remove(entry.files.values())

    def _move(self, old: Path, new: Path, entry: _Entry) -> None:
        """Let a file appear at its final name, once; its staged name stays."""
        try:
            self._files.make_folder(new.parent)
            self._files.link(old, new)
        except FileExistsError:
            with suppress(FileNotFoundError):  # another has just finished it
                if not self._files.same(old, new):
                    raise LakeError(
                        f"{new} is in the way of {old}, which landed with commit {entry.sequence} "
                        "of the log: move it elsewhere"
                    ) from None
        except FileNotFoundError:
            if self._files.size(new) is None:
                raise LakeError(
                    f"{new} is gone, and {old} too, though commit {entry.sequence} of the log "
                    f"has landed it: {_BROKEN}"
                ) from None

    def _remove(self, files: Iterable[StagedFile]) -> None:
        """Remove staged files; what cannot be removed is waste that does no harm."""
        for file in files:
            with suppress(OSError):
                self._files.remove(self.root / file.path)

    def _trouble(self, newest: _Entry, attempts: tuple[Staged, ...], admission: Admission) -> str:
        """Say what forbids to commit, empty if nothing does.

        What is called landed must be there: its last file stands for all. And an entry must never
        be logged that cannot be rolled forward.
        """
        fences = {file.fence for file in admission.landed_before}
        for name in sorted(fences.union(*(each.landed_before for each in attempts))):
            tail = newest.tails.get(name)
            if tail is None or self._files.size(self.root / tail) is None:
                return f"the log says that {name} has landed, but {tail} is gone: {_BROKEN}"
        for file in admission.lands:
            if self._files.size(self.root / file.path) != file.nbytes:
                return f"{file.path} ({file}) is gone or cut short: stage the input again"
            if (stray := self._stray(newest, file)) is not None:
                return (
                    f"{stray} is there and not in the log: put the log back that it belongs to, "
                    "or move the file elsewhere"
                )
        return ""

    def _stray(self, newest: _Entry, file: StagedFile) -> Path | None:
        """Find a file that was not landed by the log, in the place of this one or beside it."""
        final = self.root / _final(file)
        if file.fence not in newest.fences:
            prefix = f"p{file.partition}-"
            names = self._files.names(final.parent)
            return next((final.parent / name for name in names if name.startswith(prefix)), None)
        return None if self._files.size(final) is None else final


_BROKEN: Final = (
    "put it back, or start over under another path; to land all again in this directory, "
    "remove all of it, _columnar included"
)


class _LocalSink:
    """See `base.Sink`."""

    def __init__(self, path: str, root: Path, files: LocalFiles) -> None:
        self.path = path
        self._place = root / path
        self._files = files
        self._file = files.create(self._place)

    def write(self, data: Any, /) -> int:
        return self._files.write(self._file, data)

    def finish(self) -> int:
        with self._file:
            return self._files.sync(self._file)

    def discard(self) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._files.remove(self._place)


def _final(file: StagedFile) -> str:
    """Return where a file lands: named by its messages only, so that a replay makes the same."""
    folder = f"~{file.topic}" if file.topic[0] in "_." else file.topic
    return f"{folder}/p{file.partition}-{file.first:020}-{file.last:020}.parquet"


def _local(root: str | os.PathLike[str]) -> Path:
    path = re.sub(r"^file:(//(localhost)?(?=/[^/]))?", "", os.fspath(root))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//|$", path):
        raise LakeError(f"path {os.fspath(root)!r}: only paths of this machine can be written yet")
    return Path(os.path.abspath(path))  # noqa: PTH100 - executors may stand elsewhere; keep links


def _result(attempts: tuple[Staged, ...], admission: Admission) -> CommitResult:
    planned = [count for each in attempts for count in each.landed_before.values()]
    return CommitResult(
        files=tuple(_final(file) for file in admission.lands),
        landed=_total(map(_count, admission.lands)),
        nbytes=sum(file.nbytes for file in admission.lands),
        landed_before=_total([*planned, *map(_count, admission.landed_before)]),
        repeated=_total([each.repeated for each in attempts] + [*map(_count, admission.repeated)]),
    )


def _count(file: StagedFile) -> Count:
    return Count(file.messages, file.rows)


def _total(counts: Iterable[Count]) -> Count:
    total = Count()
    for count in counts:
        total = total.plus(count)
    return total
