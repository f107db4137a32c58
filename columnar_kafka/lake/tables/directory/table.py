"""A directory of Parquet files as a table: files for any reader of Parquet, and a log of commits.

    <root>/<topic>/p<partition>-<first>-<last>.parquet     offsets of 20 digits: names sort by them
    <root>/_columnar/log/<sequence>.json                   one entry a commit
    <root>/_columnar/staged/<unique>.segment               files that have not landed yet
    <root>/_columnar/schema/<number>.json                  the schema of plain messages, if one is
                                                           kept: the one with the highest number

Spark ignores folders that begin with ``_`` or ``.``. The folder of such a topic has a ``~`` before
the name, a character that Kafka does not allow in topics.

**Commits.** A commit writes its entry to the log (see `commit_log`), and then moves its files from
the staging folder to their final names. Every commit first does this for the newest entry, in case
its writer stopped halfway; so only the newest entry can be unfinished. A reader of the directory
sees every file whole, perhaps late, and never rows twice. `compact` replaces files by such a
commit: the old ones are removed before the new one is moved.

**Leftovers** of killed processes are removed by commits that come a week after them: the first one
of a process, and then each hundredth.

**What is noticed**: missing files of the newest commit; a partition counted as landed whose last
file is missing; files of a partition that the log does not know. **What is not**: other files that
were removed or changed. A backup of the whole directory, with the log, is a consistent table.
"""

from __future__ import annotations

import re
import time
import uuid
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import (
    UNKNOWN_SEGMENT,
    CompactResult,
    Fitting,
    LandedFile,
    MayHaveLandedError,
    NotLandedError,
    fence_topic,
)
from columnar_kafka.lake.tables.base import Head, LakeTable
from columnar_kafka.lake.tables.directory.commit_log import LOG_FOLDER, CommitLog
from columnar_kafka.lake.tables.files import (
    LEFT_OVER,
    canonical_place,
    check_staged,
    visible_folder,
)
from columnar_kafka.lake.tables.local_files import LocalFiles
from columnar_kafka.lake.tables.merging import merge_runs, merged_stage, runs_to_merge, stage_merged
from columnar_kafka.schema.leading import nullable

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import PurePath

    from columnar_kafka.lake.admission import Admission
    from columnar_kafka.lake.model import (
        CommitResult,
        Fence,
        FileWriter,
        PartitionValues,
        SourcePartition,
        StagedFile,
        StageResult,
    )
    from columnar_kafka.lake.tables.directory.commit_log import LogEntry
    from columnar_kafka.lake.tables.files import Files
    from columnar_kafka.lake.tables.merging import Run

__all__ = ["ParquetDirectory"]

_STAGED: Final = "_columnar/staged"
_VISIBLE: Final = re.compile(r"p([0-9]+)-[0-9]{20}-([0-9]{20})\.parquet", re.ASCII)

_SCHEMAS: Final = "_columnar/schema"
_SCHEMA: Final = re.compile(r"([0-9]{20})\.json", re.ASCII)

_LOOK_AFTER: Final = 100
"""Commits between two looks for leftovers: a disk lists the whole log for one."""


