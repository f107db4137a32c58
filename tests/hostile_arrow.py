"""Arrow data from unknown senders: of every type, honest or forged, read by a consumer.

As a program it runs trials and prints their outcomes, one line of JSON per trial:
`hostile_arrow.py FIRST COUNT`. It prints a trial's number before the trial begins, so that a crash
can be attributed to it. A trial that takes more than `SECONDS` of CPU ends the process too.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import faulthandler
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from arrow_types import optional
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tables import assigned_consumer, next_position

from columnar_kafka import RowError, SchemaError, position
from columnar_kafka.columns.older_arrow import arange, array
from columnar_kafka.plain import Ipc
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SECONDS: Final = 20
MEMORY: Final = 3 << 30
"""The address space that the trials may use, in bytes."""

# --- columns of any type --------------------------------------------------------------------------

Make = "Callable[[int], pa.Array]"
"""Returns as many values as it is asked for, all of one type."""

_DAY = datetime.date(2020, 1, 1)
_TIME = datetime.datetime(2020, 1, 1, 12, 30)  # noqa: DTZ001 - for columns without a zone
_TEXTS = ("", "a", "of twelve b.", "too long to be inline in a view", "é")
_LEAVES: list[tuple[pa.DataType, Sequence[Any]]] = [
    (pa.null(), (None,)),
    (pa.bool_(), (True, False)),
    *((arrow, (0, 1, 100)) for arrow in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((arrow, (0, 1, 100)) for arrow in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *((arrow, (0.0, 1.5)) for arrow in (pa.float16(), pa.float32(), pa.float64())),
    *((arrow, _TEXTS) for arrow in (pa.string(), pa.large_string(), pa.string_view())),
    *(
        (arrow, [text.encode() + b"\xff" for text in _TEXTS])
        for arrow in (pa.binary(), pa.large_binary(), pa.binary_view())
    ),
    (pa.binary(3), (b"abc", b"\0\0\0")),
    (pa.binary(0), (b"",)),
    (pa.date32(), (_DAY,)),
    (pa.date64(), (_DAY,)),
    (pa.time32("s"), (_TIME.time(),)),
    (pa.time64("us"), (_TIME.time(),)),
    (pa.timestamp("s"), (_TIME,)),
    (pa.timestamp("us", "UTC"), (_TIME,)),
    (pa.duration("ms"), (datetime.timedelta(1, 2),)),
    *(
        (kind, (decimal.Decimal("1.25"), decimal.Decimal(0)))
        for bits in (32, 64, 128, 256)
        for kind in optional(f"decimal{bits}", 9, 2)
    ),
    (pa.month_day_nano_interval(), ((1, 2, 3),)),
]


def column(rng: random.Random, depth: int = 3) -> Make:
    """Draw a type; return a maker of such columns, some of which are slices of their buffers."""
    make = rng.choice((_leaf, _leaf, *_NESTED) if depth else (_leaf,))(rng, depth - 1)

    def make_slice(rows: int) -> pa.Array:
        before, after = rng.choice((0, 0, 2)), rng.choice((0, 0, 2))
        return make(before + rows + after).slice(before, rows)

    return make_slice


def _leaf(rng: random.Random, _depth: int) -> Make:
    kind, values = rng.choice(_LEAVES)
    values = [*values, None] if rng.random() < 0.5 else values
    return lambda rows: pa.array(rng.choices(values, k=rows), kind)


def _ends(rng: random.Random, rows: int) -> list[int]:
    ends = [0]
    for _ in range(rows):
        ends.append(ends[-1] + rng.choice((0, 1, 1, 3)))
    return ends


def _lists(rng: random.Random, depth: int) -> Make:
    items = column(rng, depth)
    form, kind = rng.choice(((pa.ListArray, pa.int32()), (pa.LargeListArray, pa.int64())))

    def make(rows: int) -> pa.Array:
        ends = _ends(rng, rows)
        return form.from_arrays(pa.array(ends, kind), items(ends[-1]))

    return make


def _list_views(rng: random.Random, depth: int) -> Make:
    items = column(rng, depth)
    form, kind = rng.choice(((pa.ListViewArray, pa.int32()), (pa.LargeListViewArray, pa.int64())))

    def make(rows: int) -> pa.Array:
        starts = [rng.randint(0, 4) for _ in range(rows)]
        sizes = [rng.randint(0, 4 - start) for start in starts]
        return form.from_arrays(pa.array(starts, kind), pa.array(sizes, kind), items(4))

    return make


def _fixed_lists(rng: random.Random, depth: int) -> Make:
    items, size = column(rng, depth), rng.randint(1, 3)
    return lambda rows: pa.FixedSizeListArray.from_arrays(items(rows * size), size)


def _structs(rng: random.Random, depth: int) -> Make:
    members = [column(rng, depth) for _ in range(rng.randint(1, 3))]
    names = [f"m{number}" for number in range(len(members))]

    def make(rows: int) -> pa.Array:
        nulls = rng.choice((None, pa.array(rng.choices((False, True), k=rows), pa.bool_())))
        return pa.StructArray.from_arrays([member(rows) for member in members], names, mask=nulls)

    return make


def _maps(rng: random.Random, depth: int) -> Make:
    items = column(rng, depth)

    def make(rows: int) -> pa.Array:
        ends = _ends(rng, rows)
        keys = pa.array([f"k{number}" for number in range(ends[-1])], pa.string())
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, items(ends[-1]))

    return make


def _sparse_unions(rng: random.Random, depth: int) -> Make:
    members = [column(rng, depth) for _ in range(rng.randint(1, 3))]

    def make(rows: int) -> pa.Array:
        codes = pa.array(rng.choices(range(len(members)), k=rows), pa.int8())
        return pa.UnionArray.from_sparse(codes, [member(rows) for member in members])

    return make


def _dense_unions(rng: random.Random, depth: int) -> Make:
    members = [column(rng, depth) for _ in range(rng.randint(1, 3))]

    def make(rows: int) -> pa.Array:
        codes = rng.choices(range(len(members)), k=rows)
        places = [codes[:row].count(code) for row, code in enumerate(codes)]
        children = [member(codes.count(code)) for code, member in enumerate(members)]
        return pa.UnionArray.from_dense(
            pa.array(codes, pa.int8()), pa.array(places, pa.int32()), children
        )

    return make


def _runs(rng: random.Random, depth: int) -> Make:
    values, kind = column(rng, depth), rng.choice((pa.int16(), pa.int32(), pa.int64()))

    def make(rows: int) -> pa.Array:
        ends = sorted({*(rng.randint(1, rows) for _ in range(3)), rows}) if rows else []
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind), values(len(ends)))

    return make


def _dictionaries(rng: random.Random, _depth: int) -> Make:
    # Leaves only: pyarrow writes a dictionary of dictionaries, but cannot read it.
    values, kind = column(rng, 0), rng.choice((pa.int8(), pa.uint16(), pa.int32(), pa.int64()))
    grows, known = rng.random() < 0.5, []

    def make(rows: int) -> pa.Array:
        entries = values(3)
        if grows:
            known.append(entries)
            entries = pa.concat_arrays(known)
        indices = rng.choices((None, *range(len(entries))), k=rows)
        return pa.DictionaryArray.from_arrays(pa.array(indices, kind), entries)

    return make


def _extensions(rng: random.Random, depth: int) -> Make:
    text = rng.choice((pa.string(), pa.large_string(), pa.string_view()))
    storages: dict[Any, Make] = {
        **{
            uuid: lambda rows: pa.array([bytes(range(16))] * rows, pa.binary(16))
            for uuid in optional("uuid")
        },
        **{flag: lambda rows: pa.array([1] * rows, pa.int8()) for flag in optional("bool8")},
        **{json: lambda rows: pa.array(["{}"] * rows, text) for json in optional("json_", text)},
        pa.fixed_shape_tensor(pa.int32(), [2, 2], ["x", "y"], [1, 0]): (
            lambda rows: pa.FixedSizeListArray.from_arrays(arange(0, 4 * rows).cast("int32"), 4)
        ),
    }
    any_storage = column(rng, depth)
    if isinstance(any_storage(0).type, pa.BaseExtensionType):  # IPC keeps only the outer of two
        any_storage = _leaf(rng, 0)
    for opaque in optional("opaque", any_storage(0).type, "name", "vendor"):
        storages[opaque] = any_storage
    kind = rng.choice(list(storages))
    return lambda rows: pa.ExtensionArray.from_storage(kind, storages[kind](rows))


_NESTED = (
    *(_lists, _list_views, _fixed_lists, _structs, _maps, _sparse_unions, _dense_unions),
    *(_runs, _runs, _dictionaries, _dictionaries, _extensions),
)


def table(rng: random.Random) -> pa.Table:
    """A table of batches, some of them empty: `n` numbers its rows, `x` has any type."""
    make, batches, count = column(rng), [], 0
    for _ in range(rng.choice((1, 1, 2, 4))):
        rows = rng.choice((0, 1, 2, 5))
        numbers = arange(count, count + rows)
        batches.append(pa.record_batch([numbers, make(rows)], ["n", "x"]))
        count += rows
    return pa.Table.from_batches(batches)


def encoded(rng: random.Random, rows: pa.Table) -> bytes:
    """A table as an IPC stream or file, batch by batch."""
    options = pa.ipc.IpcWriteOptions(
        compression=rng.choice((None, None, "lz4", "zstd")),
        emit_dictionary_deltas=rng.random() < 0.5,
    )
    form = pa.ipc.new_stream if rng.random() < 0.8 else pa.ipc.new_file
    try:
        return _written(rows, form, options)
    except pa.ArrowInvalid:  # a file cannot replace a dictionary
        return _written(rows, pa.ipc.new_stream, options)


def _written(rows: pa.Table, form: Any, options: pa.ipc.IpcWriteOptions) -> bytes:
    sink = pa.BufferOutputStream()
    with form(sink, rows.schema, options=options) as writer:
        for batch in rows.to_batches():
            writer.write_batch(batch)
    return bytes(sink.getvalue())


# --- forgeries ------------------------------------------------------------------------------------

_MARK = b"\xff\xff\xff\xff"
_NUMBERS = (0, 1, -1, 2, 3, 5, 8, 64, 127, 128, 255, 1000, 32767, 65536, (1 << 31) - 1, -(1 << 31))
_LONGS = (*_NUMBERS, 1 << 32, 1 << 40, (1 << 63) - 1, -(1 << 63))


class Message:
    """One message of a stream: its metadata, a flatbuffer, and its body."""

    def __init__(self, metadata: bytes, body: bytes) -> None:
        self.metadata, self.body = bytearray(metadata), bytearray(body)

    def bytes(self) -> bytes:
        return _MARK + struct.pack("<i", len(self.metadata)) + self.metadata + self.body


def _messages(value: bytes) -> list[Message]:
    messages, at = [], 8 if value.startswith(b"ARROW1") else 0
    while value[at : at + 4] == _MARK and (size := _long(value, at + 4, 4)):
        body = at + 8 + size
        message = pa.ipc.read_message(pa.py_buffer(value[at:]))
        end = body + (message.body.size if message.body is not None else 0)
        messages.append(Message(value[at + 8 : body], value[body:end]))
        at = end
    return messages


def _long(value: bytes, at: int, width: int) -> int:
    return int.from_bytes(value[at : at + width], "little", signed=True)


def forge(rng: random.Random, value: bytes) -> bytes:
    """Return a stream or file with some of its claims changed."""
    messages = _messages(value)
    for _ in range(rng.choice((1, 1, 2, 4))):
        messages = rng.choice(_FORGERIES)(rng, messages)
    stream = b"".join(message.bytes() for message in messages)
    if rng.random() < 0.05:
        return stream[: rng.randrange(len(stream))]
    return stream + _MARK + bytes(4)


def _flip(rng: random.Random, messages: list[Message]) -> list[Message]:
    message = rng.choice(messages)
    data = rng.choice([data for data in (message.metadata, message.body) if data])
    data[rng.randrange(len(data))] = rng.randrange(256)
    return messages


def _change_body(rng: random.Random, messages: list[Message]) -> list[Message]:
    """Change offsets, sizes, codes, indices, run ends or values."""
    bodies = [message.body for message in messages if message.body]
    if bodies:
        put(rng, rng.choice(bodies))
    return messages


def _change_metadata(rng: random.Random, messages: list[Message]) -> list[Message]:
    """Change lengths, null counts, places of buffers, flags or types."""
    put(rng, rng.choice(messages).metadata)
    return messages


def put(rng: random.Random, data: bytearray) -> None:
    """Overwrite a number, mostly one that is not zero."""
    width = rng.choice((1, 2, 4, 4, 8, 8))
    places = range(0, len(data) - width + 1, width)
    not_zero = [place for place in places if any(data[place : place + width])]
    if not places:
        return
    place = rng.choice(not_zero if not_zero and rng.random() < 0.7 else places)
    number = rng.choice(
        (rng.choice(_LONGS), _long(data, place, width) + rng.choice((-8, -1, 1, 8, 64)))
    )
    data[place : place + width] = (number % (1 << 8 * width)).to_bytes(width, "little")


def _change_order(rng: random.Random, messages: list[Message]) -> list[Message]:
    """Drop, duplicate or move a message."""
    others = list(messages)
    one = others.pop(rng.randrange(len(others)))
    for _ in range(rng.choice((0, 1, 2))):
        others.insert(rng.randint(0, len(others)), Message(one.metadata, one.body))
    return others or messages


def _change_schema(rng: random.Random, messages: list[Message]) -> list[Message]:
    """Replace the schema, or another message, by one of another table."""
    others = _messages(encoded(rng, table(rng)))
    place = 0 if rng.random() < 0.7 else rng.randrange(len(messages))
    return [*messages[:place], rng.choice((others[0], rng.choice(others))), *messages[place + 1 :]]


_FORGERIES = (
    *(_flip, _change_body, _change_body, _change_metadata, _change_metadata),
    *(_change_order, _change_schema),
)

# --- bombs ----------------------------------------------------------------------------------------


class _Flat:
    """A flatbuffer, written from its start: offsets are filled in when their target is written."""

    def __init__(self) -> None:
        self.data = bytearray(8)

    def table(self, pointed: list[int], numbers: Sequence[int | None]) -> list[int]:
        """Write a table; return the places of its fields. A field that is None is left out."""
        self._point([])
        vtable, count = len(self.data), len(numbers)
        slots = [0 if number is None else 8 * place for place, number in enumerate(numbers, 1)]
        self.data += struct.pack(f"<{2 + count}H", 4 + 2 * count, 8 * (count + 1), *slots)
        at = self._point(pointed)
        self.data += struct.pack(
            f"<ii{count}q", at - vtable, 0, *(number or 0 for number in numbers)
        )
        return [at + slot for slot in slots]

    def vector(self, pointed: list[int], count: int) -> list[int]:
        """Write a vector of tables; return their places."""
        at = self._point(pointed) + 4
        self.data += struct.pack("<I", count) + bytes(4 * count)
        return list(range(at, at + 4 * count, 4))

    def text(self, pointed: list[int], size: int) -> None:
        self._point(pointed)
        self.data += struct.pack("<I", size) + b"x" * size + b"\0"

    def stream(self) -> bytes:
        self._point([])
        return _MARK + struct.pack("<i", len(self.data)) + self.data + _MARK + bytes(4)

    def _point(self, places: list[int]) -> int:
        self.data += bytes(-len(self.data) % 8)
        for place in places:
            struct.pack_into("<I", self.data, place, len(self.data) - place)
        return len(self.data)


def _schema(fields: int) -> tuple[_Flat, list[int]]:
    """Return a message with a schema of `fields` fields, and the places of these."""
    flat = _Flat()
    message = flat.table([0], (4, _SCHEMA, 0, 0))
    schema = flat.table([message[2]], (None, 0))
    return flat, flat.vector([schema[1]], fields)


_SCHEMA, _BATCH = 1, 3  # types of messages
_NULL, _BOOL, _STRUCT = 1, 6, 13  # types of fields


def shared_name(size: int = 400_000, fields: int = 100_000) -> bytes:
    """800 KB: 100,000 fields are the same field, with a name of 400 KB: 40 GB."""
    flat, places = _schema(fields)
    field = flat.table(places, (0, None, _NULL, 0))
    flat.table([field[3]], ())
    flat.text([field[0]], size)
    return flat.stream()


def shared_fields(levels: int = 19, size: int = 300_000) -> bytes:
    """300 KB: every struct has the next one as both of its fields, a million in all: 0.5 GB."""
    flat, places = _schema(1)
    for level in range(levels):
        field = flat.table(places, (0, None, _STRUCT, 0, None, 0))
        flat.text([field[0]], 1 if level else size)  # Arrow allows eight tables per byte
        flat.table([field[3]], ())
        places = flat.vector([field[5]], 2)
    field = flat.table(places, (0, None, _NULL, 0))
    flat.text([field[0]], 1)
    flat.table([field[3]], ())
    return flat.stream()


def shared_field(fields: int, size: int) -> bytes:
    """Return a schema of nullable booleans that are the same field, with metadata of that size."""
    flat, places = _schema(fields)
    field = flat.table(places, (0, 1, _BOOL, 0, None, None, 0))
    flat.text([field[0]], 1)
    flat.table([field[3]], ())
    entry = flat.table(flat.vector([field[6]], 1), (0, 0))
    flat.text([entry[0]], 4)
    flat.text([entry[1]], size)
    return flat.stream()


def shared_metadata(size: int = 400_000, entries: int = 100_000) -> bytes:
    """800 KB: a message with 100,000 entries of metadata, which are the same entry."""
    flat = _Flat()
    message = flat.table([0], (4, _BATCH, 0, 0, 0))
    flat.table([message[2]], ())
    entry = flat.table(flat.vector([message[4]], entries), (0, 0))
    flat.text([entry[0]], size)
    flat.text([entry[1]], 1)
    return flat.stream()


def shared_entries(fields: int = 50_000, entries: int = 50_000) -> bytes:
    """400 KB: 50,000 fields are the same, and so are the 50,000 entries of its metadata."""
    flat, places = _schema(fields)
    field = flat.table(places, (0, None, _NULL, 0, None, None, 0))
    flat.text([field[0]], 1)
    flat.table([field[3]], ())
    entry = flat.table(flat.vector([field[6]], entries), (0, 0))
    flat.text([entry[0]], 1)
    flat.text([entry[1]], 1)
    return flat.stream()


def deltas(size: int = 300_000, batches: int = 1200) -> bytes:
    """700 KB: a dictionary of 300 KB grows by a byte 1,200 times, and every one is kept: 0.4 GB."""
    kind = pa.dictionary(pa.int32(), pa.binary())
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"x": kind}), options=options) as writer:
        for count in range(1, batches + 1):
            known = pa.array([b"x" * size, *([b"y"] * (count - 1))], pa.binary())
            column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), known)
            writer.write_batch(pa.record_batch([column], ["x"]))
    return bytes(sink.getvalue())


BOMBS: Final = (shared_name, shared_fields, shared_metadata, shared_entries, deltas)

# --- trials ---------------------------------------------------------------------------------------

CONFIG: Final = {
    "columnar.max.rows": 1000,
    "columnar.max.values": 10_000,
    "columnar.max.decoded.bytes": 1 << 20,
}


def trial(number: int) -> str:
    """Read a message between two honest ones in one of several ways; return the outcome.

    Raises:
        AssertionError: a row is not as it was sent, an honest row is missing, or an honest message
            is reported.
        Exception: a forged message raises anything but the package's error with its address.
    """
    rng = random.Random(number)
    rows, is_honest = table(rng), rng.random() < 0.3
    honest = encoded(rng, rows)
    least = rng.choice((None, None, 0, 1))
    options = {"promote": rng.random() < 0.3, "num_records": rng.choice((1, 1000))}
    if rng.random() < 0.3:
        options["columns"] = ["x", "n", "_kafka.offset"]
    way = rng.choice((_in_tables, _in_tables, _in_readers))
    messages = (honest, honest if is_honest else forge(rng, honest), honest)
    return _compare(messages, rows, way, options, least, is_honest=is_honest)


def _compare(
    messages: Sequence[bytes],
    rows: pa.Table,
    way: Callable[[Any, dict[str, Any], Read], None],
    options: dict[str, Any],
    least: int | None,
    *,
    is_honest: bool,
    limits: Mapping[str, int] = CONFIG,
) -> str:
    """Read three messages with the same rows; the second one may be forged."""
    kafka, read = FakeKafka(), Read(is_honest=is_honest)
    for value in messages:
        assert kafka.append("t", 0, value).error() is None
    options |= {"value": Ipc(), "timeout": 0}
    if least is not None:
        options["filter"] = pc.field("n") != least
    with assigned_consumer(kafka, **limits) as consumer:
        way(consumer, options, read)
    assert len(read.errors) < 2 - is_honest, read.errors
    expected = [repr(row["x"]) for row in rows.to_pylist() if row["n"] != least]
    for offset in (0, 1, 2) if is_honest else (0, 2):
        assert read.rows[offset] == expected, f"{expected} sent at {offset}, {read.rows} read"
    return "honest" if is_honest else "reported" if read.errors else "read"


class Read:
    """The rows and errors that a consumer of the three messages has returned."""

    def __init__(self, *, is_honest: bool) -> None:
        self.rows: dict[int, list[str]] = {0: [], 1: [], 2: []}
        self.errors: list[str] = []
        self._is_honest = is_honest

    def add(self, rows: pa.Table) -> None:
        """Add rows to the messages that they come from, with values as text."""
        rows.validate(full=True)
        kafka = rows["_kafka"].combine_chunks()
        starts = [position.unpack(value).offset for value in kafka.field("offset").to_pylist()]
        for offset, count in Counter(starts).items():
            part = rows.slice(starts.index(offset), count)
            may_fail = () if self._is_honest or offset != 1 else (Exception,)
            with contextlib.suppress(*may_fail):  # Python may have no object for a value
                self.rows[offset] += map(repr, part["x"].to_pylist())

    def fail(self, error: KafkaException) -> None:
        """Add an error of the package with the message's address; raise any other."""
        if not isinstance(error, RowError | SchemaError) or "t[0]@1" not in str(error):
            raise error
        self.errors.append(str(error))


