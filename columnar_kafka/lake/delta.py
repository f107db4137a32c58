"""A Delta table as a `LakeTable`; needs the extra ``delta``.

    <table>/<topic>/p<partition>-<first>-<unique>.parquet    no commit names it: no reader sees it

A file is written in its final place, and becomes visible by the commit that names it. That commit
holds the fences in its own metadata (see `fences`). Their second witness is the application
transaction ``columnar-kafka``. The fences of a table are found by walking back from its current
version: through a `RESTORE`, and over the commits of other writers. VACUUM removes what was staged
and never landed.
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.commit import Head, commit
from columnar_kafka.lake.delta_schema import (
    check_fits,
    delta_schema,
    refuse_features,
    with_nullable_columns,
)
from columnar_kafka.lake.delta_statistics import file_statistics
from columnar_kafka.lake.fences import ATTEMPT, CommitRecord, check_witness
from columnar_kafka.lake.files import plain_uri
from columnar_kafka.lake.local_files import LocalFiles
from columnar_kafka.lake.model import (
    CompactResult,
    LandedFile,
    NotLandedError,
    unlandable,
    visible_folder,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import PurePath

    from columnar_kafka.lake.files import Files
    from columnar_kafka.lake.model import (
        CommitResult,
        Fence,
        FileWriter,
        SourcePartition,
        StagedFile,
        StageResult,
    )
    from columnar_kafka.lake.plan import Admission

__all__ = ["DeltaLakeTable"]

_APPLICATION: Final = "columnar-kafka"
_INDEXED: Final = "delta.dataSkippingNumIndexedCols"
_INDEXED_DEFAULT: Final = "32"  # Delta's own

State = tuple["DeltaTable | None", CommitRecord]


class DeltaLakeTable:
    """A `LakeTable` of Delta's format; see the text of this module."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        allow_gaps: bool = False,
        reland: bool = False,
        files: Files[Any] | None = None,
    ) -> None:
        """Name the table. The first commit creates it, if it does not exist.

        Args:
            root: a path, a ``file:`` URI (percent signs are not decoded), or the URL of `files`.
            allow_gaps: land a range that starts past the fence (``table.gap=allow``).
            reland: go on after a restore from the fences that it brought back
                (``table.after.restore=reland``).
            files: the file system or object store; by default this machine's.

        Raises:
            LakeError: `root` is not a place in `files`, or has one of ``%#?``.
        """
        self._files: Files[Any] = files or LocalFiles()
        self.root: PurePath = self._files.root(root)
        self.late_requests = self._files.late_requests
        self._uri = plain_uri(self._files.uri(self.root))
        self._options = dict(self._files.options or {})
        self._allow_gaps = allow_gaps
        self._reland = reland
        self._fitting: pa.Schema | None = None  # the last that fitted, since `fences` was called

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self._uri!r})"

    def fences(self) -> Mapping[str, Fence]:
        """See `LakeTable.fences`.

        Raises:
            LakeError: the table cannot be read, files cannot be added to it, or it was restored.
        """
        self._fitting = None
        return self.head().fences

    def create(self, source: SourcePartition, first: int, schema: pa.Schema) -> FileWriter:
        """See `LakeTable.create`."""
        # The table is not opened for each of many files: the commit checks them again.
        if schema != self._fitting:
            table = self._open()
            with unlandable():
                converted = delta_schema(schema)
                if table is not None:
                    check_fits(converted, _schema(table))
            self._fitting = schema
        name = f"p{source.partition}-{first:020}-{uuid.uuid4().hex}.parquet"
        path = f"{visible_folder(source.topic)}/{name}"
        return self._files.writer(path, self.root / path)

    def commit(self, staged: Iterable[StageResult]) -> CommitResult:
        """See `LakeTable.commit`. Blocks for the files."""
        return commit(self, staged, allow_gaps=self._allow_gaps)

    def discard(self, staged: Iterable[StageResult]) -> None:
        """See `LakeTable.discard`."""
        self.remove(file for each in staged for file in each.files)

    def compact(self, file_bytes: int) -> CompactResult:
        """Merge small files to files of up to `file_bytes`. Others may land and read meanwhile.

        It is Delta's own OPTIMIZE. The old files stay until VACUUM.

        Raises:
            LakeError: there is no table, or it cannot be merged.
        """
        if (table := self._open()) is None:
            raise LakeError(f"{self}: there is no table")
        before = len(table.file_uris())
        try:
            table.optimize.compact(target_size=file_bytes, max_concurrent_tasks=1)
        except DeltaError as error:
            raise LakeError(f"{self}: not compacted: {error}") from error
        return CompactResult(files_before=before, files=len(table.file_uris()))

    # What `commit` needs.

    def head(self) -> Head[State]:
        """See `CommitTarget.head`."""
        table = self._open()
        if table is None:
            return Head(version=-1, fences={}, state=(None, CommitRecord()))
        _refuse_features(table)
        try:
            found, is_whole = _newest_record(table)
            record = check_witness(
                found,
                table.transaction_version(_APPLICATION),
                is_whole=is_whole,
                reland=self._reland,
            )
        except DeltaError as error:
            raise LakeError(f"the history of {self._uri} cannot be read: {error}") from error
        except LakeError as error:
            raise LakeError(f"{self._uri}: {error}") from error
        return Head(version=table.version(), fences=record.fences, state=(table, record))

    def check(
        self, head: Head[State], admission: Admission, landed_before: Collection[str]
    ) -> None:
        """See `CommitTarget.check`."""
        for file in admission.lands:
            if self._files.size(self.root / file.path) != file.nbytes:
                raise LakeError(f"{file.path} ({file}) is gone or cut short: stage the input again")

    def swap(self, head: Head[State], admission: Admission, attempt: str) -> str:
        """See `CommitTarget.swap`."""
        table, before = head.state
        footers = {
            file: pq.read_metadata(self._files.footer(self.root / file.path, file.nbytes))
            for file in admission.lands
        }
        schemas = [delta_schema(each.schema.to_arrow_schema()) for each in footers.values()]
        if table is None:
            schema = Schema.from_json(json.dumps(with_nullable_columns(schemas[0])))
            DeltaTable.create(self._uri, schema, mode="ignore", storage_options=self._options)
            return "the table was created"  # the next try finds it
        try:
            for each in schemas:
                check_fits(each, _schema(table))
        except LakeError as error:
            raise NotLandedError(f"{self._uri}: nothing has landed: {error}") from error
        record = CommitRecord(
            sequence=before.sequence + 1, attempt=attempt, fences=admission.fences
        )
        columns = int(table.metadata().configuration.get(_INDEXED, _INDEXED_DEFAULT))
        now = int(time.time() * 1000)
        try:
            table.create_write_transaction(
                [
                    AddAction(
                        file.path, file.nbytes, {}, now, True, file_statistics(footer, columns)
                    )
                    for file, footer in footers.items()
                ],
                "append",
                table.schema(),
                commit_properties=CommitProperties(
                    custom_metadata=record.to_properties(),
                    max_commit_retries=0,  # what was admitted holds for this version only
                    app_transactions=[Transaction(_APPLICATION, record.sequence)],
                ),
            )
        except CommitFailedError as error:
            return f"{error}"
        return ""

    def has_landed(self, head: Head[State], attempt: str) -> bool:
        """See `CommitTarget.has_landed`."""
        table = self._open()
        if table is None or table.version() == head.version:
            return False
        commits = table.history(table.version() - head.version)
        return any(each.get(ATTEMPT) == attempt for each in commits)

    def landed_files(self, head: Head[State]) -> list[LandedFile]:
        """See `CommitTarget.landed_files`."""
        table, _ = head.state
        if table is None:
            return []
        if "deletionVectors" in (table.protocol().writer_features or ()):
            raise LakeError(
                f"{self}: rows may be deleted by deletion vectors, which cannot be read"
            )
        actions = pa.table(table.get_add_actions())
        paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
        return [self._landed(unquote(path), size) for path, size in zip(paths, sizes, strict=True)]

    def visible_path(self, file: StagedFile) -> str:
        """See `CommitTarget.visible_path`."""
        return file.path

    def remove(self, files: Iterable[StagedFile]) -> None:
        """See `CommitTarget.remove`."""
        files = list(files)
        with suppress(LakeError, OSError, DeltaError):
            table = self._open() if files else None
            uris = [] if table is None else table.file_uris()
            # Paths are encoded in one way or another; the names are unique, and plain.
            referenced = {each.rpartition("/")[2] for each in uris}
            for file in files:
                if file.path.rpartition("/")[2] not in referenced:
                    self._files.remove(self.root / file.path)

    def _landed(self, path: str, nbytes: int) -> LandedFile:
        full = self.root / path
        return LandedFile(
            path=path,
            footer=lambda: self._files.footer(full, nbytes),
            read=lambda: self._files.read(full),
        )

    def _open(self) -> DeltaTable | None:
        """Open the current version; None if there is no table."""
        try:
            return DeltaTable(self._uri, storage_options=self._options)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise LakeError(f"{self._uri} cannot be read: {error}") from error


