"""Bytes in, bytes out: Avro that is produced comes back as it was, with the core and without."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import math
import random
import struct
import uuid
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_values import avro_values, fields, schema
from support import examples
from there_and_back import there_and_back

from columnar_kafka import native
from columnar_kafka.plain.avro_rows import AvroRows

if TYPE_CHECKING:
    from collections.abc import Sequence

WAYS = [True, False] if native.enabled else [False]
HEADERS = [b"", b"\0\0\0\0\7", b"\0\xff\xff\xff\xff"]


def is_canonical(avro: Any, datum: bytes) -> bool:
    """Say whether fastavro writes what it reads of a value as the same bytes, and a row has it."""
    parsed, source, sink = fastavro.parse_schema(numbers(avro)), io.BytesIO(datum), io.BytesIO()
    try:
        read = fastavro.schemaless_reader(source, parsed, None)
        fastavro.schemaless_writer(sink, parsed, read)
    except Exception:  # noqa: BLE001 - it raises many kinds
        return False
    return sink.getvalue() == datum and not AvroRows(avro).decode([datum])[1]


def numbers(avro: Any) -> Any:
    """Return a schema whose times are numbers: Python's have not all of them."""
    if isinstance(avro, list):
        return list(map(numbers, avro))
    if not isinstance(avro, dict):
        return avro
    is_kept = avro.get("logicalType") in (None, "decimal")
    return {key: numbers(part) for key, part in avro.items() if is_kept or key != "logicalType"}


def expected(avro: Any, values: Sequence[bytes | None]) -> list[bool]:
    """Say which values become records: the first that tells settles what stands before each."""
    header = None
    are_records = []
    for value in values:
        fitting = []
        if value is not None:
            tried = [b"", value[:5]] if header is None and value[:1] == b"\0" else [header or b""]
            fitting = [
                begin
                for begin in tried
                if len(begin) in (0, 5)
                and value.startswith(begin)
                and is_canonical(avro, value[len(begin) :])
            ]
        if len(fitting) == 1:
            [header] = fitting
        are_records.append(len(fitting) == 1)
    return are_records


RANDOM = settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("way", WAYS)
@RANDOM
@given(seed=st.integers(0, 2**64), header=st.sampled_from(HEADERS))
def test_random_values(seed: int, header: bytes, way: bool) -> None:
    """Each comes back byte for byte; one that fastavro would write as it is was a record."""
    rng = random.Random(seed)
    avro = schema(rng)
    values = [value and header + value for value in avro_values(avro, rng, 40)]
    found, are_records = there_and_back(
        avro, values, produced=way, consumed=native.enabled and not way
    )
    assert found == values
    assert are_records == expected(avro, values)


@pytest.mark.parametrize("way", WAYS)
def test_every_field_of_the_fuzzer(way: bool) -> None:
    """All of them in one schema, in values that are not broken, are records."""
    rng = random.Random(5)
    avro = {"type": "record", "name": "R", "fields": fields()}
    values = [value for value in avro_values(avro, rng, 300) if value and is_canonical(avro, value)]
    assert len(values) > 150
    found, are_records = there_and_back(avro, values, produced=way, consumed=way)
    assert found == values
    assert all(are_records)


def longs(*numbers: int) -> bytes:
    """Return longs, one after the other."""
    sink = io.BytesIO()
    for number in numbers:
        fastavro.schemaless_writer(sink, "long", number)
    return sink.getvalue()