class ParquetDirectory(LakeTable):
    """A `LakeTable` in a directory; see the text of this module."""

    needs_columns = False
    is_listed = True

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        allow_gaps: bool = False,
        files: Files[Any] | None = None,
    ) -> None:
        """Name the directory; it need not exist yet.

        Args:
            root: a path, a ``file:`` URI as Spark takes it (percent signs are not decoded), or the
                URL of `files`.
            allow_gaps: see `LakeTable`.
            files: the file system or object store; by default this machine's.

        Raises:
            LakeError: `root` is not a place in `files`.
        """
        super().__init__(allow_gaps=allow_gaps)
        self._files: Files[Any] = files or LocalFiles()
        self.root: PurePath = self._files.root(root)
        self.place = canonical_place(self._files.uri(self.root))
        self.late_requests = self._files.late_requests
        self._log = CommitLog(self.root, self._files)
        self._commits = 0  # of this object

    def __repr__(self) -> str:
        return f"ParquetDirectory({self._files.uri(self.root)!r})"

    def fences(self) -> Mapping[str, Fence]:
        """See `LakeTable.fences`."""
        try:
            return self._log.newest().fences
        except OSError as error:
            raise LakeError(f"cannot read the log of {self}: {error}") from error

    def fit(self, schema: pa.Schema) -> Fitting:
        """See `LakeTable.fit`. A directory takes files of any schema."""
        return Fitting()

    def create(
        self, source: SourcePartition, first: int, schema: pa.Schema, partition: PartitionValues
    ) -> FileWriter:
        """See `LakeTable.create`."""
        path = self._staged_path()
        return self._files.writer(path, self.root / path)

    def columns(self) -> pa.Schema | None:
        """See `LakeTable.columns`: those of the newest file of each partition."""
        try:
            tails = self.head().state.tails  # whose files have their final names
            schemas = [
                pq.read_schema(self._files.open(self.root / path)) for path in tails.values()
            ]
        except (OSError, pa.ArrowException) as error:
            raise LakeError(f"the columns of {self} cannot be read: {error}") from error
        columns: dict[str, pa.Field] = {}
        for schema in schemas:
            columns |= {
                field.name: field for field in nullable(schema) if field.name not in columns
            }
        return pa.schema(columns.values()) if columns else None

    def kept_schema(self) -> str | None:
        """See `LakeTable.kept_schema`."""
        return self._kept()[1]

    def _try_to_keep(self, text: str, rows: pa.Schema, before: str | None) -> None:
        number, kept = self._kept()
        if kept == before:
            with suppress(FileExistsError), self._changing():
                self._files.put(self._schema_path(number + 1), text.encode())

    def _kept(self) -> tuple[int, str | None]:
        """Return the schema that is kept, and how many there have been."""
        with self._changing():
            names = map(_SCHEMA.fullmatch, self._files.names(self.root / _SCHEMAS))
            number = max((int(match[1]) for match in names if match), default=0)
            path = self._schema_path(number)
            return number, self._files.read(path).decode() if number else None

    def _schema_path(self, number: int) -> PurePath:
        return self.root / f"{_SCHEMAS}/{number:020}.json"

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except (OSError, UnicodeDecodeError) as error:
            raise LakeError(f"the schema that {self} keeps: {error}") from error

    def commit(self, staged: Iterable[StageResult]) -> CommitResult:
        """See `LakeTable.commit`. Blocks for the file system; may finish an earlier commit."""
        result = super().commit(staged)
        if result.files:
            if self._commits % _LOOK_AFTER == 0:
                self.remove_leftovers()
            self._commits += 1
        return result

    def discard(self, staged: Iterable[StageResult]) -> None:
        """See `LakeTable.discard`."""
        # Staged files of the newest entry have landed: they must reach their final names, or stay.
        with suppress(LakeError, OSError):
            self._roll_forward(self._log.newest())
            super().discard(staged)

    def compact(self, file_bytes: int) -> CompactResult:
        """See `LakeTable.compact`. Nobody must read the directory, where files disappear.

        Killed at any time, the next commit finishes it or nothing was changed.
        """
        head = self.head()
        if not head.exists:
            raise LakeError(f"{self}: there is no table")
        before = self._log.files(head.version)

        def staged(run: Run) -> StagedFile | None:
            name = self.visible_path(merged_stage([file for _, file in run], "", 0))
            if self._files.size(self.root / name) is not None:
                return None  # replayed dead letters may have it
            writer = self._files.writer(path := self._staged_path(), self.root / path)
            return stage_merged(run, writer, lambda old: self._files.read(self.root / old))

        runs = runs_to_merge(before, file_bytes)
        less = merge_runs(self, runs, staged)
        return CompactResult(files_before=len(before), files=len(before) - less)

    def head(self) -> Head[LogEntry]:
        """See `LakeTable.head`."""
        newest = self._log.newest()
        self._roll_forward(newest)
        sequence, fences = newest.sequence, newest.fences
        return Head(version=sequence, fences=fences, state=newest, exists=sequence > 0)

    def check(
        self, head: Head[LogEntry], admission: Admission, landed_before: Collection[str]
    ) -> None:
        """See `LakeTable.check`.

        The last file of a partition that counts as landed must exist, in place of all its files.
        And an entry that cannot be rolled forward must never be logged.
        """
        for name in sorted(landed_before):
            if (fence := head.fences.get(name)) is None:
                raise LakeError(f"{name} had landed, but the log no longer has it: {_BROKEN}")
            tail = head.state.tails.get(name)
            if tail is None and fence.segment == UNKNOWN_SEGMENT:
                continue  # all of it was set aside
            if tail is None or self._files.size(self.root / tail) is None:
                raise LakeError(
                    f"the log says that {name} has landed, but {tail} is gone: {_BROKEN}"
                )
        for file in admission.lands:
            check_staged(file, self._files.size(self.root / file.path))
            if (stray := self._unlogged(head.state, file)) is not None:
                raise LakeError(
                    f"{stray} exists, but is not in the log: restore the log that it belongs to, "
                    "or move the file elsewhere"
                )

    def swap(self, head: Head[LogEntry], admission: Admission, attempt: str) -> str:
        """See `LakeTable.swap`."""
        if not (head.version or admission.lands or admission.fences):
            raise NotLandedError(f"{self}: there is no table")
        files = {self.visible_path(file): file for file in admission.lands}
        entry = head.state.next(files, admission.fences, attempt)
        if admission.replaced:
            replaced = {path: admission.replaced[file.path] for path, file in files.items()}
            entry = head.state.compacted(files, replaced, attempt)
        # The staged files must survive any crash that the entry which names them survives.
        if admission.lands:
            self._files.sync_folder(self.root / _STAGED)
        if not self._log.add(entry):
            return f"another commit took entry {entry.sequence} of the log"
        self._show(entry)
        return ""

    def has_landed(self, head: Head[LogEntry], attempt: str) -> bool:
        """See `LakeTable.has_landed`. Only one entry can follow `head`."""
        entry = self._log.read(head.version + 1)
        if entry is None or entry.attempt != attempt:
            return False
        self._show(entry)
        return True

    def landed_files(self, head: Head[LogEntry]) -> list[LandedFile]:
        """See `LakeTable.landed_files`. Readers see files that the log does not know, too."""
        paths = set(self._log.files(head.version))
        visible = {
            f"{folder}/{name}"
            for folder in {path.rpartition("/")[0] for path in paths}
            for name in self._files.names(self.root / folder)
            if name.endswith(".parquet")
        }
        later = self._log.files(self._log.newest().sequence)  # may have landed meanwhile
        paths |= visible.difference(later)
        return [self._landed(path) for path in sorted(paths)]

    def paths(self, head: Head[LogEntry]) -> Collection[str]:
        """See `LakeTable.paths`."""
        return self._log.files(head.version)

    def visible_path(self, file: StagedFile) -> str:
        """See `LakeTable.visible_path`; from the messages only: a replay gives the same path."""
        name = f"p{file.partition}-{file.first:020}-{file.last:020}.parquet"
        return f"{visible_folder(file.topic)}/{name}"

    def remove(self, files: Iterable[StagedFile]) -> None:
        """See `LakeTable.remove`. What has landed has its final name, and keeps that."""
        self._files.for_each(files, self._remove)

    def _remove(self, file: StagedFile) -> None:
        with suppress(OSError):
            self._files.remove(self.root / file.path)

    def _landed(self, path: str) -> LandedFile:
        full = self.root / path

        def footer() -> Any:
            if (size := self._files.size(full)) is None:
                raise FileNotFoundError(f"{full} is gone")
            return self._files.footer(full, size)

        return LandedFile(
            path=path,
            footer=footer,
            open=lambda: self._files.open(full),
            read=lambda: self._files.read(full),
        )

    def _staged_path(self) -> str:
        return f"{_STAGED}/{uuid.uuid4().hex}.segment"

    def remove_leftovers(self) -> None:
        """Remove what killed processes have staged. Raises nothing."""
        with suppress(LakeError, OSError):
            when = time.time() - LEFT_OVER
            for name in self._log.old_drafts(when):
                self._files.remove(self.root / LOG_FOLDER / name)
            names = self._files.older(self.root / _STAGED, when, suffix=".segment")
            old = [f"{_STAGED}/{name}" for name in names]
            landed = {file.path for file in self._log.newest().files.values()} if old else ()
            for path in old:
                if path not in landed:
                    self._files.remove(self.root / path)

    def _show(self, entry: LogEntry) -> None:
        """Make the files of a logged commit visible."""
        try:
            self._roll_forward(entry)
        except (LakeError, OSError) as error:
            raise MayHaveLandedError(
                f"{self}: commit {entry.sequence} has landed, but not all of its files are "
                f"visible yet; the next commit will finish it: {error}"
            ) from error

    def _roll_forward(self, entry: LogEntry) -> None:
        """Move all files of an entry to their final names, as far as they are not there.

        Raises:
            LakeError: a file is missing, or another file has its final name.
            OSError: a file cannot be moved.
        """
        if not entry.files:
            return
        self._log.sync()  # no file may survive a crash that its entry does not
        for path, merged in entry.replaced.items():
            staged = self.root / entry.files[path].path
            if self._files.size(self.root / path) is None and self._files.size(staged) is not None:
                for old in merged:  # before the new one is there: no reader sees rows twice
                    self._files.remove(self.root / old)
        self._files.for_each(entry.files, partial(self._move, entry))
        for folder in {(self.root / path).parent for path in entry.files}:
            self._files.sync_folder(folder)
        # Only now: no crash may keep a staged name's removal and lose the final name.
        self.remove(entry.files.values())

    def _move(self, entry: LogEntry, path: str) -> None:
        """Give a staged file its final name, unless it has it; the staged name stays."""
        old, new = self.root / entry.files[path].path, self.root / path
        try:
            self._files.make_folder(new.parent)
            self._files.link(old, new)
        except FileExistsError:
            with suppress(FileNotFoundError):  # another process has just finished it
                if not self._files.same(old, new):
                    raise LakeError(
                        f"{new} is in the way of {old}, which landed with commit "
                        f"{entry.sequence} of the log: move it elsewhere"
                    ) from None
        except FileNotFoundError:
            if self._files.size(new) is None:
                raise LakeError(
                    f"{new} and {old} are gone, although commit {entry.sequence} of the log landed "
                    f"that file: {_BROKEN}"
                ) from None

    @property
    def id(self) -> str | None:
        """The id of the first commit, which the directory keeps wherever it is moved; None before.

        Raises:
            LakeError, OSError: the log cannot be read.
        """
        first = self._log.read(1)
        return first.attempt if first else None

    def contents(self, topic: str, partition: int, start: int = 0) -> Iterator[bytes]:
        """Yield a partition's files that have offsets from `start` on, in their order.

        A commit is complete only after `head` was called.

        Raises:
            OSError: one cannot be read.
        """
        folder = self.root / visible_folder(topic)
        for name in sorted(self._files.names(folder)):
            match = _VISIBLE.fullmatch(name)
            if match and int(match[1]) == partition and int(match[2]) >= start:
                yield self._files.read(folder / name)

    def _unlogged(self, newest: LogEntry, file: StagedFile) -> PurePath | None:
        """Return a file that the log has not landed and that has, or is beside, this final name."""
        final = self.root / self.visible_path(file)
        # Nothing of the partition has landed: only files of a replay may be there.
        if file.fence not in newest.fences and fence_topic(file.fence, file.topic) == file.topic:
            folder, prefix = visible_folder(file.topic), f"p{file.partition}-"
            names = self._files.names(final.parent)
            if beside := {f"{folder}/{name}" for name in names if name.startswith(prefix)}:
                strays = beside.difference(self._log.files(newest.sequence))
                if strays:
                    return self.root / min(strays)
        return None if self._files.size(final) is None else final


_BROKEN: Final = (
    "restore it, or start over under another path; to land everything again in this directory, "
    "remove all of it, _columnar included"
)
