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
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from columnar_kafka.config import Hidden
from columnar_kafka.errors import LakeError
from columnar_kafka.lake import delta_partition
from columnar_kafka.lake.bounds import as_wrong, read_footer, stage_copy, with_nan
from columnar_kafka.lake.commit import BaseTable, Head
from columnar_kafka.lake.delta_actions import add_columns, file_actions, indexed, table_schema
from columnar_kafka.lake.delta_history import newest_record
from columnar_kafka.lake.delta_merging import files_to_merge, logged_files, wrong_columns
from columnar_kafka.lake.delta_schema import (
    check_fits,
    delta_schema,
    grown,
    refuse_features,
    widened,
    with_nullable_columns,
)
from columnar_kafka.lake.fences import (
    ATTEMPT,
    CREATED,
    CommitRecord,
    check_witness,
    may_grow,
)
from columnar_kafka.lake.files import (
    canonical_place,
    check_staged,
    plain_uri,
    unique_name,
    unreferenced,
    visible_folder,
)
from columnar_kafka.lake.local_files import LocalFiles
from columnar_kafka.lake.merging import merge_runs, runs_to_merge, stage_merged, unreadable
from columnar_kafka.lake.model import (
    CompactResult,
    Fitting,
    LandedFile,
    NotLandedError,
    unlandable,
)
from columnar_kafka.lake.partition import check_same

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import PurePath

    from columnar_kafka.lake.bounds import Check, WrongFile
    from columnar_kafka.lake.delta_merging import LoggedFile
    from columnar_kafka.lake.files import Files
    from columnar_kafka.lake.merging import Run
    from columnar_kafka.lake.model import (
        Fence,
        FileWriter,
        PartitionValues,
        SourcePartition,
        StagedFile,
    )
    from columnar_kafka.lake.plan import Admission

    State = tuple[DeltaTable | None, CommitRecord]

__all__ = ["DeltaLakeTable"]

_APPLICATION: Final = "columnar-kafka"
_LOG: Final = "_delta_log"
_INTERVAL: Final = "delta.checkpointInterval"
_INTERVAL_DEFAULT: Final = "100"  # deltalake's own


