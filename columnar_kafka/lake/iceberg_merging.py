"""The files of an Iceberg table that may be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.file_metadata import file_messages
from columnar_kafka.lake.iceberg_partition import check_file
from columnar_kafka.lake.merging import layout_of
from columnar_kafka.lake.model import SourcePartition, StagedFile, TopicGeneration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.file_metadata import FileMessages
    from columnar_kafka.lake.model import Fence

__all__ = ["current_files", "files_to_merge"]


def current_files(table: Any) -> dict[str, Any]:
    """Return the data files of a pyiceberg table's current snapshot, by URI; blocks.

    `table` is None if there is none.

    Raises:
        LakeError: a file's rows are not all rows of the table.
    """
    tasks = [] if table is None else list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise LakeError(
            f"{'.'.join(table.name())}: delete files have deleted rows, and they cannot be read"
        )
    return {task.file.file_path: task.file for task in tasks}


def files_to_merge(
    table: Any, current: Mapping[str, Any], fences: Mapping[str, Fence]
) -> tuple[dict[str, StagedFile], dict[str, bytes]]:
    """Return the files that we have written in the table's partitioning, and their layouts, by URI.

    `current` are the table's files, by `current_files`; those of other programs do not say which
    messages they have. A file whose columns have other names in the table now has a layout of its
    own. Blocks to read each footer.

    Raises:
        LakeError: a footer cannot be read.
    """
    names = {(fence.topic, fence.partition): name for name, fence in fences.items()}
    columns = [str(each) for each in table.spec().fields]
    files: dict[str, StagedFile] = {}
    layouts: dict[str, bytes] = {}
    for uri, file in current.items():
        if file.spec_id != table.spec().spec_id:
            continue
        try:
            footer = pq.read_metadata(table.io.new_input(uri).open())
            found = file_messages(uri, footer.metadata)
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise LakeError(f"{uri}: {error!r}") from error
        if found is None or not (fence := _fence(found, names)):
            continue
        files[uri] = StagedFile(
            fence=fence,
            topic=found.topic,
            partition=found.partition,
            first=found.first,
            last=found.last,
            messages=found.segments,
            rows=footer.num_rows,
            nbytes=file.file_size_in_bytes,
            segment="",
            schema=found.schema,
            digest="",
            path=uri,
            table_partition=tuple(
                (name, file.partition[number]) for number, name in enumerate(columns)
            )
            or None,
        )
        schema = footer.schema.to_arrow_schema()
        try:
            check_file(uri, schema, table.metadata)
            layouts[uri] = layout_of(schema)
        except LakeError:
            layouts[uri] = uri.encode()  # from before a column was renamed: like no other
    return files, layouts


def _fence(found: FileMessages, names: Mapping[tuple[str, int], str]) -> str | None:
    """Return the fence of a file's messages."""
    if found.is_verbatim:
        return names.get((found.topic, found.partition))
    generation = TopicGeneration(found.cluster, found.topic_id)
    return SourcePartition(generation, found.topic, found.partition).fence
