"""What a Delta table's commits say of files: which are added and removed, and their statistics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from columnar_kafka.lake.tables.delta.schema import has_types_of
from columnar_kafka.lake.tables.delta.statistics import file_statistics, indexed_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow.parquet as pq

    from columnar_kafka.lake.model import PartitionValues, StagedFile
    from columnar_kafka.lake.tables.delta.log import Snapshot
    from columnar_kafka.lake.tables.delta.merging import LoggedFile
    from columnar_kafka.lake.tables.delta.schema import JsonObject

__all__ = ["file_actions", "lacking_actions"]

_SAFE: Final = "!$&'()+,-.:;=@_~/"


def file_actions(
    snapshot: Snapshot,
    footers: Mapping[StagedFile, pq.FileMetaData],
    logged: Mapping[str, LoggedFile],
    replaced: Collection[str],
) -> Iterator[JsonObject]:
    """Yield the actions that add files, in place of those `replaced`; a file may replace itself.

    `logged` are the table's files, if there is something to replace. A file that replaces another
    may have been written by anybody. Values that readers cast to the table's types have no bounds.
    """
    columns = snapshot.indexed
    now = int(time.time() * 1000)
    for path in sorted(set(replaced).difference(file.path for file in footers)):
        yield _remove(logged[path], now)
    for file, footer in footers.items():
        before = logged.get(file.path)
        is_known = not file.is_encrypted and (
            not replaced or has_types_of(snapshot.schema, footer.schema.to_arrow_schema())
        )
        yield _add(
            before.path if before else quote(file.path, safe=_SAFE),
            file.nbytes,
            before.modified if before else now,
            file.table_partition or (),
            file_statistics(footer, columns if is_known else ()),
            lands=not replaced,
        )


def lacking_actions(
    snapshot: Snapshot, grown: JsonObject, logged: Mapping[str, LoggedFile]
) -> Iterator[JsonObject]:
    """Yield what has the log say of files that they have no values in a table's new columns.

    `grown` is its schema with these.
    """
    after = indexed_columns(grown, snapshot.partition_columns, snapshot.configuration)
    added = sorted(after.difference(snapshot.indexed))
    for file in logged.values():
        if columns := [path for path in added if file.may_hide(path)]:
            statistics = file.lacking(columns)
            yield _add(
                file.path, file.nbytes, file.modified, file.partition, statistics, lands=False
            )


def _add(
    path: str,
    nbytes: int,
    modified: int,
    partition: PartitionValues,
    statistics: str,
    *,
    lands: bool,
) -> dict[str, Any]:
    return {
        "add": {
            "path": path,
            "partitionValues": dict(partition),
            "size": nbytes,
            "modificationTime": modified,
            "dataChange": lands,
            "stats": statistics,
        }
    }


def _remove(file: LoggedFile, now: int) -> dict[str, Any]:
    return {
        "remove": {
            "path": file.path,
            "deletionTimestamp": now,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": dict(file.partition),
            "size": file.nbytes,
        }
    }
