"""The rows of landed files, to be compared with the messages that they came from."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from columnar_kafka.lake.aside.decoding import BLOCK, PLAIN_ID, block_name, with_decimals
from columnar_kafka.plain.restoring import restored
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema
from columnar_kafka.segment.segment import json_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from columnar_kafka.segment.json_layout import JsonLayout
    from columnar_kafka.segment.segment import Segment

__all__ = [
    "DIFFERS",
    "RowIds",
    "SentRun",
    "all_ids",
    "differing",
    "equal",
    "ids_of",
    "in_order",
    "row_ids",
    "same_rows",
    "without_views",
]

_SEGMENT: Final = "_kafka.segment"
_ROW: Final = "_kafka.row"
_IDS: Final = 1 << 16  # rows whose ids are decoded at once
_BUFFER: Final = 1 << 20  # of a column, which is not read whole


class SentRun(NamedTuple):
    """Plain messages of one partition and one block of offsets, decoded: as a segment of them.

    `table` has a row for each of the `offsets`, with the identity that it has under `fence`. Rows
    that differ from these may have the `same_values`.
    """

    partition: int
    fence: str
    offsets: Sequence[int]
    table: pa.Table
    same_values: Callable[[pa.Table, pa.Table], bool]

    @property
    def id(self) -> str:
        """The name of the block."""
        return block_name(self.fence, self.kafka_offset // BLOCK)

    @property
    def kafka_offset(self) -> int:
        """The offset of the first message."""
        return self.offsets[0]

    @property
    def rows(self) -> int:
        """The number of messages."""
        return len(self.offsets)

    def to_table(self) -> pa.Table:
        """Return the rows."""
        return self.table

    def sha256(self) -> str:
        """Return what no file has: a run is never one byte for byte."""
        return ""

    def places(self) -> list[int]:
        """Return what ``_kafka.row`` is for each of the messages."""
        return [offset % BLOCK for offset in self.offsets]

    def same(self, landed: pa.Table) -> Iterator[bool]:
        """Yield for each message whether it is equal to its row, of these that a file has.

        Raises:
            pa.ArrowException: values cannot be compared.
        """
        if _equal(landed, self.table):
            yield from [True] * self.rows
            return
        for n in range(self.rows):
            one, other = landed.slice(n, 1), self.table.slice(n, 1)
            yield _equal(one, other) or self.same_values(one, other)

    def among(self, landed: pa.Table) -> Iterator[bool]:
        """Do as `same` for the rows of the block that files have, in order; each message has one.

        Raises:
            pa.ArrowException: values cannot be compared.
        """
        places = pc.struct_field(landed["_kafka"], "row")
        yield from self.same(landed.filter(pc.is_in(places, pa.array(self.places(), places.type))))

    def take(self, indices: Sequence[int]) -> SentRun:
        """Return some of the messages; at least one."""
        offsets = [self.offsets[index] for index in indices]
        return self._replace(offsets=offsets, table=self.table.take(pa.array(indices, pa.int64())))

    def under(self, fence: str) -> SentRun:
        """Return the same messages as they land under another fence, that of a replay."""
        if fence == self.fence:
            return self
        run = self._replace(fence=fence)
        at = self.table.schema.get_field_index("_kafka")
        kafka = self.table["_kafka"].combine_chunks()
        members = [pa.repeat(run.id, self.rows), *kafka.flatten()[1:]]
        column = pa.StructArray.from_arrays(members, fields=list(kafka.type))
        return run._replace(table=self.table.set_column(at, self.table.field(at), column))


class RowIds(NamedTuple):
    """How many rows a file has of each segment, and which of each block of plain messages."""

    segments: dict[str, int]
    plain: dict[str, array[int]]

    @property
    def plain_rows(self) -> int:
        """The number of rows of plain messages."""
        return sum(map(len, self.plain.values()))


DIFFERS: Final = "the values differ from the message's"


def equal(landed: pa.Table, sent: pa.Table, *, may_lack: bool = False) -> bool:
    """Return whether a message's columns have these values in a file.

    A file may have wider types, and columns that the message lacks. With `may_lack` it may be from
    before the schema grew: a column that it lacks counts as null. Floats that are no numbers are
    equal.

    Raises:
        pa.ArrowException: values cannot be compared.
    """
    if landed.num_rows != sent.num_rows:
        return False
    for name in sent.column_names:
        other = sent[name]
        if name not in landed.column_names:
            if may_lack and other.null_count == len(other):
                continue
            return False
        one = landed[name]
        if one.type != other.type:
            if any(_loses(chunk, one.type) for chunk in other.chunks):
                return False
            other = other.cast(one.type)
        if not one.equals(other) and repr(one.to_pylist()) != repr(other.to_pylist()):
            return False
    return True


def same_rows(landed: pa.Table, segment: Segment) -> bool:
    """Return whether a segment's records have these values in a file.

    If its columns are a guess, a file may have what does not fit the table's in the rest.

    Raises:
        pa.ArrowException, SegmentError: values cannot be decoded or compared.
    """
    sent, layout = segment.to_table(), json_layout(segment)
    if layout is None or not layout.inferred or layout.rest is None:
        return equal(landed, sent)
    if _equal(landed, sent):
        return True
    own = [name for name in (KAFKA_COLUMN,) if name in sent.column_names]
    return equal(landed.select(own), sent.select(own)) and (
        _objects(landed, layout) == _objects(sent, layout)
    )


def _objects(rows: pa.Table, layout: JsonLayout) -> list[Any]:
    """Return the objects of which rows were made, without nulls."""
    schema = RecordSchema(
        rows.schema, json_texts=frozenset(layout.texts), uuids=frozenset(layout.uuids)
    )
    rest = layout.rest or ""
    return [with_decimals(restored(row, schema, rest_column=rest)) for row in rows.to_pylist()]


def _equal(landed: pa.Table, sent: pa.Table) -> bool:
    """Return whether plain messages have these values; a file may be from before a column grew."""
    try:
        return equal(landed, sent, may_lack=True)
    except pa.ArrowException:  # a narrower column has no such value: the rest may have it
        return False


def _loses(values: pa.Array, to: pa.DataType) -> bool:
    """Return whether a cast leaves out a record's member that is not null somewhere."""
    if pa.types.is_list(values.type) and pa.types.is_list(to):
        return _loses(values.flatten(), to.value_type)
    if not (pa.types.is_struct(values.type) and pa.types.is_struct(to)):
        return False
    for field, member in zip(values.type, values.flatten(), strict=True):
        at = to.get_field_index(field.name)
        if member.null_count < len(member) and (at < 0 or _loses(member, to.field(at).type)):
            return True
    return False


