"""The rows of landed files, to be compared with the messages that they came from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from columnar_kafka.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from columnar_kafka.lake.model import LandedFile
    from columnar_kafka.segment.segment import Segment

__all__ = ["RowsById", "differing", "equal", "rows_by_segment"]

_SEGMENT: Final = "_kafka.segment"
_ROW: Final = "_kafka.row"


def equal(found: pa.Table, sent: pa.Table) -> bool:
    """Return whether a message's columns have these values in a file.

    A file may have wider types, and columns that the message lacks. Floats that are no numbers are
    equal.

    Raises:
        pa.ArrowException: values cannot be compared.
    """
    if found.num_rows != sent.num_rows or not set(sent.column_names) <= set(found.column_names):
        return False
    for name in sent.column_names:
        one, other = found[name], sent[name]
        if one.type != other.type:
            other = other.cast(one.type)
        if not one.equals(other) and repr(one.to_pylist()) != repr(other.to_pylist()):
            return False
    return True


def differing(data: bytes, segments: Iterable[Segment], skip: int) -> Segment | None:
    """Return the first of a file's segments that is not equal; None if all are.

    `data` is a stitched file, in which the segments begin after `skip` rows, in this order.

    Raises:
        pa.ArrowException, SegmentError: one of both cannot be decoded.
    """
    rows = _Rows(data)
    rows.take(skip)
    for segment in segments:
        if not equal(rows.take(segment.rows), segment.to_table()):
            return segment
    return None


def rows_by_segment(data: bytes) -> dict[str, int] | None:
    """Return how many rows of a file are of which segment; None if its rows have no ids.

    Raises:
        pa.ArrowException: it cannot be decoded.
    """
    file = pq.ParquetFile(pa.BufferReader(data))
    paths = {file.schema.column(number).path for number in range(len(file.schema))}
    if not {_SEGMENT, _ROW} <= paths:
        return None
    counts = pc.value_counts(_ids(file.read(columns=[_SEGMENT])))
    return dict(zip(*(counts.field(n).to_pylist() for n in range(2)), strict=True))


class _Rows:
    """The rows of a file from the first to the last, decoded one row group at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(data))
        self._group = 0
        self._rest = self._file.schema_arrow.empty_table()

    def take(self, count: int) -> pa.Table:
        """Return the next `count` rows; fewer if there are no more."""
        while self._rest.num_rows < count and self._group < self._file.num_row_groups:
            group = self._file.read_row_group(self._group)
            self._rest = pa.concat_tables([self._rest, group])
            self._group += 1
        taken, self._rest = self._rest.slice(0, count), self._rest.slice(count)
        return taken


class RowsById:
    """Rows of files whose messages only the column `_kafka` names. Keeps one file in memory."""

    def __init__(self) -> None:
        self._files: dict[str, list[LandedFile]] = defaultdict(list)
        self._asked: set[str] = set()
        self._loaded: tuple[str, pa.Table, dict[str, tuple[int, int]]] | None = None

    def add(self, file: LandedFile) -> None:
        """Take a file.

        Raises:
            LakeError: it does not say which message a row came from.
        """
        counts = rows_by_segment(file.read())
        if counts is None:
            raise LakeError(
                "another program wrote it, and its rows have no ids "
                f"({_SEGMENT}, {_ROW}): the producers' columnar.metadata did not include id"
            )
        for name in counts:
            self._files[name].append(file)

    def has(self, segment: str) -> bool:
        """Return whether rows of a segment are in here, and take note that they were asked for."""
        self._asked.add(segment)
        return segment in self._files

    def compare(self, segment: Segment) -> str:
        """Return what is wrong with a segment that is in here; nothing if it is equal.

        Raises:
            pa.ArrowException, SegmentError: it cannot be decoded.
        """
        found = pa.concat_tables(
            [self._rows(file, segment.id) for file in self._files[segment.id]],
            promote_options="permissive",  # the columns may be in another order
        )
        if found.num_rows != segment.rows:
            return f"{found.num_rows} rows, but the message has {segment.rows}"
        if len(self._files[segment.id]) > 1:
            found = _sorted(found)
        return "" if equal(found, segment.to_table()) else "the values differ from the message's"

    def left(self) -> Iterator[tuple[str, str]]:
        """Yield the segments that nobody has asked for, with a file of each."""
        for name in sorted(self._files.keys() - self._asked):
            yield name, self._files[name][0].path

    def _rows(self, file: LandedFile, segment: str) -> pa.Table:
        if self._loaded is None or self._loaded[0] != file.path:
            self._loaded = None
            read = pq.read_table(pa.BufferReader(file.read()))
            schema = pa.schema([each.with_type(_without_views(each.type)) for each in read.schema])
            table = _sorted(read.cast(schema))
            for name, value in file.partition.items():
                if name not in table.column_names:
                    table = table.append_column(name, pa.repeat(value, table.num_rows))
            runs = pc.run_end_encode(_ids(table))
            ends, start, places = runs.run_ends.to_pylist(), 0, {}
            for name, end in zip(runs.values.to_pylist(), ends, strict=True):
                places[name] = (start, end - start)
                start = end
            self._loaded = (file.path, table, places)
        _, table, places = self._loaded
        return table.slice(*places[segment])


def _ids(table: pa.Table) -> pa.Array:
    ids = pc.struct_field(table["_kafka"], "segment").cast(pa.string())
    return pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], pa.string())


def _sorted(table: pa.Table) -> pa.Table:
    """Return the rows by segment, and each segment's in order."""
    keys = pa.table({"segment": _ids(table), "row": pc.struct_field(table["_kafka"], "row")})
    order = pc.sort_indices(keys, [("segment", "ascending"), ("row", "ascending")])
    return table.take(order).combine_chunks()


def _without_views(arrow: pa.DataType) -> pa.DataType:
    """Return a type as Arrow can sort it; Delta's library writes views of strings."""
    if arrow == pa.string_view():
        return pa.string()
    if arrow == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(arrow):
        return pa.struct([each.with_type(_without_views(each.type)) for each in arrow])
    if pa.types.is_map(arrow):
        item = arrow.item_field.with_type(_without_views(arrow.item_type))
        return pa.map_(_without_views(arrow.key_type), item)
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_without_views(arrow.value_type)))
    return arrow