def _in_tables(consumer: Any, options: dict[str, Any], read: Read) -> None:
    while next_position(consumer) < position.start(3):
        try:
            rows = consumer.consume_arrow(**options)
        except (RowError, SchemaError) as error:
            _pass(consumer, error, read)
        else:
            if rows is not None:
                read.add(rows)


def _in_readers(consumer: Any, options: dict[str, Any], read: Read) -> None:
    """Read with one reader after another: a reader ends before rows of another schema."""
    while next_position(consumer) < position.start(3):
        try:
            for batch in consumer.arrow_reader(**options, on_error=read.fail):
                read.add(pa.Table.from_batches([batch]))
        except SchemaError as error:
            _pass(consumer, error, read)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise


def _pass(consumer: Any, error: KafkaException, read: Read) -> None:
    read.fail(error)
    if isinstance(error, SchemaError):  # the message stays
        consumer.seek(TopicPartition("t", 0, position.start(2)))


# --- cases that were read wrong once --------------------------------------------------------------


def _batches(*columns: pa.Array) -> bytes:
    """A stream with a batch per column: `n`, which numbers all rows, and `x`."""
    count, batches = 0, []
    for values in columns:
        batches.append(pa.record_batch([arange(count, count + len(values)), values], ["n", "x"]))
        count += len(values)
    return _written(pa.Table.from_batches(batches), pa.ipc.new_stream, pa.ipc.IpcWriteOptions())


