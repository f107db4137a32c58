"""Several landed files as one: which ones, the new file, and the commit that replaces the old.

A merged file has fewer and larger row groups.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.admission import Admission
from columnar_kafka.lake.model import (
    MayHaveLandedError,
    NotLandedError,
    SourcePartition,
    StagedFile,
    TopicGeneration,
)
from columnar_kafka.lake.stitching.file_metadata import file_messages, file_metadata
from columnar_kafka.lake.stitching.stitch import Stitcher
from columnar_kafka.lake.tables.base import commit_admission
from columnar_kafka.lake.tables.files import writing
from columnar_kafka.segment.encoder import columns_with_nan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from columnar_kafka.lake.model import Fence, FileWriter, PartitionValues
    from columnar_kafka.lake.tables.base import Head, LakeTable

__all__ = [
    "Run",
    "as_staged",
    "fence_names",
    "layout_of",
    "merge_runs",
    "merged_metadata",
    "merged_stage",
    "runs_to_merge",
    "stage_merged",
    "unreadable",
]

_GROUP_ROWS: Final = 1 << 20
_GROUP_BYTES: Final = 256 << 20
"""The most of a row group, as Arrow's columns: so much memory does a merge take, besides a file."""
_SMALL: Final = 256  # row groups that are put together while they wait


Run = list[tuple[str, StagedFile]]
"""Files that become one, with their paths in the table."""


def runs_to_merge(
    files: Mapping[str, StagedFile], file_bytes: int, layouts: Mapping[str, bytes] | None = None
) -> Iterator[Run]:
    """Yield runs of files, by path, that follow each other and together have at most `file_bytes`.

    Only files of one partition, one schema and one of the `layouts` are merged; a run has two at
    least.
    """
    layouts = layouts or {}

    def alike(path: str, file: StagedFile) -> tuple[object, ...]:
        return file.fence, file.schema, file.table_partition, layouts.get(path)

    def place(item: tuple[str, StagedFile]) -> tuple[str, str, int]:
        file = item[1]
        return file.fence, repr(file.table_partition), file.first

    run: Run = []
    nbytes = 0
    for path, file in sorted(files.items(), key=place):
        is_alike = run and alike(*run[-1]) == alike(path, file)
        if not is_alike or nbytes + file.nbytes > file_bytes:
            if len(run) > 1:
                yield run
            run, nbytes = [], 0
        run.append((path, file))
        nbytes += file.nbytes
    if len(run) > 1:
        yield run


def stage_merged(
    run: Run,
    writer: FileWriter,
    read: Callable[[str], bytes],
    unstated: Callable[[pa.Schema], Collection[int]] | None = None,
) -> StagedFile:
    """Write one file with the rows of a run, and make it durable. Takes the memory of two files.

    `read` returns the bytes of a file of the table. `unstated` says for a schema which leaf columns
    must have no statistics, by number. They have no dictionary either, from which readers also
    tell that no row can match a filter.

    Raises:
        LakeError: a file cannot be read or written. Then, as after any exception, none is left.
    """
    paths, files = [path for path, _ in run], [file for _, file in run]
    try:
        contents = [partial(read, path) for path in paths]
        writer.write(_merged_file(contents, merged_metadata(files), unstated))
        return merged_stage(files, writer.path, writer.finish())
    except BaseException as error:
        writer.discard()
        if isinstance(error, OSError | pa.ArrowException):
            raise LakeError(f"{paths[0]} to {paths[-1]}: {error}") from error
        raise


def merge_runs(
    table: LakeTable,
    runs: Iterable[Run],
    stage: Callable[[Run], StagedFile | None],
) -> int:
    """Stage a file for each run, and put all of them in place of the old ones by one commit.

    Returns how many files the table has less.

    `stage` returns None for a run that stays as it is, or the very file of the run, to have it
    stated anew. After an exception no staged file is left, unless it may have landed.

    Raises:
        NotLandedError: nothing was changed: another process has merged or removed a file.
        MayHaveLandedError: the files were replaced or may have been.
        LakeError, OSError: a file cannot be read or written.
    """
    merged: list[StagedFile] = []
    replaced: dict[str, list[str]] = {}

    def admitted(newest: Head[Any]) -> Admission:
        there, old = set(table.paths(newest)), set().union(*replaced.values())
        if gone := old - there:
            raise NotLandedError(f"{table}: another process has merged {min(gone)}")
        if taken := (there - old) & set(map(table.visible_path, merged)):
            raise NotLandedError(f"{table}: another process has landed {taken.pop()}")
        return Admission(
            lands=tuple(merged),
            landed_before=(),
            repeated=(),
            fences=newest.fences,
            replaced=replaced,
        )

    try:
        for run in runs:
            if (file := _staged(table, run, stage)) is not None:
                replaced[file.path] = [path for path, _ in run]
                merged.append(file)
    except BaseException:
        table.remove(_new(merged, replaced))
        raise
    try:
        if merged:
            commit_admission(table, admitted)
    except MayHaveLandedError:
        raise
    except (LakeError, OSError):  # after any other, as Ctrl-C, the files may have landed
        table.remove(_new(merged, replaced))
        raise
    return sum(len(old) - 1 for old in replaced.values())


def _staged(
    table: LakeTable, run: Run, stage: Callable[[Run], StagedFile | None]
) -> StagedFile | None:
    """Stage the file of a run; have errors name the table."""
    try:
        with writing(f"{table}: {run[0][0]}"):
            return stage(run)
    except LakeError as error:
        raise LakeError(f"{table}: {error}") from error


