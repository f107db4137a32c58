"""Segments from a malicious producer: Parquet files that were parsed, changed and written again.

As a program it consumes a hostile topic and prints its results and its peak memory as JSON:
`hostile.py FLIPS MUTATIONS`.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import random
import sys
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import hostile_arrow
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import TopicPartition
from segments import headers_of

from columnar_kafka.columns import kafka_column
from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader
from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.thrift import (
    BINARY,
    FALSE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Cursor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from columnar_kafka.segment.decoder import Decoder

MIB = 1 << 20

# --- Thrift as trees ------------------------------------------------------------------------------

Struct = list[list[Any]]
"""A list of fields: id, type and value. A list's value is the type of its elements, and they."""


def parse(cursor: Cursor) -> Struct:
    return [[fid, kind, _value(cursor, kind)] for fid, kind in cursor.fields({})]


def _value(cursor: Cursor, kind: int) -> Any:
    if kind in (TRUE, FALSE):
        return None
    if kind in (I16, I32, I64):
        return cursor.integer()
    if kind == I8:
        cursor.pos += 1
        return cursor.buf[cursor.pos - 1]
    if kind == BINARY:
        return cursor.binary()
    if kind == STRUCT:
        return parse(cursor)
    assert kind == LIST, kind
    element, count = cursor.list_head()
    return [element, [_value(cursor, element) for _ in range(count)]]


def emit(struct: Struct) -> bytes:
    out, last = bytearray(), 0
    for fid, kind, value in struct:
        if 0 < fid - last < 16:
            out.append(fid - last << 4 | kind)
        else:
            out.append(kind)
            out += thrift.encode_integer(fid)
        out += _encoded(kind, value)
        last = fid
    return bytes(out + thrift.STOP)