def _known() -> Iterator[tuple[str, bytes]]:
    codes, members = pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])]
    sparse = pa.UnionArray.from_sparse(codes, members)
    dense = pa.UnionArray.from_dense(codes, pa.array([0, 0], pa.int32()), members)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["x", "y"]))
    views = pa.array(["x", None, "y"], pa.string_view())
    halves = [
        pa.DictionaryArray.from_arrays(pa.array(range(len(values))), array(values, pa.float16()))
        for values in ([1.5], [2.5, 1.5])
    ]
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    for union in (sparse, dense):
        yield f"{union.type.mode} union", _batches(union[:0], union)
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), union)
        yield f"{union.type.mode} union in a list", _batches(lists[:0], lists)
    yield "runs", _batches(runs, runs)
    yield "views", _batches(views, views)
    yield "dictionaries of half floats", _batches(*halves)
    yield "dictionaries with a null", _batches(nulls, pa.concat_arrays([nulls, nulls]))
    for kind in optional("bool8"):
        flags = pa.ExtensionArray.from_storage(kind, pa.array([1, 0], pa.int8()))
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), flags)
        yield "lists of an extension type", _batches(lists, lists[:0], lists)


def known() -> Iterator[tuple[str, str]]:
    """Read data that once crashed a process or was read wrong; yield names and outcomes."""
    for name, value in _known():
        rows = pa.ipc.open_stream(value).read_all()
        for way in (_in_tables, _in_readers):
            for least in (None, 1):
                yield (
                    name,
                    _compare((value,) * 3, rows, way, {"num_records": 1000}, least, is_honest=True),
                )
    honest = _batches(pa.array([1, 2]))
    rows = pa.ipc.open_stream(honest).read_all()
    for bomb in BOMBS:
        messages, way = (honest, bomb(), honest), _in_tables
        outcome = _compare(
            messages, rows, way, {"num_records": 9}, None, is_honest=False, limits={}
        )
        yield bomb.__name__, outcome