def _new(merged: Iterable[StagedFile], replaced: Mapping[str, Collection[str]]) -> list[StagedFile]:
    """Return the files that were staged, and not those of the table that are stated anew."""
    return [file for file in merged if file.path not in replaced[file.path]]


def layout_of(schema: pa.Schema) -> bytes:
    """Return what of a file's schema must be equal to merge it: field ids, too."""
    layout: bytes = _without_pairs(schema).serialize().to_pybytes()
    return layout


def _merged_file(
    contents: Iterable[Callable[[], bytes]],
    metadata: Mapping[str, str],
    unstated: Callable[[pa.Schema], Collection[int]] | None,
) -> memoryview:
    """Return one Parquet file with the rows of several, in order; they are read one by one.

    The schema's own metadata stays, and the key-values become `metadata`.
    """
    sink = pa.BufferOutputStream()
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = []
    small: list[pa.Table] = []  # the newest of them: each table takes 1 KB a column beside its rows
    rows = nbytes = 0  # of both
    with_nan: set[str] = set()
    for content in contents:
        file = pq.ParquetFile(pa.BufferReader(content()))
        if writer is None:
            schema = _without_pairs(file.schema_arrow)
            left_out = unstated(schema) if unstated else ()
            leaves = range(file.metadata.num_columns)
            stated = [file.schema.column(n).path for n in leaves if n not in left_out]
            writer = pq.ParquetWriter(
                sink,
                schema,
                compression="zstd",
                use_dictionary=stated,
                write_statistics=stated,
                write_page_checksum=True,
            )
        for number in range(file.num_row_groups):
            group = file.read_row_group(number).replace_schema_metadata(schema.metadata)
            with_nan = with_nan.union(*map(columns_with_nan, group.to_batches()))
            small.append(group)
            rows, nbytes = rows + group.num_rows, nbytes + group.nbytes
            if len(small) == _SMALL:
                waiting.append(pa.concat_tables(small).combine_chunks())
                small = []
            if rows >= _GROUP_ROWS or nbytes >= _GROUP_BYTES:
                writer.write_table(pa.concat_tables([*waiting, *small]), _GROUP_ROWS)
                waiting, small, rows, nbytes = [], [], 0, 0
    assert writer is not None  # a run is not empty
    if rows:
        writer.write_table(pa.concat_tables([*waiting, *small]), _GROUP_ROWS)
    writer.add_key_value_metadata(metadata)
    writer.close()
    data = sink.getvalue()
    leaves = range(file.metadata.num_columns)
    bare = [n for n in leaves if file.schema.column(n).path in with_nan]
    return memoryview(_without_statistics(data, metadata, bare) if bare else data).cast("B")


def _without_statistics(
    data: pa.Buffer, metadata: Mapping[str, str], columns: Collection[int]
) -> pa.Buffer:
    """Return a file in which the columns with these numbers have no statistics.

    pyarrow decides when it begins a file which columns have some, before it has seen the values.
    """
    sink = pa.BufferOutputStream()
    stitcher = Stitcher(sink, unstated=columns)
    stitcher.append(data)
    stitcher.finish(metadata)
    return sink.getvalue()


def fence_names(fences: Mapping[str, Fence]) -> dict[tuple[str, int], str]:
    """Return the name of each fence, by topic and partition."""
    return {(fence.topic, fence.partition): name for name, fence in fences.items()}


@contextmanager
def unreadable(path: str) -> Iterator[None]:
    """Turn what reading a file's footer raises into a LakeError that names it."""
    try:
        yield
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise LakeError(f"{path}: {error!r}") from error


def as_staged(
    path: str,
    nbytes: int,
    footer: pq.FileMetaData,
    names: Mapping[tuple[str, int], str],
    partition: PartitionValues,
) -> StagedFile | None:
    """Return a file of a table as if it had just been staged; None for one of another program.

    That does not say which messages it has. `names` are those of the table's fences.

    Raises:
        KeyError, ValueError, LakeError: as `file_messages`.
    """
    messages = file_messages(path, footer.metadata)
    if messages is None:
        return None
    fence = names.get((messages.topic, messages.partition))
    if not messages.is_verbatim:
        generation = TopicGeneration(messages.cluster, messages.topic_id)
        fence = SourcePartition(generation, messages.topic, messages.partition).fence
    if fence is None:
        return None
    return StagedFile(
        fence=fence,
        topic=messages.topic,
        partition=messages.partition,
        first=messages.first,
        last=messages.last,
        messages=messages.segments,
        rows=footer.num_rows,
        nbytes=nbytes,
        segment="",
        schema=messages.schema,
        digest="",
        path=path,
        table_partition=partition or None,
    )


def merged_stage(run: Sequence[StagedFile], path: str, nbytes: int) -> StagedFile:
    """Return what a file at `path` with the messages of all files of a run is."""
    return replace(
        run[-1],
        first=run[0].first,
        messages=sum(file.messages for file in run),
        rows=sum(file.rows for file in run),
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
        rows=sum(file.rows for file in run),
        segments=sum(file.messages for file in run),
        first=first.first,
        last=run[-1].last,
    )


def _without_pairs(schema: pa.Schema) -> pa.Schema:
    """Return a schema without the key-values of its file, which describe that one."""
    pairs = schema.metadata or {}
    return schema.with_metadata(
        {key: value for key, value in pairs.items() if not key.startswith(b"columnar.")}
    )
