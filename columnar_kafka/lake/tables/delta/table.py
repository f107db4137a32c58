"""A Delta table as a `LakeTable`; needs the extra ``delta``.

    <table>/<topic>/p<partition>-<first>-<unique>.parquet    no commit names it: no reader sees it

A file is written in its final place, and becomes visible by the commit that names it. That commit
holds the fences in its own metadata (see `commit_record`). Their second witness is the application
transaction ``columnar-kafka``. VACUUM removes what was staged and never landed.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.lake.model import CompactResult, Fitting, LandedFile, NotLandedError, unlandable
from columnar_kafka.lake.partition import check_same
from columnar_kafka.lake.tables.base import Head, LakeTable
from columnar_kafka.lake.tables.bounds import as_wrong, read_footer, stage_copy, with_nan
from columnar_kafka.lake.tables.commit_record import (
    CREATED,
    KEPT,
    CommitRecord,
    check_witness,
    may_grow,
)
from columnar_kafka.lake.tables.delta import partition as delta_partition
from columnar_kafka.lake.tables.delta.actions import file_actions, lacking_actions
from columnar_kafka.lake.tables.delta.log import DeltaLog, Snapshot, commit_entry
from columnar_kafka.lake.tables.delta.merging import files_to_merge, logged_files, wrong_columns
from columnar_kafka.lake.tables.delta.properties import ONCE, changing, set_once
from columnar_kafka.lake.tables.delta.schema import (
    as_arrow,
    check_fits,
    delta_schema,
    grown,
    refuse_features,
    widened,
    with_nullable_columns,
)
from columnar_kafka.lake.tables.delta.statistics import setting
from columnar_kafka.lake.tables.files import (
    canonical_place,
    check_staged,
    plain_uri,
    unique_name,
    unreferenced,
    visible_folder,
)
from columnar_kafka.lake.tables.local_files import LocalFiles
from columnar_kafka.lake.tables.merging import merge_runs, runs_to_merge, stage_merged, unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import PurePath

    from columnar_kafka.lake.admission import Admission
    from columnar_kafka.lake.model import (
        Check,
        Fence,
        FileWriter,
        PartitionValues,
        SourcePartition,
        StagedFile,
        WrongFile,
    )
    from columnar_kafka.lake.tables.delta.log import Entry
    from columnar_kafka.lake.tables.delta.merging import LoggedFile
    from columnar_kafka.lake.tables.delta.schema import JsonObject
    from columnar_kafka.lake.tables.files import Files
    from columnar_kafka.lake.tables.merging import Run

    State = tuple[Snapshot | None, CommitRecord]

__all__ = ["DeltaLakeTable"]

_log = logging.getLogger(__name__)

_VECTORS: Final = "deletionVectors"
_INTERVAL: Final = "delta.checkpointInterval"
_INTERVAL_DEFAULT: Final = 100  # deltalake's own
_CLEANUP: Final = "delta.enableExpiredLogCleanup"
_LOCKING: Final = "AWS_S3_LOCKING_PROVIDER"


class DeltaLakeTable(LakeTable):
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
            allow_gaps: see `LakeTable`.
            reland: see `LakeTable`.
            growth: add columns that the topic has and the table lacks (``table.growth``); without
                it only to tables that were created here.
            partition_by: the partition columns of a new table (``table.partition.by``).
            files: the file system or object store; by default this machine's.

        Raises:
            LakeError: `root` is not a place in `files`, or has one of ``%#?``.
            ConfigError: its writers are to be kept apart by a lock.
        """
        super().__init__(allow_gaps=allow_gaps, reland=reland)
        self._files: Files[Any] = files or LocalFiles()
        self.root: PurePath = self._files.root(root)
        self.place = canonical_place(self._files.uri(self.root))
        self.late_requests = self._files.late_requests
        self._uri = plain_uri(self._files.uri(self.root))
        self._options = Hidden(self._files.options or {})
        self._growth = growth
        self._partition_by = delta_partition.new_columns(partition_by)
        self._log = DeltaLog(self.root, self._files)
        if self._uri.startswith("s3") and (lock := os.environ.get(_LOCKING)):
            raise ConfigError(
                f"{_LOCKING}={lock}: {self._uri} is committed to by S3's conditional writes, and "
                "writers that lock elsewhere overwrite those: have all writers of the table do so, "
                "and unset it"
            )
        self._known: Snapshot | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": None}

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self._uri!r})"

    def fences(self) -> Mapping[str, Fence]:
        """See `LakeTable.fences`."""
        return self.head().fences

    def fit(self, schema: pa.Schema) -> Fitting:
        """See `LakeTable.fit`. The table is changed by the commit, which checks the files again.

        Delta's readers need not read narrow files under a wider column: those are cast.
        """
        with unlandable():
            converted = delta_schema(schema)
        snapshot = self._current()
        if snapshot is None:
            converted = delta_partition.with_filled(converted, schema, self._partition_by)
            columns = delta_partition.columns(converted, self._partition_by, schema)
            return Fitting(partitioning=columns)
        old, names = snapshot.schema, snapshot.partition_columns
        check_same(self._partition_by, names)
        wider = pa.schema(widened(schema, old), schema.metadata)
        columns = delta_partition.columns(old, names, schema)
        needed = delta_partition.without_filled(old, schema, names)
        with unlandable():
            converted = delta_schema(wider)
            grows = may_grow(self._growth, snapshot.configuration)
            check_fits(converted, grown(needed, converted) if grows else needed)
        return Fitting(None if wider == schema else wider, columns)

    def create(
        self, source: SourcePartition, first: int, schema: pa.Schema, partition: PartitionValues
    ) -> FileWriter:
        """See `LakeTable.create`."""
        # polars reads a partition's values from the path, not from the log. deltalake's OPTIMIZE
        # finds no path with ~.
        folder = delta_partition.folder(partition) or visible_folder(source.topic, "@")
        path = f"{folder}/{unique_name(source.partition, first)}"
        return self._files.writer(path, self.root / path)

    def columns(self) -> pa.Schema | None:
        """See `LakeTable.columns`."""
        snapshot = self._current()
        return None if snapshot is None else as_arrow(snapshot.schema)

    def kept_schema(self) -> str | None:
        """See `LakeTable.kept_schema`."""
        snapshot = self._current()
        return None if snapshot is None else snapshot.configuration.get(KEPT)

    def _try_to_keep(self, text: str, rows: pa.Schema, before: str | None) -> None:
        with changing(self._uri):
            if (snapshot := self._current()) is None:
                self._create(rows, {KEPT: text})
            elif snapshot.configuration.get(KEPT) == before:
                self.fit(rows)  # which says if the table must not have such columns
                set_once(self._opened(snapshot.version), {KEPT: text})

    def compact(self, file_bytes: int) -> CompactResult:
        """See `LakeTable.compact`. One commit, if nobody has removed one of the files meanwhile.

        Files of other programs stay as they are. The old files stay until VACUUM.
        """
        head = self.head()
        if head.state[0] is None:
            raise LakeError(f"{self}: there is no table")
        before = self._logged(head)

        def staged(run: Run) -> StagedFile:
            return stage_merged(run, self._beside(run[0][1]), self._read)

        written, layouts = files_to_merge(before, self._footer, head.fences)
        less = merge_runs(self, runs_to_merge(written, file_bytes, layouts), staged)
        return CompactResult(files_before=len(before), files=len(before) - less)

    def paths(self, head: Head[State]) -> Collection[str]:
        """See `LakeTable.paths`."""
        return self._logged(head).keys()

    def checks(self, head: Head[State]) -> Iterator[tuple[str, Check]]:
        """See `LakeTable.checks`."""
        if (snapshot := head.state[0]) is None:
            return
        columns = snapshot.indexed
        for path, file in self._logged(head).items():
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
            return as_wrong(path, file.nbytes, footer, columns, fences, file.partition)

    def mended(self, head: Head[State], wrong: WrongFile) -> StagedFile:
        """See `LakeTable.mended`: it may be enough that the log says other bounds of a file."""
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

    def head(self) -> Head[State]:
        """See `LakeTable.head`."""
        snapshot = self._current()
        if snapshot is None:
            return Head(version=-1, fences={}, state=(None, CommitRecord()), exists=False)
        refuse_features(snapshot.features, snapshot.configuration, snapshot.schema)
        try:
            record = check_witness(
                snapshot.record,
                snapshot.sequence,
                is_whole=snapshot.is_whole,
                reland=self.reland,
            )
        except LakeError as error:
            raise LakeError(f"{self._uri}: {error}") from error
        return Head(version=snapshot.version, fences=record.fences, state=(snapshot, record))

    def check(
        self, head: Head[State], admission: Admission, landed_before: Collection[str]
    ) -> None:
        """See `LakeTable.check`."""
        for file in admission.lands:
            check_staged(file, self._files.size(self.root / file.path))

    def swap(self, head: Head[State], admission: Admission, attempt: str) -> str:
        """See `LakeTable.swap`."""
        snapshot, before = head.state
        if snapshot is None and not admission.lands:
            raise NotLandedError(f"{self}: there is no table")
        footers = {
            file: pq.read_metadata(self._files.footer(self.root / file.path, file.nbytes))
            for file in admission.lands
        }
        schemas = [footer.schema.to_arrow_schema() for footer in footers.values()]
        if snapshot is None:
            self._create(schemas[0], {})
            return "the table was created"  # the next try finds it
        names = list(snapshot.partition_columns)
        for file in admission.lands:
            if [name for name, _ in file.table_partition or ()] != names:
                raise NotLandedError(
                    f"{self._uri}: nothing has landed: {file} was staged for another partitioning: "
                    "stage the input again"
                )
        # What replaces files lands nothing: their rows are the table's, whatever it is like now,
        # and a restore to before it undoes nothing.
        replaced = {path for paths in admission.replaced.values() for path in paths}
        if not replaced and (grows := self._grow(snapshot, schemas)):
            return grows
        record = CommitRecord(
            sequence=before.sequence + (not replaced), attempt=attempt, fences=admission.fences
        )
        logged = self._logged(head) if replaced else {}
        actions = file_actions(snapshot, footers, logged, replaced)
        entry = commit_entry(actions, record, lands=not replaced)
        if conflict := self._add(snapshot, entry, () if replaced else admission.lands):
            return conflict
        self._make_checkpoint(snapshot)
        return ""

    def has_landed(self, head: Head[State], attempt: str) -> bool:
        """See `LakeTable.has_landed`."""
        if not self._log.has(attempt, after=head.version):
            return False
        if (snapshot := head.state[0]) is None or not self._log.continues(snapshot):
            raise LakeError("its log was cleaned up, or is another one, since it was read")
        return True

    def landed_files(self, head: Head[State]) -> list[LandedFile]:
        """See `LakeTable.landed_files`."""
        snapshot, _ = head.state
        if snapshot is None:
            return []
        actions = pa.table(self._whole(snapshot).get_add_actions(flatten=True))
        return [
            self._landed(
                unquote(actions["path"][row].as_py()),
                actions["size_bytes"][row].as_py(),
                {name: actions[f"partition.{name}"][row] for name in snapshot.partition_columns},
            )
            for row in range(actions.num_rows)
        ]

    def remove(self, files: Iterable[StagedFile]) -> None:
        """See `LakeTable.remove`."""
        files = list(files)
        with suppress(LakeError, OSError, DeltaError):
            table = self.open_version() if files else None
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

    def _logged(self, head: Head[State]) -> dict[str, LoggedFile]:
        """Return the files of the table at `head`, by their paths. Raises as `_whole`."""
        snapshot, _ = head.state
        return {} if snapshot is None else logged_files(self._whole(snapshot))

    def _whole(self, snapshot: Snapshot) -> DeltaTable:
        """Open a version of a table, to read its files.

        Raises:
            LakeError: a file's rows are not all rows of the table, or the log cannot be read.
        """
        if _VECTORS in snapshot.features:
            raise LakeError(
                f"{self}: deletion vectors may have deleted rows, and they cannot be read"
            )
        return self._opened(snapshot.version)

    def _create(self, schema: pa.Schema, configuration: Mapping[str, str]) -> None:
        converted = with_nullable_columns(delta_schema(schema))
        converted = delta_partition.with_filled(converted, schema, self._partition_by)
        DeltaTable.create(
            self._uri,
            Schema.from_json(json.dumps(converted)),
            mode="ignore",
            partition_by=list(self._partition_by) or None,
            configuration={**CREATED, **configuration},
            raise_if_key_not_exists=False,
            storage_options=self._options,
        )

    def _grow(self, snapshot: Snapshot, schemas: Iterable[pa.Schema]) -> str:
        """Check files of these schemas, and add columns to the table; return a text if it did.

        Raises:
            NotLandedError: the files cannot land.
        """
        new, names = snapshot.schema, snapshot.partition_columns
        grows = may_grow(self._growth, snapshot.configuration)
        try:
            for schema in schemas:
                converted = delta_schema(schema)
                new = grown(new, converted) if grows else new
                check_fits(converted, delta_partition.without_filled(new, schema, names))
        except LakeError as error:
            raise NotLandedError(f"{self._uri}: nothing has landed: {error}") from error
        if new == snapshot.schema:
            return ""
        try:
            return self._add_columns(snapshot, new)
        except DeltaError as error:
            raise NotLandedError(
                f"{self._uri}: nothing has landed: columns cannot be added: {error}"
            ) from error

    def _add_columns(self, snapshot: Snapshot, new: JsonObject) -> str:
        """Have the log say that no file has values in columns, and then the table get them.

        These are two commits. If another one comes in between, all is tried again: the log says
        nothing of the files that it has added.
        """
        version = snapshot.version
        table = self._opened(version)
        # What was deleted by a vector would come back.
        logged = {} if _VECTORS in snapshot.features else logged_files(table)
        if actions := list(lacking_actions(snapshot, new, logged)):
            version += 1
            if conflict := self._add(snapshot, commit_entry(actions, None, lands=False)):
                return conflict
            table = self._opened(version)
        changed = [field for field in new["fields"] if field not in snapshot.schema["fields"]]
        fields = [Field.from_json(json.dumps(field)) for field in changed]
        try:
            table.alter.add_columns(fields, commit_properties=ONCE)
        except CommitFailedError as error:
            return f"{error}"
        return "columns were added"  # the next try finds them

    def _add(self, snapshot: Snapshot, entry: Entry, files: Collection[StagedFile] = ()) -> str:
        """See `DeltaLog.commit`."""
        conflict = self._log.commit(snapshot, entry, files, lambda: self._opened().file_uris())
        if not conflict:
            self._known = snapshot.after(entry)
        elif not self._log.continues(snapshot):
            self._known = None
        return conflict

    def _make_checkpoint(self, snapshot: Snapshot) -> None:
        """Make a checkpoint after the commit that follows `snapshot`, if one is due."""
        interval = setting(snapshot.configuration, _INTERVAL, _INTERVAL_DEFAULT, least=1)
        if (snapshot.version + 2) % interval:  # deltalake's writers, too, count from 1
            return
        try:
            table = self._opened(snapshot.version + 1)
            table.create_checkpoint()
            if snapshot.configuration.get(_CLEANUP, "true").lower() == "true":
                table.cleanup_metadata()
                self._log.remove_drafts()
        except BaseException as error:  # what was committed has landed
            # A panic of deltalake, as in a forked child, is no Exception.
            is_known = isinstance(error, (LakeError, DeltaError, OSError))
            if not is_known and type(error).__name__ != "PanicException":
                raise
            _log.warning("%s: no checkpoint was made: %s", self, error)

    def _current(self) -> Snapshot | None:
        """Return the table's current version; None if there is no table.

        To open it takes time for each of its files. What is known of it is brought up to date.
        """
        known = None
        if self._known is not None:
            with suppress(LakeError, OSError):  # if they last, opening says so
                known = self._log.newest(self._known)
        if known is None and (table := self.open_version()) is not None:
            try:
                known = self._log.snapshot(table)
            except (LakeError, DeltaError) as error:
                raise LakeError(f"the history of {self._uri} cannot be read: {error}") from error
        self._known = known
        return known

    def _opened(self, version: int | None = None) -> DeltaTable:
        """Open a version of a table that exists, or the current one."""
        if (table := self.open_version(version)) is None:
            raise LakeError(f"{self._uri} is gone")
        return table

    def open_version(self, version: int | None = None) -> DeltaTable | None:
        """Open a version, or the current one; None if there is no table."""
        try:
            return DeltaTable(self._uri, version=version, storage_options=self._options)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise LakeError(f"{self._uri} cannot be read: {error}") from error