class DeltaLakeTable(BaseTable["State"]):
    """A `LakeTable` of Delta's format; see the text of this module."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        allow_gaps: bool = False,
        reland: bool = False,
        growth: bool | None = None,
        partition_by: Iterable[str] = (),
        files: Files[Any] | None = None,
    ) -> None:
        """Name the table. The first commit creates it, if it does not exist.

        Args:
            root: a path, a ``file:`` URI (percent signs are not decoded), or the URL of `files`.
            allow_gaps: land a range that starts past the fence (``table.gap=allow``).
            reland: go on after a restore from the fences that it brought back
                (``table.after.restore=reland``).
            growth: add columns that the topic has and the table lacks (``table.growth``); without
                it only to tables that were created here.
            partition_by: the partition columns of a new table (``table.partition.by``).
            files: the file system or object store; by default this machine's.

        Raises:
            LakeError: `root` is not a place in `files`, or has one of ``%#?``.
        """
        super().__init__(allow_gaps=allow_gaps)
        self._files: Files[Any] = files or LocalFiles()
        self.root: PurePath = self._files.root(root)
        self.place = canonical_place(self._files.uri(self.root))
        self.late_requests = self._files.late_requests
        self._uri = plain_uri(self._files.uri(self.root))
        self._options = Hidden(self._files.options or {})
        self._reland = reland
        self._growth = growth
        self._partition_by = delta_partition.new_columns(partition_by)
        # A table that is open, and the attempt of its version; who works with it has taken it out.
        self._idle: list[tuple[DeltaTable, str]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": []}

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self._uri!r})"

    def fences(self) -> Mapping[str, Fence]:
        """See `LakeTable.fences`.

        Raises:
            LakeError: the table cannot be read, files cannot be added to it, or it was restored.
        """
        head = self.head()
        table, record = head.state
        if table is not None:
            self._idle[:] = [(table, record.attempt)]
        return head.fences

    def fit(self, schema: pa.Schema) -> Fitting:
        """See `LakeTable.fit`. The table is changed by the commit, which checks the files again.

        Delta's readers need not read narrow files under a wider column: those are cast.
        """
        with unlandable():
            converted = delta_schema(schema)
        table, attempt = self._current()
        if table is None:
            converted = delta_partition.with_filled(converted, schema, self._partition_by)
            columns = delta_partition.columns(converted, self._partition_by, schema)
            return Fitting(partitioning=columns)
        old, names = table_schema(table), list(table.metadata().partition_columns)
        grows = self._may_grow(table)
        if attempt:
            self._idle[:] = [(table, attempt)]
        check_same(self._partition_by, names)
        wider = pa.schema(widened(schema, old), schema.metadata)
        columns = delta_partition.columns(old, names, schema)
        needed = delta_partition.without_filled(old, schema, names)
        with unlandable():
            converted = delta_schema(wider)
            check_fits(converted, grown(needed, converted) if grows else needed)
        return Fitting(None if wider == schema else wider, columns)

    def create(
        self, source: SourcePartition, first: int, schema: pa.Schema, partition: PartitionValues
    ) -> FileWriter:
        """See `LakeTable.create`."""
        # polars reads a partition's values from the path, not from the log.
        folder = delta_partition.folder(partition) or visible_folder(source.topic)
        path = f"{folder}/{unique_name(source.partition, first)}"
        return self._files.writer(path, self.root / path)

    def compact(self, file_bytes: int) -> CompactResult:
        """Merge files of a partition that follow each other, up to `file_bytes` each.

        Others may land and read meanwhile: it is one commit, on condition that nobody has removed
        one of the files. Files of other programs stay as they are. The old files stay until VACUUM.
        Takes the memory of two such files.

        Raises:
            LakeError, OSError: there is no table, or a file cannot be read.
            NotLandedError, MayHaveLandedError: as `commit`.
        """
        head = self.head()
        if head.state[0] is None:
            raise LakeError(f"{self}: there is no table")
        before = logged_files(head.state[0])

        def staged(run: Run) -> StagedFile:
            return stage_merged(run, self._beside(run[0][1]), self._read)

        found, layouts = files_to_merge(before, self._footer, head.fences)
        less = merge_runs(self, runs_to_merge(found, file_bytes, layouts), staged, self.paths)
        return CompactResult(files_before=len(before), files=len(before) - less)

    # What `repair` needs.

    def paths(self, head: Head[State]) -> Collection[str]:
        """See `RepairTarget.paths`."""
        return logged_files(head.state[0]).keys()

    def checks(self, head: Head[State]) -> Iterator[tuple[str, Check]]:
        """See `RepairTarget.checks`."""
        if (table := head.state[0]) is None:
            return
        columns = indexed(table)
        for path, file in logged_files(table).items():
            yield path, partial(self._checked, path, file, columns, head.fences)

    def _checked(
        self,
        path: str,
        file: LoggedFile,
        indexed: Collection[tuple[str, ...]],
        fences: Mapping[str, Fence],
    ) -> WrongFile | None:
        with unreadable(path):
            opened = partial(self._files.open, self.root / path)
            footer = with_nan(read_footer(self._footer(path, file.nbytes)), opened)
            columns = wrong_columns(file, footer, indexed)
            wrong = as_wrong(path, file.nbytes, footer, columns, fences, file.partition)
        return wrong and wrong._replace(can_be_mended=file.is_canonical)

    def mended(self, head: Head[State], wrong: WrongFile) -> StagedFile:
        """See `RepairTarget.mended`: it may be enough that the log says other bounds of a file."""
        if not wrong.nan:
            return wrong.file
        return stage_copy(wrong, self._read(wrong.file.path), self._beside(wrong.file))

    def _footer(self, path: str, nbytes: int) -> Any:
        return self._files.footer(self.root / path, nbytes)

    def _read(self, path: str) -> bytes:
        return self._files.read(self.root / path)

    def _beside(self, file: StagedFile) -> FileWriter:
        """Open a new file in the folder of one that it is to replace."""
        path = f"{file.path.rpartition('/')[0]}/{unique_name(file.partition, file.first)}"
        return self._files.writer(path.lstrip("/"), self.root / path.lstrip("/"))

    # What `commit` needs.

    def head(self) -> Head[State]:
        """See `CommitTarget.head`."""
        table, _ = self._current()
        if table is None:
            return Head(version=-1, fences={}, state=(None, CommitRecord()), exists=False)
        _refuse_features(table)
        try:
            found = CommitRecord.from_properties(self._commit_info(table.version()))
            found, is_whole = (found, True) if found else newest_record(table)
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
            check_staged(file, self._files.size(self.root / file.path))

    def swap(self, head: Head[State], admission: Admission, attempt: str) -> str:
        """See `CommitTarget.swap`."""
        table, before = head.state
        if table is None and not admission.lands:
            raise NotLandedError(f"{self}: there is no table")
        footers = {
            file: pq.read_metadata(self._files.footer(self.root / file.path, file.nbytes))
            for file in admission.lands
        }
        schemas = [each.schema.to_arrow_schema() for each in footers.values()]
        # What replaces files lands nothing: their rows are the table's, whatever it is like now,
        # and a restore to before it undoes nothing.
        replaced = {path for paths in admission.replaced.values() for path in paths}
        if table is None:
            self._create(schemas[0])
            return "the table was created"  # the next try finds it
        names = list(table.metadata().partition_columns)
        for file in admission.lands:
            if [name for name, _ in file.table_partition or ()] != names:
                raise NotLandedError(
                    f"{self._uri}: nothing has landed: {file} was staged for another partitioning: "
                    "stage the input again"
                )
        if not replaced and (grows := self._grow(table, schemas)):
            return grows
        record = CommitRecord(
            sequence=before.sequence + (not replaced), attempt=attempt, fences=admission.fences
        )
        try:
            table.create_write_transaction(
                file_actions(table, footers, replaced),
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
        self._idle[:] = [(table, before.attempt)]  # deltalake leaves it at its version
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
                f"{self}: deletion vectors may have deleted rows, and they cannot be read"
            )
        actions = pa.table(table.get_add_actions(flatten=True))
        names = table.metadata().partition_columns
        return [
            self._landed(
                unquote(actions["path"][row].as_py()),
                actions["size_bytes"][row].as_py(),
                {name: actions[f"partition.{name}"][row] for name in names},
            )
            for row in range(actions.num_rows)
        ]

    def remove(self, files: Iterable[StagedFile]) -> None:
        """See `CommitTarget.remove`."""
        files = list(files)
        with suppress(LakeError, OSError, DeltaError):
            table = self._open() if files else None
            for file in unreferenced(files, [] if table is None else table.file_uris()):
                self._files.remove(self.root / file.path)

    def _landed(self, path: str, nbytes: int, partition: Mapping[str, Any]) -> LandedFile:
        full = self.root / path
        return LandedFile(
            path=path,
            footer=lambda: self._files.footer(full, nbytes),
            open=lambda: self._files.open(full),
            read=lambda: self._files.read(full),
            partition=partition,
        )

    def _may_grow(self, table: DeltaTable) -> bool:
        return may_grow(self._growth, table.metadata().configuration)

    def _create(self, schema: pa.Schema) -> None:
        converted = with_nullable_columns(delta_schema(schema))
        converted = delta_partition.with_filled(converted, schema, self._partition_by)
        DeltaTable.create(
            self._uri,
            Schema.from_json(json.dumps(converted)),
            mode="ignore",
            partition_by=list(self._partition_by) or None,
            configuration=CREATED,
            raise_if_key_not_exists=False,
            storage_options=self._options,
        )

    def _grow(self, table: DeltaTable, schemas: Iterable[pa.Schema]) -> str:
        """Check files of these schemas, and add columns to the table; return a text if it did.

        Raises:
            NotLandedError: the files cannot land.
        """
        old = new = table_schema(table)
        names = list(table.metadata().partition_columns)
        try:
            for each in schemas:
                converted = delta_schema(each)
                new = grown(new, converted) if self._may_grow(table) else new
                check_fits(converted, delta_partition.without_filled(new, each, names))
        except LakeError as error:
            raise NotLandedError(f"{self._uri}: nothing has landed: {error}") from error
        if new == old:
            return ""
        try:
            add_columns(table, old, new)
        except CommitFailedError as error:
            return f"{error}"
        except DeltaError as error:
            raise NotLandedError(
                f"{self._uri}: nothing has landed: columns cannot be added: {error}"
            ) from error
        return "columns were added"  # the next try finds them

    def _current(self) -> tuple[DeltaTable | None, str]:
        """Return the table at its current version, if possible one that is open already.

        Such a one comes with the attempt of its version, and is the caller's to be put back.

        To open it takes time for each of its files, and for each commit since a checkpoint. One
        that is open knows newer commits only, so its own must still be there: the table may have
        been deleted, and another one begun in its place.
        """
        with suppress(IndexError, DeltaError, OSError):
            table, attempt = self._idle.pop()
            before = _checkpoints(table)
            if self._commit_info(table.version()).get(ATTEMPT) == attempt:
                if self._files.size(self._entry(table.version() + 1)) is not None:
                    table.update_incremental()
                    attempt = self._commit_info(table.version()).get(ATTEMPT, "")
                # deltalake keeps apart what each commit since then has added, and all that it does
                # takes longer for it. One that is opened anew begins with the checkpoint.
                if _checkpoints(table) == before:
                    return table, attempt
        return self._open(), ""

    def _commit_info(self, version: int) -> Mapping[str, Any]:
        """Return what a commit says about itself, or nothing if it is not to be read.

        deltalake lists the log for that, which takes long on a disk if the log is long.
        """
        with suppress(OSError, ValueError, TypeError):
            for line in self._files.read(self._entry(version)).splitlines():
                if info := json.loads(line).get("commitInfo"):
                    return dict(info)
        return {}

    def _entry(self, version: int) -> PurePath:
        return self.root / _LOG / f"{version:020}.json"

    def _open(self) -> DeltaTable | None:
        """Open the current version; None if there is no table."""
        try:
            return DeltaTable(self._uri, storage_options=self._options)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise LakeError(f"{self._uri} cannot be read: {error}") from error


def _checkpoints(table: DeltaTable) -> int:
    """Return how many checkpoints the history may have had so far."""
    interval = int(table.metadata().configuration.get(_INTERVAL, _INTERVAL_DEFAULT))
    return int(table.version() + 1) // interval


def _refuse_features(table: DeltaTable) -> None:
    protocol, metadata = table.protocol(), table.metadata()
    features = [*(protocol.writer_features or ()), *(protocol.reader_features or ())]
    refuse_features(features, metadata.configuration, table_schema(table))
