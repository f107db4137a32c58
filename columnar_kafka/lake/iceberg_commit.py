"""What pyiceberg commits for us: files that are added to a table, or that replace others.

It commits with a catalog that is tried once (`OneTry`): see `commit`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

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
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, TimestampType, TimestamptzType, TimeType
from pyiceberg.utils.properties import property_as_bool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow.parquet as pq
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Transaction
    from pyiceberg.table.metadata import TableMetadata

    from columnar_kafka.lake.model import StagedFile

__all__ = [
    "ConflictError",
    "OneTry",
    "add_data_files",
    "replace_data_files",
    "without_history",
]


class ConflictError(Exception):
    """Another commit came first, or so the catalog says."""


class OneTry:
    """A catalog whose conflicts are of a class that pyiceberg does not know.

    On its own one pyiceberg would commit again, on top of a head that nobody has looked at. Or it
    would delete the manifests of the commit, which may have landed: the answer may have been lost.
    """

    def __init__(self, catalog: Catalog, *, replaces: bool) -> None:
        """Commit with `catalog`; say of a snapshot if it `replaces` files and changes no row."""
        self._catalog = catalog
        self._replaces = replaces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Any, requirements: Any, updates: tuple[Any, ...]) -> Any:
        """Commit; raises `ConflictError`, and what the catalog raises."""
        if self._replaces:
            updates = tuple(map(_as_replacement, updates))
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException as error:
            raise ConflictError(str(error)) from error


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
    found = list(_data_files(transaction, files, uris, footers))
    update = transaction.update_snapshot(snapshot_properties=properties)
    merges = property_as_bool(
        transaction.table_metadata.properties,
        TableProperties.MANIFEST_MERGE_ENABLED,
        TableProperties.MANIFEST_MERGE_ENABLED_DEFAULT,
    )
    with update.merge_append() if merges else update.fast_append() as append:
        for each in found:
            append.append_data_file(each)


def replace_data_files(
    transaction: Transaction,
    old: Iterable[DataFile],
    files: Iterable[StagedFile],
    uris: Iterable[str],
    footers: Iterable[pq.FileMetaData],
    properties: dict[str, str],
) -> None:
    """Put files in place of `old` ones, in one snapshot with these properties."""
    found = list(_data_files(transaction, files, uris, footers))
    with transaction.update_snapshot(snapshot_properties=properties).overwrite() as overwrite:
        # Have every manifest searched for the old files: pyiceberg chooses manifests by the files'
        # partitions, in threads that share one evaluator, and overlooks some.
        overwrite.delete_by_predicate(AlwaysTrue())
        for each in old:
            overwrite.delete_data_file(each)
        for each in found:
            overwrite.append_data_file(each)


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


def _statistics(
    footer: pq.FileMetaData, schema: Schema, properties: dict[str, str]
) -> dict[str, Any]:
    """Return what a manifest says of a file.

    pyiceberg reads bounds as values of Python: times outside of the years 1 to 9999 have none.
    """
    columns: dict[int, Any] = compute_statistics_plan(schema, properties)
    ids = parquet_path_to_id_mapping(schema)
    for number in range(footer.num_columns):
        column = columns[ids[footer.schema.column(number).path]]
        if (
            isinstance(column.iceberg_type, _TIMES)
            and column.mode.type is MetricModeTypes.FULL
            and not _are_values_of_python(footer, number)
        ):
            columns[column.field_id] = replace(column, mode=_COUNTS)
    found: dict[str, Any] = data_file_statistics_from_parquet_metadata(
        footer, stats_columns=columns, parquet_column_mapping=ids
    ).to_serialized_dict()
    return found


_TIMES: Final = (DateType, TimeType, TimestampType, TimestamptzType)
_COUNTS: Final = MetricsMode(MetricModeTypes.COUNTS)


def _are_values_of_python(footer: pq.FileMetaData, number: int) -> bool:
    """Return whether Python has the bounds of a column in each row group."""
    try:
        for group in range(footer.num_row_groups):
            if (statistics := footer.row_group(group).column(number).statistics) is not None:
                statistics.min, statistics.max  # noqa: B018 - raises
    except (ValueError, OverflowError):
        return False
    return True
