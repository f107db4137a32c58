"""Files with bounds that hide rows: which ones, and the commit that puts them right.

Tables that earlier releases have written may have some, and so may files that another program has
written. A file is looked at by its footer, and by its floating-point columns, if it states bounds
of some: Arrow leaves NaN out of these, which most engines take for the greatest number.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import StagedFile, WrongFile
from columnar_kafka.lake.stitching.row_groups import StitchError
from columnar_kafka.lake.stitching.stitch import Stitcher
from columnar_kafka.lake.tables.merging import as_staged, fence_names, merge_runs, merged_metadata
from columnar_kafka.segment.encoder import columns_with_nan
from columnar_kafka.segment.parquet.metadata import ARROW_SCHEMA, has_encrypted_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from columnar_kafka.lake.model import Fence, FileWriter, PartitionValues
    from columnar_kafka.lake.tables.base import Head, LakeTable
    from columnar_kafka.lake.tables.merging import Run

__all__ = [
    "Footer",
    "RepairResult",
    "as_wrong",
    "read_footer",
    "repair",
    "stage_copy",
    "with_nan",
    "wrong_files",
]

_TAIL: Final = 8
_FLOATS: Final = ("FLOAT", "DOUBLE")
_ROWS: Final = 1 << 16
_BUFFER: Final = 1 << 20  # of a column, which is not read whole


class Footer(NamedTuple):
    """The footer of a landed file.

    `nan` are the leaf columns, by number, of which it states bounds although there is a NaN. Where
    it `is_encrypted`, pyarrow crashes at statistics.
    """

    metadata: pq.FileMetaData
    nan: frozenset[int]
    is_encrypted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """How many files a table has; how many of them hid rows, and no longer do, or still may.

    `reasons` say of each that is left which it is, and why.
    """

    files: int
    repaired: int
    left: int
    reasons: tuple[str, ...] = field(default=(), compare=False)


def repair(table: LakeTable) -> RepairResult:
    """Put the bounds of a table's files right, in one commit; no row, schema and fence changes.

    Blocks while it reads them. Others may land and read meanwhile. A file that cannot be read or
    copied is left.

    Raises:
        LakeError, OSError: there is no table, it is a directory, which states no bounds, or a file
            cannot be written.
        NotLandedError, MayHaveLandedError: as `commit`.
    """
    if table.is_listed:
        raise LakeError(f"{table}: a directory states nothing of its files that can be repaired")
    head = table.head()
    if not head.exists:
        raise LakeError(f"{table}: there is no table")
    left: dict[str, str] = {}
    wrong: dict[str, WrongFile] = {}
    for path, check in table.checks(head):
        try:
            wrong_file = check()
        except LakeError as error:
            left[path] = f"{error}"
            continue
        if wrong_file is not None and wrong_file.can_be_mended:
            wrong[path] = wrong_file
        elif wrong_file is not None:
            left[path] = f"{path}: filters on {', '.join(wrong_file.columns)} may miss rows"

    def mended(run: Run) -> StagedFile | None:
        path = run[0][0]
        try:
            return table.mended(head, wrong[path])
        except LakeError as error:
            left[path] = f"{error}"
            return None

    runs = ([(path, wrong_file.file)] for path, wrong_file in wrong.items())
    merge_runs(table, runs, mended)
    repaired = len(wrong.keys() - left)
    reasons = tuple(left.values())
    files = len(table.paths(head))
    return RepairResult(files=files, repaired=repaired, left=len(left), reasons=reasons)


def wrong_files(table: LakeTable, head: Head[Any]) -> Iterator[WrongFile]:
    """Yield the files that hide rows, but those that cannot be read; of a directory none.

    Raises:
        LakeError: not all rows of a file are the table's.
    """
    for _, check in table.checks(head):
        with suppress(LakeError):
            if (wrong := check()) is not None:
                yield wrong


def read_footer(source: Any) -> Footer:
    """Read the footer of a landed file; `source` is what `LandedFile.footer` returns.

    Raises:
        OSError, pa.ArrowException: the file cannot be read.
    """
    tail = _tail(source)
    metadata = pq.read_metadata(pa.BufferReader(tail))
    return Footer(metadata, frozenset(), has_encrypted_columns(tail[:-_TAIL]))


def with_nan(footer: Footer, opened: Callable[[], Any]) -> Footer:
    """Return a file's footer with the columns that hide a NaN; blocks to read those that may.

    `opened` returns what pyarrow can read any part of the file from.

    Raises:
        OSError, pa.ArrowException: the file cannot be read.
    """
    if footer.is_encrypted:
        return footer
    return footer._replace(nan=frozenset(_hidden(footer.metadata, opened)))


def _hidden(metadata: pq.FileMetaData, opened: Callable[[], Any]) -> Iterator[int]:
    """Yield the numbers of the columns that have a NaN in a row group that states bounds of them.

    A file is opened only if there may be some, and not held: another program may have written it.
    """
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    floats = [number for number, leaf in enumerate(leaves) if leaf.physical_type in _FLOATS]
    file: pq.ParquetFile | None = None
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = {leaf: group.column(leaf).statistics for leaf in floats}
        bounded = {
            leaves[leaf].path: leaf
            for leaf, statistic in statistics.items()
            if statistic is not None and statistic.has_min_max
        }
        if bounded:
            file = file or pq.ParquetFile(opened(), buffer_size=_BUFFER, pre_buffer=False)
            for batch in file.iter_batches(_ROWS, row_groups=[number], columns=list(bounded)):
                yield from (bounded[path] for path in columns_with_nan(batch) if path in bounded)


def _tail(source: Any) -> bytes:
    """Return the footer of a file, its length and the magic."""
    with closing(source.open("rb") if isinstance(source, Path) else source) as file:
        file.seek(-_TAIL, 2)
        length = int.from_bytes(file.read(_TAIL)[:4], "little") + _TAIL
        file.seek(-length, 2)
        return bytes(file.read(length))


def as_wrong(
    path: str,
    nbytes: int,
    footer: Footer,
    columns: Iterable[str],
    fences: Mapping[str, Fence],
    partition: PartitionValues,
) -> WrongFile | None:
    """Return a file that hides rows, whoever has written it: in these `columns`, or behind a NaN.

    None if there are no such columns.

    Raises:
        KeyError, ValueError, LakeError: as `file_messages`.
    """
    metadata = footer.metadata
    names = {*columns, *(metadata.schema.column(number).path for number in footer.nan)}
    if not names:
        return None
    file = as_staged(path, nbytes, metadata, fence_names(fences), partition)
    if file is None:
        file = StagedFile(
            fence="",
            topic="",
            partition=0,
            first=0,
            last=0,
            messages=0,
            rows=metadata.num_rows,
            nbytes=nbytes,
            segment="",
            schema="",
            digest="",
            path=path,
            table_partition=partition or None,
        )
    file = replace(file, is_encrypted=footer.is_encrypted)
    return WrongFile(file, tuple(sorted(names)), footer.nan)


def stage_copy(wrong: WrongFile, data: bytes, writer: FileWriter) -> StagedFile:
    """Write a file's pages anew, undecoded, without the statistics that leave out a NaN.

    Makes the new file durable. A verbatim file becomes a stitched one.

    Raises:
        LakeError, OSError: it cannot be copied. Then, as after any exception, none is left.
    """
    try:
        if wrong.file.fence:
            metadata = merged_metadata([wrong.file])
        else:
            pairs = pq.read_metadata(pa.BufferReader(data)).metadata or {}
            metadata = {
                key.decode(): value.decode() for key, value in pairs.items() if key != ARROW_SCHEMA
            }
        stitcher = Stitcher(writer, unstated=wrong.nan)
        stitcher.append(data)
        stitcher.finish(metadata)
        return replace(wrong.file, path=writer.path, nbytes=writer.finish())
    except BaseException as error:
        writer.discard()
        if isinstance(error, UnicodeDecodeError | pa.ArrowException | StitchError):
            raise LakeError(f"{wrong.file.path}: {error}") from error
        raise
