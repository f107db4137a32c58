"""What a Delta table's commits say of files: which are added and removed, and their statistics."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from deltalake import CommitProperties, DeltaTable, Field
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from columnar_kafka.lake.delta_merging import logged_files
from columnar_kafka.lake.delta_schema import has_types_of
from columnar_kafka.lake.delta_statistics import file_statistics, indexed_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow.parquet as pq

    from columnar_kafka.lake.delta_schema import JsonObject
    from columnar_kafka.lake.model import StagedFile

__all__ = ["add_columns", "file_actions", "indexed", "table_schema"]


def table_schema(table: DeltaTable) -> dict[str, Any]:
    """Return a table's schema as the log has it."""
    schema: dict[str, Any] = json.loads(table.schema().to_json())
    return schema


def file_actions(
    table: DeltaTable, footers: Mapping[StagedFile, pq.FileMetaData], replaced: Collection[str]
) -> list[AddAction | RemoveAction]:
    """Return what adds files, in place of those that are `replaced`; a file may replace itself.

    What takes another's place may have been written by anybody. Of values that readers cast to the
    table's types no bounds are known.
    """
    logged = logged_files(table) if replaced else {}
    schema = table_schema(table) if replaced else None
    columns = indexed(table)
    now = int(time.time() * 1000)
    removed = set(replaced).difference(file.path for file in footers)
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(path, False, now, logged[path].nbytes, dict(logged[path].partition))
        for path in sorted(removed)
    ]
    for file, footer in footers.items():
        before = logged.get(file.path)
        is_known = not file.is_encrypted and (
            schema is None or has_types_of(schema, footer.schema.to_arrow_schema())
        )
        actions.append(
            AddAction(
                file.path,
                file.nbytes,
                dict(file.table_partition or ()),
                before.modified if before else now,
                not replaced,
                file_statistics(footer, columns if is_known else ()),
            )
        )
    return actions


def add_columns(table: DeltaTable, old: JsonObject, new: JsonObject) -> None:
    """Have a table get the columns that are new, and the log say that no file has values in them.

    These are two commits; a file that lands in between would be one of which the log says nothing.

    Raises:
        CommitFailedError: another commit came first, or in between.
        DeltaError: columns cannot be added.
    """
    version = table.version() + _state_lacking(table, old, new)
    table.update_incremental()
    if table.version() != version:
        raise CommitFailedError(f"version {table.version()} came while columns were added")
    changed = [each for each in new["fields"] if each not in old["fields"]]
    fields = [Field.from_json(json.dumps(each)) for each in changed]
    table.alter.add_columns(fields, commit_properties=CommitProperties(max_commit_retries=0))


def _state_lacking(table: DeltaTable, old: JsonObject, new: JsonObject) -> bool:
    """Have the log say of each file that it has no values in columns; return if that was needed."""
    before = {each["name"] for each in old["fields"]}
    metadata = table.metadata()
    after = indexed_columns(new, metadata.partition_columns, metadata.configuration)
    columns = [path for path in sorted(after) if path[0] not in before]
    if not columns or "deletionVectors" in (table.protocol().writer_features or ()):
        return False  # what was deleted by a vector would come back
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path, file.nbytes, dict(file.partition), file.modified, False, file.lacking(columns)
        )
        for path, file in logged_files(table).items()
        if file.is_canonical and file.has_bounds
    ]
    if actions:
        properties = CommitProperties(max_commit_retries=0)
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=properties
        )
    return bool(actions)


def indexed(table: DeltaTable) -> Collection[tuple[str, ...]]:
    """Return the columns of which a table's readers expect statistics."""
    metadata = table.metadata()
    return indexed_columns(table_schema(table), metadata.partition_columns, metadata.configuration)