def differing(
    data: bytes, sent: Iterable[Segment | SentRun], skip: int, *, plain: bool = True
) -> Segment | SentRun | None:
    """Return the first of a file's segments that is not equal; None if all are.

    `data` is a stitched file, in which the segments begin after `skip` rows, in this order. Without
    `plain` its rows of plain messages are passed over. For a run, only the first differing message
    is returned.

    Raises:
        pa.ArrowException, SegmentError: one of both cannot be decoded.
    """
    rows = _Rows(data, plain=plain)
    rows.take(skip)
    for segment in sent:
        landed = rows.take(segment.rows)
        if not isinstance(segment, SentRun):
            if not same_rows(landed, segment):
                return segment
            continue
        wrong = (n for n, same in enumerate(segment.same(landed)) if not same)
        if (first := next(wrong, None)) is not None:
            return segment.take([first])
    return None


def row_ids(source: Any) -> list[RowIds] | None:
    """Return the ids of a file's rows, for each row group; None if it has none.

    `source` is what pyarrow can read any part of the file from.

    Raises:
        pa.ArrowException, OSError: it cannot be decoded.
    """
    with pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False) as file:
        paths = {file.schema.column(number).path for number in range(len(file.schema))}
        if not {_SEGMENT, _ROW} <= paths:
            return None
        return [_group_ids(file, number) for number in range(file.num_row_groups)]


def _group_ids(file: pq.ParquetFile, number: int) -> RowIds:
    segments: Counter[str] = Counter()
    plain: dict[str, array[int]] = defaultdict(lambda: array("i"))
    for batch in file.iter_batches(_IDS, row_groups=[number], columns=[_SEGMENT, _ROW]):
        table = pa.Table.from_batches([batch])
        counts = pc.value_counts(ids_of(table))
        segments.update(dict(zip(*(counts.field(n).to_pylist() for n in range(2)), strict=True)))
        if any(map(_is_plain, segments)):
            of_plain = table.filter(_are_plain(table))
            places = pc.struct_field(of_plain["_kafka"], "row").to_pylist()
            for name, row in zip(ids_of(of_plain).to_pylist(), places, strict=True):
                plain[name].append(row)
    return RowIds({name: n for name, n in segments.items() if name not in plain}, dict(plain))


def all_ids(groups: Iterable[RowIds]) -> RowIds:
    """Return the ids of several row groups as those of one."""
    segments: Counter[str] = Counter()
    plain: dict[str, array[int]] = defaultdict(lambda: array("i"))
    for group in groups:
        segments.update(group.segments)
        for name, places in group.plain.items():
            plain[name] += places
    return RowIds(dict(segments), dict(plain))


def _is_plain(name: str | None) -> bool:
    return name is not None and name.startswith(PLAIN_ID)


def _are_plain(table: pa.Table) -> pa.Array:
    return pc.starts_with(ids_of(table), PLAIN_ID).fill_null(fill_value=False)


class _Rows:
    """The rows of a file from the first to the last, decoded one row group at a time."""

    def __init__(self, data: bytes, *, plain: bool) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(data))
        self._plain = plain
        self._group = 0
        self._rest = self._file.schema_arrow.empty_table()

    def take(self, count: int) -> pa.Table:
        """Return the next `count` rows; fewer if there are no more."""
        while self._rest.num_rows < count and self._group < self._file.num_row_groups:
            group = self._file.read_row_group(self._group)
            if not self._plain:
                group = group.filter(pc.invert(_are_plain(group)))
            self._rest = pa.concat_tables([self._rest, group])
            self._group += 1
        taken, self._rest = self._rest.slice(0, count), self._rest.slice(count)
        return taken


def ids_of(table: pa.Table) -> pa.Array:
    """Return the name of each row's segment, or block."""
    ids = pc.struct_field(table["_kafka"], "segment").cast(pa.string())
    return pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], pa.string())


def in_order(table: pa.Table) -> pa.Table:
    """Return the rows by segment, and each segment's in order."""
    keys = pa.table({"segment": ids_of(table), "row": pc.struct_field(table["_kafka"], "row")})
    order = pc.sort_indices(keys, [("segment", "ascending"), ("row", "ascending")])
    return table.take(order).combine_chunks()


def without_views(arrow: pa.DataType) -> pa.DataType:
    """Return a type as Arrow can sort it; Delta's library writes views of strings."""
    if arrow == pa.string_view():
        return pa.string()
    if arrow == pa.binary_view():
        return pa.binary()
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(without_views(field.type)) for field in arrow])
    if pa.types.is_map(arrow):
        item = arrow.item_field.with_type(without_views(arrow.item_type))
        return pa.map_(without_views(arrow.key_type), item)
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(without_views(arrow.value_type)))
    return arrow
