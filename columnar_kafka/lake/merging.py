"""Several landed files as one: which ones, and the new file, with fewer and larger row groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.lake.file_metadata import file_metadata
from columnar_kafka.lake.model import SourcePartition, TopicGeneration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from columnar_kafka.lake.model import StagedFile

__all__ = ["merged_file", "merged_metadata", "merged_stage", "runs_to_merge"]

_GROUP_ROWS: Final = 1 << 20
_GROUP_BYTES: Final = 256 << 20
"""The most of a row group, as Arrow's columns: so much memory does a merge take, besides a file."""


def runs_to_merge(
    files: Mapping[str, StagedFile], file_bytes: int
) -> Iterator[list[tuple[str, StagedFile]]]:
    """Yield runs of files, by path, that follow each other and together have at most `file_bytes`.

    Only files of one partition and one schema are merged; a run has two at least.
    """
    run: list[tuple[str, StagedFile]] = []
    ordered = sorted(files.items(), key=lambda each: (each[1].fence, each[1].first))
    for path, file in ordered:
        nbytes = file.nbytes + sum(each.nbytes for _, each in run)
        is_alike = run and (run[-1][1].fence, run[-1][1].schema) == (file.fence, file.schema)
        if not is_alike or nbytes > file_bytes:
            if len(run) > 1:
                yield run
            run = []
        run.append((path, file))
    if len(run) > 1:
        yield run


def merged_file(contents: Iterable[Callable[[], bytes]], metadata: Mapping[str, str]) -> memoryview:
    """Return one Parquet file with the rows of several, in order; they are read one by one.

    The schema's own metadata stays, and the key-values become `metadata`.
    """
    sink = pa.BufferOutputStream()
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = []
    for content in contents:
        file = pq.ParquetFile(pa.BufferReader(content()))
        if writer is None:
            schema = _without_pairs(file.schema_arrow)
            writer = pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True)
        for number in range(file.num_row_groups):
            waiting.append(file.read_row_group(number).replace_schema_metadata(schema.metadata))
            if _is_enough(waiting):
                writer.write_table(pa.concat_tables(waiting), _GROUP_ROWS)
                waiting = []
    assert writer is not None  # a run is not empty
    if waiting:
        writer.write_table(pa.concat_tables(waiting), _GROUP_ROWS)
    writer.add_key_value_metadata(metadata)
    writer.close()
    return memoryview(sink.getvalue()).cast("B")


def merged_stage(run: Sequence[StagedFile], path: str, nbytes: int) -> StagedFile:
    """Return what a file at `path` with the messages of all files of a run is."""
    return replace(
        run[-1],
        first=run[0].first,
        messages=sum(each.messages for each in run),
        rows=sum(each.rows for each in run),
        nbytes=nbytes,
        digest="",
        path=path,
    )


def merged_metadata(run: Sequence[StagedFile]) -> dict[str, str]:
    """Return the key-values of a file with the messages of all files of a run."""
    first = run[0]
    _, cluster, topic_id, _ = first.fence.split(":")
    return file_metadata(
        SourcePartition(TopicGeneration(cluster, topic_id), first.topic, first.partition),
        schema=first.schema,
        rows=sum(each.rows for each in run),
        segments=sum(each.messages for each in run),
        first=first.first,
        last=run[-1].last,
    )


def _is_enough(tables: Sequence[pa.Table]) -> bool:
    rows, nbytes = sum(each.num_rows for each in tables), sum(each.nbytes for each in tables)
    return bool(rows >= _GROUP_ROWS or nbytes >= _GROUP_BYTES)


def _without_pairs(schema: pa.Schema) -> pa.Schema:
    """Return a schema without the key-values of its file, which describe that one."""
    pairs = schema.metadata or {}
    return schema.with_metadata(
        {key: value for key, value in pairs.items() if not key.startswith(b"columnar.")}
    )