def _schema(table: DeltaTable) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(table.schema().to_json())
    return schema


def _refuse_features(table: DeltaTable) -> None:
    protocol, metadata = table.protocol(), table.metadata()
    features = [*(protocol.writer_features or ()), *(protocol.reader_features or ())]
    refuse_features(
        features, metadata.configuration, _schema(table), list(metadata.partition_columns)
    )


def _newest_record(table: DeltaTable) -> tuple[CommitRecord | None, bool]:
    """Return the newest record of the current version, and whether the history is whole."""
    version = table.version()
    for entry in _history(table):
        if entry["version"] > version:
            continue  # undone by a restore
        if (record := CommitRecord.from_properties(entry)) is not None:
            return record, True
        if entry["operation"] == "RESTORE":
            version = _restored(entry)
        if entry["version"] == 0:
            return None, True
    return None, False


def _restored(entry: Mapping[str, Any]) -> int:
    """Return the version that a `RESTORE` went back to."""
    version = entry["operationParameters"].get("version")
    if version is None or not str(version).isdecimal():
        raise LakeError(
            f"version {entry['version']} restores a time, and which version that was is not said: "
            "restore the table to a version, by number"
        )
    return int(version)


def _history(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """Yield what each commit says about itself, the newest first. Few are read if few are asked."""
    seen, limit = 0, 1
    while True:
        commits = table.history(limit)
        yield from commits[seen:]
        if len(commits) < limit:
            return
        seen, limit = len(commits), limit * 16