# --- processes ------------------------------------------------------------------------------------


def run(first: int, count: int, program: str = __file__) -> tuple[Counter[str], list[str]]:
    """Run trials in child processes; return the number of trials by outcome, and all failures.

    A `program` calls `main` with its own `trial`. After a child has crashed in a trial, the next
    child continues with the trial after it.
    """
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    end = first + count
    while first < end:
        lines, why = _child(program, str(first), str(end - first))
        outcomes.update(line["outcome"] for line in lines if "outcome" in line)
        wrong += [f"{line['begun']}: {line['wrong']}" for line in lines if "wrong" in line]
        begun = [line["begun"] for line in lines]
        if why:
            wrong.append(f"{begun[-1:]} ended its process: {why}")
        first = begun[-1] + 1 if begun and why else end
    return outcomes, wrong


def run_known() -> tuple[Counter[str], list[str]]:
    """Read the `known` cases in a child process; return as `run`."""
    lines, why = _child(__file__, "known")
    outcomes = Counter(line["outcome"] for line in lines if "outcome" in line)
    return outcomes, [why] if why else []


def _child(*arguments: str) -> tuple[list[dict[str, Any]], str]:
    """Return the lines that a child has printed, and why it crashed, if it did."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines, f"{done.returncode}: {done.stderr[-2000:]}" if done.returncode else ""


def main(arguments: Sequence[str], make: Callable[[int], str] = trial) -> None:
    """Run trials in this process, which may crash in one."""
    space = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = space * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if arguments == ["known"]:
        _end_after(5 * SECONDS)
        for name, outcome in known():
            _print(begun=name, outcome=outcome)
        return
    first, count = map(int, arguments)
    for number in range(first, first + count):
        _print(begun=number)
        _end_after(SECONDS)
        try:
            _print(begun=number, outcome=make(number))
        except BaseException as error:  # noqa: BLE001 - a panic of Rust's is no Exception
            _print(begun=number, wrong="".join(traceback.format_exception(error))[-1500:])


def _end_after(seconds: int) -> None:
    """Have the process end, and say where it is, when it has used so many more seconds of CPU."""
    faulthandler.register(signal.SIGXCPU, chain=True)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + seconds, most))


def _print(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
