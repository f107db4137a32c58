"""What pyiceberg commits for us: files that are added to a table, or that replace others.

It commits with a catalog that is tried once (`OneTry`): see `commit`.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import TableProperties
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertCurrentSchemaId
from pyiceberg.typedef import Record
from pyiceberg.utils.properties import property_as_bool

from columnar_kafka.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata

    from columnar_kafka.lake.model import StagedFile
    from columnar_kafka.lake.tables.bounds import Footer

__all__ = [
    "ConflictError",
    "OneTry",
    "add_data_files",
    "change_table",
    "replace_data_files",
    "without_history",
    "wrong_columns",
]


class ConflictError(Exception):
    """Another commit came first, or so the catalog says."""


class OneTry:
    """A catalog whose conflicts are of a class that pyiceberg does not know.

    On its own one pyiceberg would commit again, on top of a head that nobody has looked at. Or it
    would delete the manifests of the commit, which may have landed: the answer may have been lost.
    """

    def __init__(
        self, catalog: Catalog, *, replaces: bool = False, schema: int | None = None
    ) -> None:
        """Commit with `catalog`; say of a snapshot if it `replaces` files and changes no row.

        With the id of a `schema` only to a table that has that one.
        """
        self._catalog = catalog
        self._replaces = replaces
        self._schema = schema

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Any, requirements: Any, updates: tuple[Any, ...]) -> Any:
        """Commit; raises `ConflictError`, and what the catalog raises."""
        if self._replaces:
            updates = tuple(map(_as_replacement, updates))
        if self._schema is not None:
            same = AssertCurrentSchemaId.model_validate({"current-schema-id": self._schema})
            requirements = (*requirements, same)
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException as error:
            raise ConflictError(str(error)) from error


def change_table(
    table: Table,
    catalog: Callable[[], Catalog],
    columns: pa.Schema | None,
    properties: dict[str, str],
) -> None:
    """Add columns to a table and set properties in one step, unless it was changed meanwhile.

    A catalog need not compare properties: it compares the table's columns.

    Raises:
        LakeError: the table cannot be changed.
    """
    try:
        with closing(catalog()) as opened, suppress(ConflictError):
            once: Any = OneTry(opened, schema=table.metadata.current_schema_id)
            table.catalog = once
            transaction = table.transaction()
            if columns is not None:
                with transaction.update_schema() as update:
                    update.union_by_name(columns)
            transaction.set_properties(properties)
            transaction.commit_transaction()
    except Exception as error:  # a catalog may raise anything
        raise LakeError(f"{table.name()} cannot be changed: {error!r}") from error


def _as_replacement(update: Any) -> Any:
    """Return an update whose snapshot, if it adds one, is Iceberg's operation ``replace``.

    pyiceberg writes the same manifests as ``overwrite`` only. A reader that follows the table's
    changes passes over the one, and stops at the other, because rows may have changed.
    """
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.summary is None:
        return update
    properties = update.snapshot.summary.additional_properties
    summary = Summary(operation=Operation.REPLACE, **properties)
    snapshot = update.snapshot.model_copy(update={"summary": summary})
    return update.model_copy(update={"snapshot": snapshot})


def without_history(metadata: TableMetadata) -> TableMetadata:
    """Return metadata without the snapshots before the current one, to be committed with.

    pyiceberg copies all metadata a score of times for a commit. What it sends to the catalog, which
    adds it to the table's own metadata, does not depend on older snapshots.
    """
    current = metadata.current_snapshot()
    snapshots = [] if current is None else [current]
    return metadata.model_copy(update={"snapshots": snapshots, "snapshot_log": []})


def add_data_files(
    transaction: Transaction,
    files: Iterable[StagedFile],
    uris: Iterable[str],
    footers: Iterable[pq.FileMetaData],
    properties: dict[str, str],
) -> None:
    """Add files with their partitions in a snapshot with these properties.

    pyiceberg's `add_files` would guess the partition, read the footers once more, and end the
    process at one with encrypted columns.
    """
    data_files = list(_data_files(transaction, files, uris, footers))
    update = transaction.update_snapshot(snapshot_properties=properties)
    merges = property_as_bool(
        transaction.table_metadata.properties,
        TableProperties.MANIFEST_MERGE_ENABLED,
        TableProperties.MANIFEST_MERGE_ENABLED_DEFAULT,
    )
    with update.merge_append() if merges else update.fast_append() as append:
        for data_file in data_files:
            append.append_data_file(data_file)


def replace_data_files(
    transaction: Transaction,
    old: Iterable[DataFile],
    files: Iterable[StagedFile],
    uris: Iterable[str],
    footers: Iterable[pq.FileMetaData],
    properties: dict[str, str],
) -> None:
    """Put files in place of `old` ones, in one snapshot with these properties."""
    data_files = list(_data_files(transaction, files, uris, footers))
    with transaction.update_snapshot(snapshot_properties=properties).overwrite() as overwrite:
        # Have every manifest searched for the old files: pyiceberg chooses manifests by the files'
        # partitions, in threads that share one evaluator, and overlooks some.
        overwrite.delete_by_predicate(AlwaysTrue())
        for data_file in old:
            overwrite.delete_data_file(data_file)
        for data_file in data_files:
            overwrite.append_data_file(data_file)


def _data_files(
    transaction: Transaction,
    files: Iterable[StagedFile],
    uris: Iterable[str],
    footers: Iterable[pq.FileMetaData],
) -> Iterator[DataFile]:
    """Yield the files as a manifest has them; a table without a mapping of names gets one."""
    metadata = transaction.table_metadata
    schema = metadata.schema()
    if metadata.name_mapping() is None:
        mapping: Any = schema.name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    for file, uri, footer in zip(files, uris, footers, strict=True):
        statistics: dict[str, Any] = {"record_count": footer.num_rows}
        if not file.is_encrypted:
            statistics = _statistics(footer, schema, metadata.properties)
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=uri,
            file_format=FileFormat.PARQUET,
            partition=Record(*(value for _, value in file.table_partition or ())),
            file_size_in_bytes=file.nbytes,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics,
        )


def wrong_columns(file: DataFile, footer: Footer, metadata: TableMetadata) -> Iterator[str]:
    """Yield the columns whose bounds in a manifest do not hold all values that a footer states.

    They may be cut, or stated of fewer columns: the table may have had other properties then.
    """
    if (schema := _schema_of(footer.metadata, metadata)) is None:
        return
    stated: dict[str, Any] = {}
    if not footer.is_encrypted:
        stated = _statistics(footer.metadata, schema, _UNCUT)
    for name, is_upper in (("lower_bounds", False), ("upper_bounds", True)):
        exact = stated.get(name) or {}
        for field_id, bound in (getattr(file, name) or {}).items():
            kind: Any = schema.find_type(field_id)
            true = exact.get(field_id)
            if true is None or _is_too_narrow(
                from_bytes(kind, true), from_bytes(kind, bound), is_upper=is_upper
            ):
                yield schema.find_column_name(field_id) or str(field_id)


def _schema_of(footer: pq.FileMetaData, metadata: TableMetadata) -> Schema | None:
    """Return the table's newest schema that has all of a file's columns; None if none has."""
    paths = {footer.schema.column(number).path for number in range(footer.num_columns)}
    schemas = [metadata.schema(), *reversed(metadata.schemas)]
    return next(
        (schema for schema in schemas if paths <= set(parquet_path_to_id_mapping(schema))), None
    )


def _is_too_narrow(true: Any, bound: Any, *, is_upper: bool) -> bool:
    """Return whether values lie outside of the bound that was found."""
    return bool(bound < true if is_upper else bound > true)


def _statistics(
    footer: pq.FileMetaData, schema: Schema, properties: dict[str, str]
) -> dict[str, Any]:
    """Return what a manifest says of a file.

    pyiceberg takes the bounds that some row groups state for those of the file. So a column has
    bounds only if each row group with values has some, and without a NaN. They are values of
    Python's: times outside of the years 1 to 9999 have none.
    """
    columns: dict[int, Any] = compute_statistics_plan(schema, properties)
    ids = parquet_path_to_id_mapping(schema)
    for number in range(footer.num_columns):
        column = columns[ids[footer.schema.column(number).path]]
        if column.mode.type not in _BOUNDS:
            continue
        greatest = _greatest(footer, number)
        if greatest is None:
            columns[column.field_id] = replace(column, mode=_COUNTS)
        elif _cannot_be_cut(greatest, column.mode.length):
            columns[column.field_id] = replace(column, mode=_FULL)
    statistics: dict[str, Any] = data_file_statistics_from_parquet_metadata(
        footer, stats_columns=columns, parquet_column_mapping=ids
    ).to_serialized_dict()
    return statistics


_BOUNDS: Final = (MetricModeTypes.FULL, MetricModeTypes.TRUNCATE)
_UNCUT: Final = {TableProperties.DEFAULT_WRITE_METRICS_MODE: "full"}
_COUNTS: Final = MetricsMode(MetricModeTypes.COUNTS)
_FULL: Final = MetricsMode(MetricModeTypes.FULL)


def _greatest(footer: pq.FileMetaData, number: int) -> Any:
    """Return the greatest value of a column; None if a row group does not state its bounds."""
    greatest = None
    try:
        for group in range(footer.num_row_groups):
            stated = footer.row_group(group).column(number).statistics
            if stated is not None and not stated.num_values:
                continue  # nulls
            if stated is None or not stated.has_min_max:
                return None
            least, most = stated.min, stated.max
            if least != least or most != most:  # noqa: PLR0124 - NaN is not
                return None
            greatest = most if greatest is None else max(greatest, most)
    except (ValueError, OverflowError):  # they are no values of Python
        return None
    return greatest


def _cannot_be_cut(greatest: Any, length: int | None) -> bool:
    """Return whether pyiceberg would make a surrogate of a text when it rounds it up."""
    if not isinstance(greatest, str) or length is None or len(greatest) <= length:
        return False
    return greatest[:length].rstrip("\U0010ffff").endswith("\ud7ff")
