"""A directory of Parquet files as a table: files for any reader of Parquet, and a log of commits.

    <root>/<topic>/p<partition>-<first>-<last>.parquet     offsets of 20 digits: names sort by them
    <root>/_columnar/log/<sequence>.json                   one entry a commit
    <root>/_columnar/staged/<unique>.segment               files that have not landed yet

Spark ignores folders that begin with ``_`` or ``.``. The folder of such a topic has a ``~`` before
the name, a character that Kafka does not allow in topics. Only paths of this machine are supported.

**Commits.** A commit writes its entry to the log (see `commit_log`), and then moves its files from
the staging folder to their final names. Every commit first does this for the newest entry, in case
its writer stopped halfway; so only the newest entry can be unfinished. A reader of the directory
sees every file whole, perhaps late, and never rows twice.

**What is noticed**: missing files of the newest commit; a partition counted as landed whose last
file is missing; files of a partition that the log does not know. **What is not**: other files that
were removed or changed. A backup of the whole directory, with the log, is a consistent table.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.commit import Head, commit
from columnar_kafka.lake.commit_log import CommitLog
from columnar_kafka.lake.local_files import LocalFiles, LocalFileWriter, local_path
from columnar_kafka.lake.model import Fitting, MayHaveLandedError, visible_folder

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    import pyarrow as pa

    from columnar_kafka.lake.commit_log import LogEntry
    from columnar_kafka.lake.model import (
        CommitResult,
        Fence,
        FileWriter,
        Partition,
        SourcePartition,
        StagedFile,
        StageResult,
    )
    from columnar_kafka.lake.plan import Admission

__all__ = ["ParquetDirectory"]

_STAGED: Final = "_columnar/staged"


class ParquetDirectory:
    """A `LakeTable` in a directory; see the text of this module."""

    late_requests = False

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        allow_gaps: bool = False,
        files: LocalFiles | None = None,
    ) -> None:
        """Name the directory; it need not exist yet.

        Args:
            root: a path, or a ``file:`` URI as Spark takes it (percent signs are not decoded).
            allow_gaps: land a range that starts past the fence (``table.gap=allow``).
            files: the file system.

        Raises:
            LakeError: `root` is not a path of this machine.
        """
        self.root = local_path(root)
        self._allow_gaps = allow_gaps
        self._files = files or LocalFiles()
        self._log = CommitLog(self.root, self._files)

    def __repr__(self) -> str:
        return f"ParquetDirectory({str(self.root)!r})"

    def fences(self) -> Mapping[str, Fence]:
        """See `LakeTable.fences`."""
        try:
            return self._log.newest().fences
        except OSError as error:
            raise LakeError(f"cannot read the log of {self.root}: {error}") from error

    def fit(self, schema: pa.Schema) -> Fitting:
        """See `LakeTable.fit`. A directory takes files of any schema."""
        return Fitting()

    def create(
        self, source: SourcePartition, first: int, schema: pa.Schema, partition: Partition
    ) -> FileWriter:
        """See `LakeTable.create`."""
        path = f"{_STAGED}/{uuid.uuid4().hex}.segment"
        return LocalFileWriter(path, self.root / path, self._files)

    def commit(self, staged: Iterable[StageResult]) -> CommitResult:
        """See `LakeTable.commit`. Blocks for the file system; may finish an earlier commit."""
        return commit(self, staged, allow_gaps=self._allow_gaps)

    def discard(self, staged: Iterable[StageResult]) -> None:
        """See `LakeTable.discard`."""
        # Staged files of the newest entry have landed: they must reach their final names, or stay.
        with suppress(LakeError, OSError):
            self._roll_forward(self._log.newest())
            self.remove(file for each in staged for file in each.files)

    # What `commit` needs.

    def head(self) -> Head[LogEntry]:
        """See `CommitTarget.head`."""
        newest = self._log.newest()
        self._roll_forward(newest)
        return Head(version=newest.sequence, fences=newest.fences, state=newest)

    def check(
        self, head: Head[LogEntry], admission: Admission, landed_before: Collection[str]
    ) -> None:
        """See `CommitTarget.check`.

        The last file of a partition that counts as landed must exist, in place of all its files.
        And an entry that cannot be rolled forward must never be logged.
        """
        for name in sorted(landed_before):
            tail = head.state.tails.get(name)
            if tail is None or self._files.size(self.root / tail) is None:
                raise LakeError(
                    f"the log says that {name} has landed, but {tail} is gone: {_BROKEN}"
                )
        for file in admission.lands:
            if self._files.size(self.root / file.path) != file.nbytes:
                raise LakeError(f"{file.path} ({file}) is gone or cut short: stage the input again")
            if (stray := self._unlogged(head.state, file)) is not None:
                raise LakeError(
                    f"{stray} exists and is not in the log: restore the log that it belongs to, "
                    "or move the file elsewhere"
                )

    def swap(self, head: Head[LogEntry], admission: Admission, attempt: str) -> str:
        """See `CommitTarget.swap`."""
        files = {self.visible_path(file): file for file in admission.lands}
        entry = head.state.next(files, admission.fences, attempt)
        # The staged files must survive any crash that the entry which names them survives.
        self._files.sync_folder(self.root / _STAGED)
        if not self._log.add(entry):
            return f"entry {entry.sequence} of the log is another commit"
        self._show(entry)
        return ""

    def has_landed(self, head: Head[LogEntry], attempt: str) -> bool:
        """See `CommitTarget.has_landed`. Only one entry can follow `head`."""
        entry = self._log.read(head.version + 1)
        if entry is None or entry.attempt != attempt:
            return False
        self._show(entry)
        return True

    def visible_path(self, file: StagedFile) -> str:
        """See `CommitTarget.visible_path`; from the messages only: a replay gives the same path."""
        name = f"p{file.partition}-{file.first:020}-{file.last:020}.parquet"
        return f"{visible_folder(file.topic)}/{name}"

    def remove(self, files: Iterable[StagedFile]) -> None:
        """See `CommitTarget.remove`. What has landed has its final name, and keeps that."""
        for file in files:
            with suppress(OSError):
                self._files.remove(self.root / file.path)

    def _show(self, entry: LogEntry) -> None:
        """Make the files of a logged commit visible."""
        try:
            self._roll_forward(entry)
        except (LakeError, OSError) as error:
            raise MayHaveLandedError(
                f"{self.root}: commit {entry.sequence} has landed, but not all of its files are "
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
        for path, file in entry.files.items():
            self._move(self.root / file.path, self.root / path, entry)
        for folder in {(self.root / path).parent for path in entry.files}:
            self._files.sync_folder(folder)
        # Only now: no crash may keep a staged name's removal and lose the final name.
        self.remove(entry.files.values())

    def _move(self, old: Path, new: Path, entry: LogEntry) -> None:
        """Give a staged file its final name, unless it has it; the staged name stays."""
        try:
            self._files.make_folder(new.parent)
            self._files.link(old, new)
        except FileExistsError:
            with suppress(FileNotFoundError):  # another process has just finished it
                if not self._files.same(old, new):
                    raise LakeError(
                        f"move {new} elsewhere: it is in the way of {old}, which landed with "
                        f"commit {entry.sequence} of the log"
                    ) from None
        except FileNotFoundError:
            if self._files.size(new) is None:
                raise LakeError(
                    f"{new} is gone, and {old} too, though commit {entry.sequence} of the log "
                    f"has landed it: {_BROKEN}"
                ) from None

    def _unlogged(self, newest: LogEntry, file: StagedFile) -> Path | None:
        """Return a file that the log has not landed and that has, or is beside, this final name."""
        final = self.root / self.visible_path(file)
        if file.fence not in newest.fences:
            prefix = f"p{file.partition}-"
            names = self._files.names(final.parent)
            return next((final.parent / name for name in names if name.startswith(prefix)), None)
        return None if self._files.size(final) is None else final


_BROKEN: Final = (
    "restore it, or start over under another path; to land everything again in this directory, "
    "remove all of it, _columnar included"
)
