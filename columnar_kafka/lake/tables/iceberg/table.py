"""An Iceberg table in any catalog of pyiceberg's as a `LakeTable`; needs the extra ``iceberg``.

    <table's location>/data/<topic>/p<partition>-<first>-<unique>.parquet

A file is written in its final place, and becomes visible by the commit that adds it. That commit
holds the fences in its snapshot's summary (see `commit_record`), so a table that is rolled back
brings its fences back. They are found among the ancestors of the current snapshot, over others'
commits. A table property repeats them: it is the second witness of a rollback, and the only one
where the snapshots were expired.

Stitched files have the table's own field ids. A verbatim file has none, and is read by names.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError

from columnar_kafka.config import Arguments, Hidden
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.arrow_types import zoned_columns
from columnar_kafka.lake.model import (
    CompactResult,
    Fitting,
    LandedFile,
    NotLandedError,
    UnlandableError,
    unlandable,
)
from columnar_kafka.lake.partition import check_same, parse_terms
from columnar_kafka.lake.tables.base import Head, LakeTable
from columnar_kafka.lake.tables.bounds import stage_copy
from columnar_kafka.lake.tables.commit_record import (
    CREATED,
    KEPT,
    CommitRecord,
    check_witness,
    may_grow,
)
from columnar_kafka.lake.tables.files import (
    check_staged,
    plain_uri,
    refuse_passwords,
    unique_name,
    unreferenced,
    visible_folder,
)
from columnar_kafka.lake.tables.iceberg.commit import (
    ConflictError,
    OneTry,
    add_data_files,
    change_table,
    replace_data_files,
    without_history,
    wrong_columns,
)
from columnar_kafka.lake.tables.iceberg.files import (
    TableFiles,
    create_namespace,
    file_io_properties,
    new_data_path,
)
from columnar_kafka.lake.tables.iceberg.history import BOUNDED, expire, has_attempt, newest_record
from columnar_kafka.lake.tables.iceberg.merging import (
    checks,
    current_files,
    file_content,
    files_to_merge,
    landed_file,
)
from columnar_kafka.lake.tables.iceberg.partition import (
    add_terms,
    check_file,
    check_partition,
    check_terms,
    shown_terms,
    spec_columns,
    spec_terms,
    with_filled,
    without_filled,
)
from columnar_kafka.lake.tables.iceberg.schema import (
    check_fits,
    field_ids,
    millisecond_columns,
    new_columns,
    refuse_features,
)
from columnar_kafka.lake.tables.local_files import LocalFiles, local_path
from columnar_kafka.lake.tables.merging import merge_runs, runs_to_merge, stage_merged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

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
    from columnar_kafka.lake.tables.merging import Run

    State = tuple[Table | None, CommitRecord]

__all__ = ["IcebergTable"]

# It says for every row group which columns have no statistics, and some of `_kafka` have none.
logging.getLogger("pyiceberg.io.pyarrow").addFilter(
    lambda record: not str(record.msg).startswith("PyArrow statistics missing")
)

_NO_SNAPSHOT: Final = -1
_NEW: Final = {
    **CREATED,
    **BOUNDED,
    # Spark's vectorised reader of Iceberg fails on milliseconds, and on texts encoded as deltas.
    "read.parquet.vectorization.enabled": "false",
}
_TRIES: Final = 10  # to change a schema that others change at the same time


class IcebergTable(LakeTable):
    """A `LakeTable` of Iceberg's format; see the text of this module."""

    late_requests = True  # a catalog answers over a network

    def __init__(
        self,
        identifier: str,
        *,
        catalog: Mapping[str, str],
        storage: Mapping[str, str] | None = None,
        allow_gaps: bool = False,
        reland: bool = False,
        growth: bool | None = None,
        partition_by: Iterable[str] = (),
        keep_snapshots: int | None = None,
        files: LocalFiles | None = None,
    ) -> None:
        """Name the table. The first file that is staged creates it, if it does not exist.

        Args:
            identifier: the table's name with its namespace, as ``lake.flights``.
            catalog: pyiceberg's properties of the catalog (``type``, ``uri``, ``warehouse``, …).
                With ``name`` alone they come from pyiceberg's own configuration.
            storage: keys of the object store of the files (``aws_region``, …), which become
                properties of the catalog.
            allow_gaps: see `LakeTable`.
            reland: see `LakeTable`.
            growth: add columns that the topic has and the table lacks, and widen those that are
                too narrow (``table.growth``); without it only where the table was created here.
            partition_by: what a new table is partitioned by (``table.partition.by``).
            keep_snapshots: how many snapshots stay when others expire (``table.keep.snapshots``);
                without it the table's properties say so.
            files: the file system of the data files, if they are on this machine.

        Raises:
            LakeError: `identifier` has no namespace.
            ConfigError: a key of `storage` has no property; or as `refuse_passwords`.
        """
        self.place = identifier  # for reports, if what follows raises
        given, catalog = Arguments((catalog,), {}), {}  # which shows passwords
        catalog, storage = given.mapping(), Hidden(storage or {})
        refuse_passwords(catalog | storage)
        if "." not in identifier:
            raise LakeError(f"table {identifier!r}: name it with its namespace, as 'lake.flights'")
        super().__init__(allow_gaps=allow_gaps, reland=reland)
        self._identifier = identifier
        places = (catalog[key] for key in ("name", "uri", "warehouse") if key in catalog)
        without_secrets = [re.sub(r"(?<=//)[^:/@]*(:[^@]*)?@|\?.*", "", text) for text in places]
        self.place = " ".join([*without_secrets, identifier])
        self._catalog_properties = Hidden({**file_io_properties(storage), **catalog})
        self._growth = growth
        self._partition_by = parse_terms(partition_by)
        self._keep_snapshots = keep_snapshots
        self._files = files or LocalFiles()
        self._fitted: tuple[pa.Schema, Table] | None = None  # the last, since `fences` was called

    def __repr__(self) -> str:
        return f"IcebergTable({self.place!r})"  # names the ingester's group: see `landing_config`

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fitted": None}  # a loaded table has connections

    def fences(self) -> Mapping[str, Fence]:
        """See `LakeTable.fences`."""
        self._fitted = None
        return self.head().fences

    def fit(self, schema: pa.Schema) -> Fitting:
        """See `LakeTable.fit`. Makes the table, and has it grow: files need its field ids."""
        table = self._fit(schema)
        return Fitting(
            partitioning=spec_columns(table.metadata, schema),
            unstated=millisecond_columns(schema),
            restates=bool(zoned_columns(schema)),
        )

    def create(
        self, source: SourcePartition, first: int, schema: pa.Schema, partition: PartitionValues
    ) -> FileWriter:
        """See `LakeTable.create`."""
        fitted = self._fitted  # another thread may forget it
        table = fitted[1] if fitted and fitted[0] == schema else self._fit(schema)
        name = unique_name(source.partition, first)
        path = new_data_path(table, visible_folder(source.topic), name, partition)
        files, place = self._place(table, path)
        return files.writer(path, place, field_ids(table.schema().as_struct()))

    def columns(self) -> pa.Schema | None:
        """See `LakeTable.columns`."""
        table = self.load()
        return None if table is None else table.schema().as_arrow()

    def kept_schema(self) -> str | None:
        """See `LakeTable.kept_schema`."""
        table = self.load()
        return None if table is None else table.properties.get(KEPT)

    def _try_to_keep(self, text: str, rows: pa.Schema, before: str | None) -> None:
        table = self.load() or self._create_table(rows, {**_NEW, KEPT: text})
        if table.properties.get(KEPT) == before:
            columns = new_columns(rows) if self._has_to_grow(table, rows) else None
            change_table(table, self._catalog, columns, {KEPT: text})

    def compact(self, file_bytes: int) -> CompactResult:
        """See `LakeTable.compact`. One snapshot, if nobody has replaced one of the files meanwhile.

        A table with delete files is refused. Files of other programs stay as they are. The old
        files stay until the snapshots before it expire.
        """
        head = self.head()
        if (table := head.state[0]) is None:
            raise LakeError(f"{self}: there is no table")
        before = current_files(table)

        def staged(run: Run) -> StagedFile:
            writer = self._replacing(table, run[0][1])
            return stage_merged(run, writer, partial(file_content, table), millisecond_columns)

        written, layouts = files_to_merge(table, before, head.fences)
        less = merge_runs(self, runs_to_merge(written, file_bytes, layouts), staged)
        return CompactResult(files_before=len(before), files=len(before) - less)

    def paths(self, head: Head[State]) -> Collection[str]:
        """See `LakeTable.paths`."""
        return current_files(head.state[0]).keys()

    def checks(self, head: Head[State]) -> Iterator[tuple[str, Check]]:
        """See `LakeTable.checks`: files of other programs are passed over."""
        return checks(head.state[0], head.fences, wrong_columns)

    def mended(self, head: Head[State], wrong: WrongFile) -> StagedFile:
        """See `LakeTable.mended`: a copy, for no path may be added to a table twice."""
        table, _ = head.state
        data = file_content(table, wrong.file.path)
        return stage_copy(wrong, data, self._replacing(table, wrong.file))

    def _replacing(self, table: Any, file: StagedFile) -> FileWriter:
        """Open a new file for the messages of one that it is to replace."""
        name, folder = unique_name(file.partition, file.first), visible_folder(file.topic)
        path = new_data_path(table, folder, name, file.table_partition or ())
        files, place = self._place(table, path)
        return files.writer(path, place)

    def head(self) -> Head[State]:
        """See `LakeTable.head`."""
        table = self.load()
        if table is None:
            nothing = (None, CommitRecord())
            return Head(version=_NO_SNAPSHOT, fences={}, state=nothing, exists=False)
        metadata = table.metadata
        try:
            refuse_features(metadata)
            witness = CommitRecord.from_properties(metadata.properties)
            newest, is_whole = newest_record(metadata)
            if newest is None and not is_whole:
                newest = witness
            record = check_witness(
                newest,
                witness.sequence if witness else None,
                is_whole=is_whole,
                reland=self.reland,
            )
        except LakeError as error:
            raise LakeError(f"{self._identifier}: {error}") from error
        version = metadata.current_snapshot_id
        return Head(
            version=_NO_SNAPSHOT if version is None else version,
            fences=record.fences,
            state=(table, record),
        )

    def check(
        self, head: Head[State], admission: Admission, landed_before: Collection[str]
    ) -> None:
        """See `LakeTable.check`."""
        table, _ = head.state
        if table is None:
            if admission.lands:
                raise LakeError("the table is gone: stage the input again")
            return
        for file in admission.lands:
            files, place = self._place(table, file.path)
            check_staged(file, files.size(place))

    def swap(self, head: Head[State], admission: Admission, attempt: str) -> str:
        """See `LakeTable.swap`."""
        if (table := head.state[0]) is None:
            raise NotLandedError(f"{self}: there is no table")
        with ExitStack() as stack:
            try:
                catalog = stack.enter_context(closing(self._catalog()))
                transaction = self._transaction(catalog, head, admission, attempt)
            except Exception as error:  # a catalog, its files and pyiceberg may raise anything
                where = f" (metadata of {table.location()})" if isinstance(error, OSError) else ""
                raise NotLandedError(
                    f"{self._identifier}: nothing has landed: {error}{where}"
                ) from error
            try:
                transaction.commit_transaction()
            except ConflictError as error:
                return f"the catalog says: {error}"
            expire(table, self._keep_snapshots, int(time.time() * 1000))
        return ""

    def _transaction(
        self, catalog: Catalog, head: Head[State], admission: Admission, attempt: str
    ) -> Transaction:
        """Return a transaction that lands files and fences; the catalog knows nothing of it yet."""
        table, before = head.state
        assert table is not None
        places = [self._place(table, file.path) for file in admission.lands]
        footers = [
            pq.read_metadata(files.footer(place, file.nbytes))
            for (files, place), file in zip(places, admission.lands, strict=True)
        ]
        for file, footer in zip(admission.lands, footers, strict=True):
            check_file(file.path, footer.schema.to_arrow_schema(), table.metadata)
            check_partition(file, table.metadata)
        # What merges files lands nothing, so a rollback to before it undoes nothing either.
        replaced = {path for paths in admission.replaced.values() for path in paths}
        record = CommitRecord(
            sequence=before.sequence + (not replaced), attempt=attempt, fences=admission.fences
        )
        properties = record.to_properties()
        # The handle is as old as the head: the catalog compares it with the table.
        once: Any = OneTry(catalog, replaces=bool(replaced))
        table.catalog = once
        table.metadata = without_history(table.metadata)
        transaction = table.transaction()
        transaction.set_properties(properties)
        uris = [_file_uri(files.uri(place)) for files, place in places]
        if replaced:
            old = [file for path, file in current_files(table).items() if path in replaced]
            replace_data_files(transaction, old, admission.lands, uris, footers, properties)
        else:
            add_data_files(transaction, admission.lands, uris, footers, properties)
        return transaction

    def has_landed(self, head: Head[State], attempt: str) -> bool:
        """See `LakeTable.has_landed`."""
        table = self.load()
        return table is not None and has_attempt(table.metadata, attempt)

    def landed_files(self, head: Head[State]) -> list[LandedFile]:
        """See `LakeTable.landed_files`."""
        table, _ = head.state
        return [landed_file(table, file) for file in current_files(table).values()]

    def remove(self, files: Iterable[StagedFile]) -> None:
        """See `LakeTable.remove`."""
        files = list(files)
        with suppress(Exception):  # a catalog and its files may raise anything
            if not files or (table := self.load()) is None:
                return
            paths = table.inspect.all_data_files()["file_path"].to_pylist()
            for file in unreferenced(files, paths):
                stored, place = self._place(table, file.path)
                stored.remove(place)

    def _fit(self, schema: pa.Schema) -> Table:
        """Return the table, made or grown so that it takes files of a schema. Raises as `fit`."""
        table = self.load() or self._create_table(schema)
        if self._has_to_grow(table, schema):
            table = self._grow(table, schema)
        check_same(shown_terms(self._partition_by), spec_terms(table.metadata))
        self._fitted = schema, table
        return table

    def _place(self, table: Table, path: str) -> tuple[LocalFiles | TableFiles, Any]:
        """Return the files that one of the table belongs to, and its place there."""
        location = plain_uri(table.location()).rstrip("/")
        if path.startswith("/") or ":" in path.partition("/")[0]:  # the table's properties say it
            location, _, path = path.rpartition("/")
        if location.startswith(("/", "file:")):
            return self._files, local_path(location) / path
        return TableFiles(table.io, location), PurePosixPath(path)

    def _catalog(self) -> Catalog:
        try:
            return load_catalog(**self._catalog_properties)
        except Exception as error:
            if not type(error).__module__.startswith("sqlalchemy"):
                raise
            # Another process has begun a catalog in SQL at the same time: its tables exist by now.
            return load_catalog(**self._catalog_properties)

    def load(self) -> Table | None:
        """Load the table as it is now; None if there is none."""
        try:
            with closing(self._catalog()) as catalog:
                return catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None
        except Exception as error:
            names = ", ".join(sorted(self._catalog_properties)) or "no properties"
            raise LakeError(
                f"{self._identifier} cannot be loaded: {error!r} (the catalog has {names})"
            ) from error

    def _has_to_grow(self, table: Table, schema: pa.Schema) -> bool:
        """Return whether the table has to grow, before files of a schema can land.

        Raises:
            UnlandableError: they cannot.
        """
        struct = without_filled(table.metadata, schema)
        try:
            with unlandable():
                check_fits(schema, struct)
        except UnlandableError:
            if not may_grow(self._growth, table.properties):
                raise
            with unlandable():
                check_fits(schema, struct, may_grow=True)
            return True
        return False

    def _grow(self, table: Table, schema: pa.Schema) -> Table:
        """Add columns to the table, and widen them."""
        columns = new_columns(schema)
        for _ in range(_TRIES):
            try:
                with closing(self._catalog()) as catalog:
                    table.catalog = catalog
                    with table.update_schema() as update:
                        update.union_by_name(columns)
            except CommitFailedException:  # another process has changed it
                pass
            except Exception as error:
                raise LakeError(f"{self._identifier} cannot be changed: {error!r}") from error
            current = self.load()
            if current is not None and not self._has_to_grow(current, schema):
                return current
            table = current or table
        raise LakeError(
            f"{self._identifier}: columns cannot be added, because others keep changing the table"
        )

    def _create_table(self, schema: pa.Schema, properties: dict[str, str] = _NEW) -> Table:
        with unlandable():
            columns = with_filled(new_columns(schema), self._partition_by)
        check_terms(self._partition_by, columns, schema)
        try:
            with closing(self._catalog()) as catalog:
                create_namespace(catalog, self._identifier.rpartition(".")[0])
                with (
                    # Another process has just created it, before we asked or since.
                    suppress(TableAlreadyExistsError, CommitFailedException),
                    catalog.create_table_transaction(
                        self._identifier, columns, properties=properties
                    ) as transaction,
                    transaction.update_spec() as spec,
                ):
                    add_terms(spec, self._partition_by)
                return catalog.load_table(self._identifier)
        except Exception as error:
            raise LakeError(f"{self._identifier} cannot be created: {error!r}") from error


def _file_uri(uri: str) -> str:
    return f"file://{uri}" if uri.startswith("/") else uri