def _encoded(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind in (I16, I32, I64):
        return thrift.encode_integer(value)
    if kind == I8:
        return bytes([value])
    if kind == BINARY:
        return thrift.encode_binary(value)
    if kind == STRUCT:
        return emit(value)
    element, values = value
    return thrift.encode_list(element, [_encoded(element, item) for item in values])


def field(struct: Struct, *path: int) -> list[Any]:
    """The field at a path of field ids; in a list, a step is an index."""
    current = next(entry for entry in struct if entry[0] == path[0])
    for step in path[1:]:
        inner = current[2]
        if current[1] == LIST:
            current = [step, inner[0], inner[1][step]]
        else:
            current = next(entry for entry in inner if entry[0] == step)
    return current


# --- files as pages -------------------------------------------------------------------------------


@dataclass
class Page:
    """A page header and the bytes of its page."""

    header: Struct
    body: bytes

    def put(self, value: int, *path: int) -> Page:
        """Change a number in the header."""
        field(self.header, *path)[2] = value
        return self

    def fill(self, body: bytes, size: int | None = None) -> Page:
        """Replace the body, which has `size` bytes uncompressed; sizes and checksum are right."""
        self.body = body
        checksum = zlib.crc32(body)
        self.put(len(body) if size is None else size, 2).put(len(body), 3)
        return self.put(checksum - (checksum >> 31 << 32), 4)

    def bytes(self) -> bytes:
        return emit(self.header) + self.body


@dataclass
class File:
    """A Parquet file: the pages of each column chunk of each row group, and the footer."""

    chunks: list[list[list[Page]]]
    footer: Struct

    @classmethod
    def load(cls, data: bytes) -> File:
        end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        footer = parse(Cursor(data[end:-8]))
        groups = field(footer, 4)[2][1]
        return cls([[_pages(data, meta) for meta in _metas(group)] for group in groups], footer)

    def meta(self, column: int, group: int = 0) -> Struct:
        """The footer's metadata of a column chunk."""
        return _metas(field(self.footer, 4)[2][1][group])[column]

    def correct(self) -> File:
        """Correct the footer's offsets and sizes of pages."""
        position = 4
        for number, group in enumerate(self.chunks):
            start = position
            for column, pages in enumerate(group):
                meta = self.meta(column, number)
                sizes = [len(page.bytes()) for page in pages]
                first = position
                if any(entry[0] == 11 for entry in meta):
                    field(meta, 11)[2] = position
                    first += sizes[0]
                field(meta, 9)[2] = first
                field(meta, 7)[2] = sum(sizes)
                position += sum(sizes)
            for entry in field(self.footer, 4, number)[2]:
                if entry[0] in (5, 6):
                    entry[2] = start if entry[0] == 5 else position - start
        return self

    def bytes(self) -> bytes:
        pages = [page.bytes() for group in self.chunks for chunk in group for page in chunk]
        footer = emit(self.footer)
        return b"PAR1" + b"".join(pages) + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _metas(group: Struct) -> list[Struct]:
    return [field(chunk, 3)[2] for chunk in field(group, 1)[2][1]]


def _pages(data: bytes, meta: Struct) -> list[Page]:
    start = min(entry[2] for entry in meta if entry[0] in (9, 11))
    cursor, end, pages = Cursor(data, start), start + field(meta, 7)[2], []
    while cursor.pos < end:
        header = parse(cursor)
        size = field(header, 3)[2]
        pages.append(Page(header, data[cursor.pos : cursor.pos + size]))
        cursor.pos += size
    return pages


# --- segments -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """A segment to be sent; `crc32` replaces the right checksum of `value`."""

    header: SegmentHeader
    value: bytes
    crc32: int | None = None

    def headers(self) -> list[tuple[str, bytes | None]]:
        headers = headers_of(self.header, self.value)
        if self.crc32 is not None:
            headers[-1] = (headers[-1][0], str(self.crc32).encode())
        return headers


def sent(
    table: pa.Table, *, schema: pa.Schema | None = None, group: int | None = None, **options: Any
) -> Sent:
    """A segment with these columns, as another producer may write it.

    `schema` is the one that a reader gets, if it differs; `group` is the rows in a row group.
    """
    header = SegmentHeader(
        rows=table.num_rows,
        segment="p-0",
        schema=fingerprint(schema or table.schema),
        timestamp_min=0,
        timestamp_max=9,
    )
    out = io.BytesIO()
    options = {"store_schema": schema is None, "compression": "zstd"} | options
    with pq.ParquetWriter(out, table.schema, write_page_checksum=True, **options) as writer:
        writer.write_table(table, group)
        writer.add_key_value_metadata(header.footer())
    return Sent(header, out.getvalue())


def changed(original: Sent, change: Callable[[File], object]) -> Sent:
    """A segment after a change of its file, with a footer that is right about its pages."""
    file = File.load(original.value)
    change(file)
    return replace(original, value=file.correct().bytes())


def ordinary(compression: str, rows: int = 40) -> Sent:
    """A segment of our own producer with a column of every family of types."""
    table = pa.table(
        {
            "i": pa.array(range(rows), pa.int64()),
            "s": ["UA", None, "AA", "UA"] * (rows // 4),
            "at": pa.array(range(rows), pa.timestamp("us")),
            "f": [index / 8 for index in range(rows)],
            "l": pa.array([[1, None], None, [], [2]] * (rows // 4), pa.list_(pa.int32())),
            "id": [f"id-{index:05}" for index in range(rows)],
            "b": [True, None] * (rows // 2),
        }
    )
    batch = kafka_column.KafkaColumn(("id", "key", "timestamp", "headers")).append_to(
        table.combine_chunks().to_batches()[0],
        segment="p-0",
        timestamps=kafka_column.timestamp_array(range(rows)),
        keys=kafka_column.key_array([b"key-%d" % index for index in range(rows)]),
        headers=kafka_column.header_array([[("h", b"x")]] * rows),
    )
    header = SegmentHeader(
        rows=rows,
        segment="p-0",
        schema=fingerprint(batch.schema),
        timestamp_min=0,
        timestamp_max=rows - 1,
    )
    encoded = ParquetEncoder(compression).encode(batch, header.footer())
    return Sent(header, encoded.to_pybytes())


# --- bombs ----------------------------------------------------------------------------------------


def packed(values: Sequence[int]) -> bytes:
    """Integers as DELTA_BINARY_PACKED."""
    out = [*map(_varint, (128, 4, len(values))), thrift.encode_integer(values[0])]
    steps = [after - before for before, after in itertools.pairwise(values)]
    for start in range(0, len(steps), 128):
        block = steps[start : start + 128]
        least = min(block)
        parts = [[step - least for step in block[at : at + 32]] for at in range(0, 128, 32)]
        widths = [max(part, default=0).bit_length() for part in parts]
        out += [thrift.encode_integer(least), bytes(widths)]
        for part, width in zip(parts, widths, strict=True):
            if part:
                bits = sum(step << width * at for at, step in enumerate(part))
                out.append(bits.to_bytes(4 * width, "little"))
    return b"".join(out)


def zeros(count: int) -> bytes:
    """`count` zeros as DELTA_BINARY_PACKED, in one block: a dozen bytes."""
    block = -(-count // 128) * 128
    return b"".join([*map(_varint, (block, 1, count)), bytes(3)])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _levels(*runs: tuple[int, int]) -> bytes:
    """Runs (count, level) as RLE levels, after their length."""
    body = b"".join(_varint(count << 1) + bytes([level]) for count, level in runs)
    return len(body).to_bytes(4, "little") + body


def dictionary(rows: int = 1_000_000) -> Sent:
    """2 KB: a million rows that all have the same value of 1 MiB."""
    indices = pa.repeat(pa.scalar(0, pa.int32()), rows)
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * MIB]))
    return sent(pa.table({"s": column}), schema=pa.schema({"s": pa.string()}))


def nested_dictionary(rows: int = 1_000_000) -> Sent:
    """The same million values in a list, in one row."""
    indices = pa.repeat(pa.scalar(0, pa.int32()), rows)
    values = pa.DictionaryArray.from_arrays(indices, pa.array([b"x" * MIB]))
    column = pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), values)
    return sent(pa.table({"l": column}), schema=pa.schema({"l": pa.list_(pa.binary())}))


def elements(count: int = 200_000_000) -> Sent:
    """504 bytes: one row, a list of 200,000,000 zeros."""
    kind = pa.list_(pa.field("element", pa.int32(), nullable=False))
    schema = pa.schema([pa.field("l", kind, nullable=False)])
    encoding = {"l.list.element": "DELTA_BINARY_PACKED"}
    one = sent(
        pa.table([pa.array([[0]], kind)], schema),
        compression="none",
        use_dictionary=False,
        column_encoding=encoding,
    )
    body = _levels((1, 0), (count - 1, 1)) + _levels((count, 1)) + zeros(count)

    def change(file: File) -> None:
        file.chunks[0][0][0].put(count, 5, 1).fill(body)
        field(file.meta(0), 5)[2] = count

    return changed(one, change)


def page_of_a_gib() -> Sent:
    """A page of a GiB of zeros, which the footer does not mention."""
    return _page_of_a_gib("PLAIN")


def lengths_of_a_gib() -> Sent:
    """The same, in an encoding whose lengths have to be read."""
    return _page_of_a_gib("DELTA_LENGTH_BYTE_ARRAY")


def _page_of_a_gib(encoding: str) -> Sent:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(1024):
            stream.write(bytes(MIB))
    body = sink.getvalue().to_pybytes()
    table = pa.table({"s": [b"x"] * 3})
    plain = sent(table, use_dictionary=False, column_encoding={"s": encoding})
    return changed(plain, lambda file: file.chunks[0][0][0].fill(body, 1 << 30))


def _delta(encoding: str, rows: int, body: bytes) -> Sent:
    """A required binary column of `rows` rows, with `body` as its page."""
    schema = pa.schema([pa.field("s", pa.binary(), nullable=False)])
    table = pa.table([pa.array([b"x"] * rows)], schema)
    plain = sent(table, use_dictionary=False, column_encoding={"s": encoding})
    zipped = pa.compress(body, "zstd", asbytes=True)
    return changed(plain, lambda file: file.chunks[0][0][0].fill(zipped, len(body)))


def prefixes(rows: int = 4096) -> Sent:
    """4,096 values that share a prefix of 1 MiB: 4 GiB."""
    lengths = packed([0] + [MIB] * (rows - 1)) + packed([MIB] + [0] * (rows - 1))
    return _delta("DELTA_BYTE_ARRAY", rows, lengths + b"x" * MIB)


def hidden_prefixes() -> Sent:
    """The same, with a negative length that makes their sum look right."""
    lengths = packed([0] + [MIB] * 2000 + [-MIB * 2000]) + packed([MIB] + [0] * 2001)
    return _delta("DELTA_BYTE_ARRAY", 2002, lengths + b"x" * MIB)


def lengths() -> Sent:
    """A page of three values with 2,000,000,000 lengths: 8 GB."""
    return _delta("DELTA_LENGTH_BYTE_ARRAY", 3, zeros(2_000_000_000))


def suffixes() -> Sent:
    """A page of three values with three prefixes and 2,000,000,000 suffixes."""
    return _delta("DELTA_BYTE_ARRAY", 3, packed([0, 0, 0]) + zeros(2_000_000_000))


def null_lists(rows: int = 1000) -> Sent:
    """A thousand null lists of a million elements each."""
    fixed = pa.schema({"l": pa.list_(pa.int32(), 1_000_000)})
    one = sent(pa.table([pa.nulls(1, fixed.types[0])], fixed))
    pairs = field(File.load(one.value).footer, 5)[2][1]
    arrow = next(pair for pair in pairs if field(pair, 1)[2] == b"ARROW:schema")
    of_any_size = sent(pa.table({"l": pa.nulls(rows, pa.list_(pa.int32()))}), schema=fixed)
    return changed(of_any_size, lambda file: field(file.footer, 5)[2][1].append(arrow))


def null_bytes() -> Sent:
    """A million nulls of 1 GiB each."""
    wide = pa.schema({"b": pa.binary(1 << 30)})
    plain = sent(pa.table({"b": pa.nulls(1_000_000, pa.binary(1))}), schema=wide)

    def change(file: File) -> None:
        field(file.footer, 2, 1, 2)[2] = 1 << 30

    return changed(plain, change)


def many_entries() -> Sent:
    """A dictionary that claims two billion entries."""
    plain = sent(pa.table({"s": ["x", "x", "y"]}))
    return changed(plain, lambda file: file.chunks[0][0][0].put((1 << 31) - 1, 7, 1))


def many_chunks() -> Sent:
    """A footer with a million column chunks that do not exist in one row group: 680 MB."""
    plain = sent(pa.table({"n": [1, 2, 3]}))
    footer = File.load(plain.value).footer
    group = field(footer, 4, 0)
    at = footer.index(field(footer, 4))
    head = emit(footer[:at])[:-1] + b"\x19\x1c\x19\xfc" + _varint(1_000_000)
    assert group[1] == STRUCT
    footer_bytes = head + bytes(10)
    size = len(footer_bytes).to_bytes(4, "little")
    return replace(plain, value=b"PAR1" + footer_bytes + size + b"PAR1")


def deep() -> Sent:
    """A schema of 50,000 nested structs."""
    plain = sent(pa.table({"n": [1, 2, 3]}))

    def change(file: File) -> None:
        elements = field(file.footer, 2)[2][1]
        elements[1:1] = [[[3, I32, 1], [4, BINARY, b"n"], [5, I32, 1]]] * 50_000

    return changed(plain, change)


def no_codec() -> Sent:
    """A compression codec that does not exist, at which pyarrow aborts the process."""
    plain = sent(pa.table({"n": [1, 2, 3]}))

    def change(file: File) -> None:
        field(file.meta(0), 4)[2] = 99

    return changed(plain, change)


def shared_name() -> Sent:
    """A footer of 1 MB with a schema of 90,000 fields that share one name: 34 GB."""
    schema = base64.b64encode(hostile_arrow.shared_name(380_000, 90_000))

    def change(file: File) -> None:
        for pair in field(file.footer, 5)[2][1]:
            if field(pair, 1)[2] == b"ARROW:schema":
                field(pair, 2)[2] = schema

    return changed(sent(pa.table({"s": ["x", "y"]})), change)


def unusual_name() -> Sent:
    """The same, with the metadata's key after its value."""
    plain = shared_name()
    key = b"\x18\x0cARROW:schema\x18"
    at = plain.value.index(key)
    cursor = Cursor(plain.value, at + len(key))
    value = b"\x28" + thrift.encode_binary(cursor.binary()) + b"\x08\x02\x0cARROW:schema"
    data = plain.value[:at] + value + plain.value[cursor.pos : -8]
    size = int.from_bytes(plain.value[-8:-4], "little") + len(data) + 8 - len(plain.value)
    return replace(plain, value=data + size.to_bytes(4, "little") + b"PAR1")


BOMBS = {
    bomb.__name__: bomb
    for bomb in (
        dictionary,
        nested_dictionary,
        elements,
        page_of_a_gib,
        lengths_of_a_gib,
        prefixes,
        hidden_prefixes,
        lengths,
        suffixes,
        null_lists,
        null_bytes,
        many_entries,
        many_chunks,
        deep,
        no_codec,
        shared_name,
        unusual_name,
    )
}
"""Segments that exhaust memory or abort the process when they are decoded without checks."""


# --- damage ---------------------------------------------------------------------------------------


def flips(original: Sent, count: int, rng: random.Random, *, honest: bool) -> Iterator[Sent]:
    """Segments with one bit flipped; if `honest`, with the checksum of the result."""
    crc32 = None if honest else zlib.crc32(original.value)
    for place in rng.sample(range(8 * len(original.value)), count):
        value = bytearray(original.value)
        value[place // 8] ^= 1 << place % 8
        yield Sent(original.header, bytes(value), crc32)


def bodies(original: Sent, count: int, rng: random.Random) -> Iterator[Sent]:
    """Segments with a few changed bytes in the pages, which must not be compressed."""
    for _ in range(count):
        file = File.load(original.value)
        pages = [page for group in file.chunks for pages in group for page in pages if page.body]
        for page in rng.choices(pages, k=rng.choice([1, 1, 2])):
            body = bytearray(page.body)
            for _ in range(rng.choice([1, 1, 1, 2, 4])):
                # Levels and lengths come first.
                _change(body, rng.randrange(rng.choice([min(len(body), 24), len(body)])), rng)
            page.fill(bytes(body))
        yield replace(original, value=file.correct().bytes())


def _change(body: bytearray, at: int, rng: random.Random) -> None:
    """Change, remove or insert a byte; at least one is left."""
    operation = rng.randrange(6)
    if operation == 0 and len(body) > 1:
        del body[at]
    elif operation == 1:
        body.insert(at, rng.randrange(256))
    elif operation == 2:
        body[at] = rng.choice([0, 1, 2, 3, 127, 128, 255])
    else:
        body[at] ^= 1 << rng.randrange(8)


def mutations(original: Sent, count: int, rng: random.Random) -> Iterator[Sent]:
    """Segments with one or two changed fields in page headers and footer, otherwise right."""
    for _ in range(count):
        file = File.load(original.value)
        headers = [page.header for group in file.chunks for pages in group for page in pages]
        in_headers = rng.choice([0, 1, 1, 2])
        for _ in range(in_headers):
            _mutate(rng.choice(headers), rng)
        file.correct()
        for _ in range(rng.choice([0, 1]) if in_headers else rng.choice([1, 2])):
            _mutate(file.footer, rng)
        yield replace(original, value=file.bytes())


def _mutate(tree: Struct, rng: random.Random) -> None:
    fields = list(_fields(tree))
    owner, entry = rng.choice(fields)
    operation = rng.randrange(10)
    if operation == 0:
        owner.remove(entry)
    elif operation == 1:
        owner.insert(rng.randrange(len(owner) + 1), entry)
    else:
        entry[1:] = _other(entry[1], entry[2], rng)


def _fields(struct: Struct) -> Iterator[tuple[Struct, list[Any]]]:
    """All fields of a tree, each with the struct that contains it."""
    for entry in struct:
        yield struct, entry
        _, kind, value = entry
        if kind == STRUCT:
            yield from _fields(value)
        elif kind == LIST and value[0] == STRUCT:
            for member in value[1]:
                yield from _fields(member)


_NUMBERS = (0, 1, -1, 2, 3, 6, 8, 127, 1 << 15, (1 << 31) - 1, -(1 << 31), 1 << 31, 1 << 62)


def _other(kind: int, value: Any, rng: random.Random) -> list[Any]:
    """Another type and value. The type stays, but booleans flip and integers may change width."""
    if kind in (TRUE, FALSE):
        return [TRUE + FALSE - kind, None]
    if kind in (I16, I32, I64):
        near = (value + 1, value - 1, -value, 2 * value, value // 2, value + (1 << 32))
        chosen = rng.choice((*_NUMBERS, *near))
        return [rng.choice((kind, kind, kind, I32, I64)), max(-(1 << 62), min(1 << 62, chosen))]
    if kind == BINARY:
        return [kind, rng.choice((b"", value[:-1], value + b"x", value * 100, b"\xff\xfe"))]
    if kind == LIST:
        element, values = value
        some = rng.choice((values[:-1], values * 2, values[::-1], [], values[1:]))
        return [kind, [element, list(some)]]
    return [kind, rng.choice(([], value[:-1], value[1:], value[::-1]))]


# --- a consumer of a hostile topic ----------------------------------------------------------------


class Topic:
    """A `ConsumerBroker` of one partition with these messages, created on demand."""

    def __init__(self, messages: Iterator[confluent_kafka.Message]) -> None:
        self._messages = messages

    def poll(self, timeout: float) -> confluent_kafka.Message | None:
        return next(self._messages, None)

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0)]

    def committed(self, partitions: Any, timeout: float) -> list[TopicPartition]:
        return []

    def commit(self, offsets: Any, *, asynchronous: bool) -> None:
        raise AssertionError

    def pause(self, partitions: Any) -> None: ...

    def resume(self, partitions: Any) -> None: ...

    def position(self, partitions: Any) -> list[TopicPartition]:
        return [TopicPartition(partition.topic, partition.partition) for partition in partitions]

    def seek(self, partition: Any) -> None:
        raise AssertionError


def consume(good: Sent, cases: Iterator[Sent], *, decoder: Decoder | None = None) -> Counter[str]:
    """Read every case between two good segments; return the number of cases by outcome.

    `reported`: one error and no row; `harmless`: read as the original; `wrong`: anything else.
    `neighbours` counts the good segments that were read.
    """
    expected = [message.value() for message in _read(iter([good]))]
    assert len(expected) == good.header.rows
    outcomes: Counter[str] = Counter()
    pairs = ((good, case) for case in cases)
    messages = _read(itertools.chain(itertools.chain.from_iterable(pairs), [good]), decoder)
    for offset, group in itertools.groupby(messages, lambda message: message.kafka_offset()):
        read = list(group)
        errors = [message.error().name() for message in read if message.error() is not None]
        is_equal = not errors and [message.value() for message in read] == expected
        if offset % 2 == 0:
            outcomes["neighbours" if is_equal else "wrong"] += 1
        elif is_equal:
            outcomes["harmless"] += 1
        else:
            outcomes["reported" if errors == ["_BAD_MSG"] and len(read) == 1 else "wrong"] += 1
    return outcomes


def _read(segments: Iterator[Sent], decoder: Decoder | None = None) -> Iterator[Any]:
    topic = Topic(
        confluent_kafka.Message(
            topic="t",
            partition=0,
            offset=offset,
            value=segment.value,
            headers=segment.headers(),
            timestamp=(confluent_kafka.TIMESTAMP_CREATE_TIME, 5),
        )
        for offset, segment in enumerate(segments)
    )
    feed = Feed(topic, OffsetStore(auto_store=True), decoder=decoder)
    while batch := feed.take(64, 0):
        yield from batch


def peak_bytes() -> int:
    """The most memory that this process has had resident since its program began.

    Linux's `ru_maxrss` counts what came before, too: the memory of the process that started it.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def main(flipped: int, mutated: int) -> dict[str, Any]:
    """Consume all cases; return their outcomes and the peak memory in bytes."""
    rng = random.Random(1)  # the same damage each time
    outcomes = {}
    for compression in ("zstd", "none"):
        good = ordinary(compression)
        for honest in (False, True):
            cases = flips(good, flipped // 4, rng, honest=honest)
            name = f"flips, {compression}, {'right' if honest else 'old'} checksum"
            outcomes[name] = consume(good, cases)
        cases = mutations(good, mutated // 2, rng)
        outcomes[f"mutations, {compression}"] = consume(good, cases)
    outcomes["bombs"] = consume(good, (bomb() for bomb in BOMBS.values()))
    return {"outcomes": outcomes, "peak": peak_bytes()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*map(int, sys.argv[1:]))))