def of(avro: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": avro}]}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 0}
QUIET, SIGNALING = b"\0\0\xc0\x7f", b"\1\0\x80\x7f"
NOT_A_NUMBER = bytes.fromhex("0100000000000cf07f")[:8]
LONGS = {"type": "array", "items": "long"}
PAIRS = {"type": "map", "values": "int"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("avro", "values", "others"),
    [
        ("long", [longs(1), longs(-(2**63))], [b"\x82\0", b"", b"\2\2", longs(2**63 - 1)[:-1]]),
        ("int", [longs(2**31 - 1)], [longs(2**31)]),
        ("boolean", [b"\0", b"\1"], [b"\2"]),
        ("float", [QUIET, b"\0\0\0\x80"], [SIGNALING, b"\0\0\0"]),
        ("double", [NOT_A_NUMBER, struct.pack("<d", math.inf)], []),
        ("string", [b"\4\xc3\xa9"], [b"\2\xc3", b"\1", b"\6ab"]),
        (LONGS, [b"\0", longs(2, 1, 2, 0)], [longs(1, 1, 1, 2, 0), longs(-1, 1, 1, 0)]),
        (PAIRS, [b"\0", b"\4\2b\2\2a\4\0"], [b"\4\2b\2\2b\4\0", b"\1\4\2b\2\0"]),
        (["null", "int"], [b"\0", b"\2\2"], [b"\4", b"\1"]),
        (["int", "null"], [b"\2", b"\0\2"], []),
        (["int"], [b"\0\2"], [b"\2\2"]),
        (["null", "int", "long"], [b"\0", b"\2\2", b"\4" + longs(2**31)], [b"\4\2"]),
        (["long", "null", "int"], [b"\0\2", b"\2"], [b"\4\2"]),
        (
            ["float", "double"],
            [b"\2" + struct.pack("<d", 0.5), b"\2" + struct.pack("<d", math.nan)],
            [b"\0" + struct.pack("<f", 0.5), b"\0" + SIGNALING],
        ),
        (["string", ENUM], [b"\0\2A"], [b"\2\0"]),
        ([ENUM, "string"], [b"\0\2", b"\2\2C"], [b"\2\2A", b"\0\4", b"\0\1"]),
        ([FIXED, "bytes"], [b"\0ab", b"\2\2a"], [b"\2\4ab"]),
        (DECIMAL, [b"\2\0", b"\4\xff\x80", b"\4\0\x80"], [b"\2\x80", b"\4\0\1", b"\0"]),
        (DECIMAL, [b"\6\1\x86\x9f"], [b"\6\1\x86\xa0", b"\4\xff\xff"]),
        (
            {**DECIMAL, "type": "fixed", "name": "D", "size": 4},
            [b"\0\0\0\5", b"\xff\xff\xff\xfb"],
            [b"\0\1\x86\xa0"],
        ),
        (
            {"type": "int", "logicalType": "time-millis"},
            [longs(86_399_999)],
            [longs(86_400_000), longs(-1)],
        ),
        ({"type": "int", "logicalType": "date"}, [longs(2**31 - 1), longs(-(2**31))], []),
    ],
    ids=str,
)
def test_what_fastavro_writes_is_a_record_and_else_a_message(
    avro: Any, values: list[bytes], others: list[bytes], way: bool
) -> None:
    # Both with five bytes in front, of which the first value leaves no doubt.
    given_values = [b"\0\0\0\1\0" + value for value in [*values, *others, *values]]
    found, are_records = there_and_back(of(avro), given_values, produced=way, consumed=way)
    assert found == given_values
    count = len(values)
    assert are_records == [True] * count + [False] * len(others) + [True] * count


@pytest.mark.parametrize("way", WAYS)
def test_lists_and_maps_of_many_and_of_each_other(way: bool) -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": ["null", LONGS]}]}
    avro = of({"type": "array", "items": ["null", {"type": "map", "values": ["null", inner]}]})
    rows: list[Any] = [
        {"f": []},
        {"f": [None]},
        {"f": [{}, {"a": None}, {"b": {"x": None}, "c": {"x": []}}, None]},
        {"f": [{str(n): {"x": list(range(n))} for n in range(100)}] * 3},
        {"f": [{"z": {"x": [1]}}, {}]},
    ]
    values = []
    for row in rows:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, fastavro.parse_schema(avro), row)
        values.append(sink.getvalue())
    found, are_records = there_and_back(avro, values, produced=way, consumed=way)
    assert found == values
    assert all(are_records)


@pytest.mark.parametrize("way", WAYS)
def test_confluents_serializer_and_deserializer(way: bool) -> None:
    registry = pytest.importorskip("confluent_kafka.schema_registry")
    serdes = pytest.importorskip("confluent_kafka.schema_registry.avro")
    client = registry.SchemaRegistryClient.new_client({"url": "mock://"})
    avro = {"type": "record", "name": "R", "fields": fields()}
    serialize = serdes.AvroSerializer(client, json.dumps(avro))
    context = SerializationContext("t", MessageField.VALUE)
    rows = list(map(simple_row, range(20)))
    values = [serialize(row, context) for row in rows]
    found, are_records = there_and_back(avro, values, produced=way, consumed=way)
    assert found == values
    assert all(are_records)
    deserialize = serdes.AvroDeserializer(client)
    assert [deserialize(value, context) for value in found] == [
        deserialize(value, context) for value in values
    ]


def simple_row(n: int) -> dict[str, Any]:
    """Return a row of all fields."""
    at = datetime.datetime(2026, 1, 31, 12, n % 60, tzinfo=datetime.timezone.utc)
    inner = {"x": n, "texts": [None, "a"]}
    return {
        "flag": True,
        "small": n,
        "long": None,
        "float": 0.5,
        "double": n / 3,
        "text": "é",
        "data": b"\0",
        "fixed": b"ab",
        "symbol": "C_1",
        "id": str(uuid.UUID(int=n)),
        "money": decimal.Decimal(-n) / 4,
        "amount": decimal.Decimal(n),
        "day": at.date(),
        "time": at.time(),
        "micros": at.time(),
        "at": at,
        "nanos": 3 * n,
        "local": at.replace(tzinfo=None),
        "record": inner,
        "maybe": inner,
        "list": [n] * n,
        "lists": [[inner] * (n % 3), []],
        "map": {str(m): m / 4 for m in range(n)},
        "wide": n << 30,
        "number": n / 7,
        "either": "X",
    }
