"""Writes the golden segments, by hand and once: `python tests/golden/make.py`.

They pin what the bytes of version 1 mean. One that exists is never written again: a change that
needs other bytes needs another version. Add a new one below `SEGMENTS` instead.
"""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import itertools
import json
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from neutral import plain_rows  # noqa: E402 - beside this file

from columnar_kafka import native  # noqa: E402
from columnar_kafka.columns import kafka_column  # noqa: E402
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns  # noqa: E402
from columnar_kafka.schema import RecordSchema, canonical, fingerprint  # noqa: E402
from columnar_kafka.segment.encoder import ParquetEncoder  # noqa: E402
from columnar_kafka.segment.headers import SegmentHeader, parse_headers, with_checksum  # noqa: E402
from columnar_kafka.testing import FakeKafka  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

ALL = ("id", "key", "timestamp", "headers")
START = 1_357_016_400_000  # 2013-01-01T05:00:00Z


class Record(NamedTuple):
    value: dict[str, Any]
    key: bytes | None = None
    timestamp: int = START
    headers: list[tuple[str, bytes | None]] | None = None


class Golden(NamedTuple):
    shows: str
    schema: Any
    records: Sequence[Record]
    members: tuple[str, ...] = ALL
    compression: str = "zstd"
    schema_id: int | None = None
    native: bool = False
    said: str | None = None
    """What the footer says of records that were JSON, which are `objects`."""
    objects: Sequence[str] = ()
    said_of_avro: str | None = None
    """What it says of records that were Avro, which are `datums`."""
    datums: Sequence[str] = ()


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


AVRO = {
    "type": "record",
    "name": "Every",
    "fields": [
        field("boolean", "boolean"),
        field("int", "int"),
        field("long", "long"),
        field("float", "float"),
        field("double", "double"),
        field("string", "string"),
        field("bytes", "bytes"),
        field("fixed", {"type": "fixed", "name": "Four", "size": 4}),
        field("enum", {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}),
        field("date", logical("int", "date")),
        field("time_millis", logical("int", "time-millis")),
        field("time_micros", logical("long", "time-micros")),
        field("timestamp_millis", logical("long", "timestamp-millis")),
        field("timestamp_micros", logical("long", "timestamp-micros")),
        field("timestamp_nanos", logical("long", "timestamp-nanos")),
        field("local_millis", logical("long", "local-timestamp-millis")),
        field("local_micros", logical("long", "local-timestamp-micros")),
        field("local_nanos", logical("long", "local-timestamp-nanos")),
        field("uuid", logical("string", "uuid")),
        field("decimal", logical("bytes", "decimal", precision=9, scale=2)),
        field("wide_decimal", logical("bytes", "decimal", precision=50, scale=3)),
        field("array", {"type": "array", "items": "int"}),
        field("map", {"type": "map", "values": "long"}),
        field(
            "record",
            {"type": "record", "name": "Point", "fields": [field("x", "int"), field("y", "int")]},
        ),
        field("optional", ["null", "string"], default=None),
    ],
}


def every_avro(n: int) -> dict[str, Any]:
    at = dt.datetime(2013, 1, 1, 5, 15, 0, 123_000 * n, tzinfo=dt.timezone.utc)
    return {
        "boolean": n == 1,
        "int": (2**31 - 1) * (-1) ** n,
        "long": (2**63 - 1) * (-1) ** n,
        "float": 0.5 + n,
        "double": [0.1, float("inf"), float("nan")][n],
        "string": ["", "naïve ☃", "\x00"][n],
        "bytes": [b"", b"\x00\xff", b"PAR1"][n],
        "fixed": bytes([n] * 4),
        "enum": ["SPADES", "HEARTS"][n % 2],
        "date": dt.date(1969, 12, 31) + dt.timedelta(n),
        "time_millis": dt.time(23, 59, 59, 999_000),
        "time_micros": dt.time(0, 0, 0, n),
        "timestamp_millis": at,
        "timestamp_micros": at + dt.timedelta(microseconds=n),
        "timestamp_nanos": at,
        "local_millis": at.replace(tzinfo=None),
        "local_micros": at.replace(tzinfo=None, year=1600),
        "local_nanos": at.replace(tzinfo=None),
        "uuid": str(uuid.UUID(int=n)),
        "decimal": decimal.Decimal("-1234567.89") + n,
        "wide_decimal": decimal.Decimal("12345678901234567890123456789012345678901234567.891") - n,
        "array": list(range(n)),
        "map": {f"k{i}": i for i in range(n)},
        "record": {"x": n, "y": -n},
        "optional": None if n == 0 else "there",
    }


ARROW = pa.schema(
    [
        ("bool", pa.bool_()),
        ("int8", pa.int8()),
        ("int16", pa.int16()),
        ("int32", pa.int32()),
        ("int64", pa.int64()),
        ("uint8", pa.uint8()),
        ("uint16", pa.uint16()),
        ("uint32", pa.uint32()),
        ("uint64", pa.uint64()),
        ("float16", pa.float16()),
        ("float32", pa.float32()),
        ("float64", pa.float64()),
        ("date32", pa.date32()),
        ("time32_ms", pa.time32("ms")),
        ("time64_us", pa.time64("us")),
        ("time64_ns", pa.time64("ns")),
        ("timestamp_ms_utc", pa.timestamp("ms", "UTC")),
        ("timestamp_us_berlin", pa.timestamp("us", "Europe/Berlin")),
        ("timestamp_ns", pa.timestamp("ns")),
        ("duration_s", pa.duration("s")),
        ("duration_ms", pa.duration("ms")),
        ("duration_us", pa.duration("us")),
        ("duration_ns", pa.duration("ns")),
        # pyarrow 17 and 18, which do not have these types, cannot read the segment either.
        ("decimal32", getattr(pa, "decimal32", pa.decimal128)(9, 2)),
        ("decimal64", getattr(pa, "decimal64", pa.decimal128)(18, 2)),
        ("decimal128", pa.decimal128(38, 10)),
        ("decimal256", pa.decimal256(76, 0)),
        ("string", pa.string()),
        ("large_string", pa.large_string()),
        ("string_view", pa.string_view()),
        ("binary", pa.binary()),
        ("large_binary", pa.large_binary()),
        ("binary_view", pa.binary_view()),
        ("fixed_size_binary", pa.binary(3)),
        ("dictionary", pa.dictionary(pa.int8(), pa.string())),
        ("list", pa.list_(pa.int16())),
        ("large_list", pa.large_list(pa.string())),
        ("fixed_size_list", pa.list_(pa.float32(), 2)),
        ("list_view", pa.list_view(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("struct", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
    metadata={"owner": "ops", "note": "naïve"},
)


def every_arrow(n: int) -> dict[str, Any]:
    """The first row has the least values, the second the most, the third only nulls."""
    if n == 2:
        return dict.fromkeys(ARROW.names)
    least = n == 0
    return {
        "bool": not least,
        **every_number(least=least),
        **every_time(least=least),
        **every_text(least=least),
        **every_nested(least=least),
    }


def every_number(*, least: bool) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for bits in (8, 16, 32, 64):
        row[f"int{bits}"] = -(2 ** (bits - 1)) if least else 2 ** (bits - 1) - 1
        row[f"uint{bits}"] = 0 if least else 2**bits - 1
    for name, big in (("float16", 65504.0), ("float32", 2.0**127), ("float64", 1.7e308)):
        row[name] = -0.0 if least else big
    for name, digits, scale in (
        ("decimal32", 9, 2),
        ("decimal64", 18, 2),
        ("decimal128", 38, 10),
        ("decimal256", 76, 0),
    ):
        sign = "-" if least else ""
        row[name] = decimal.Decimal(f"{sign}{'9' * digits}E-{scale}")
    return row


def every_time(*, least: bool) -> dict[str, Any]:
    at = dt.datetime(1970, 1, 1) if least else dt.datetime(2262, 4, 11, 23, 47, 16)  # noqa: DTZ001
    row: dict[str, Any] = {}
    row["date32"] = dt.date(1, 1, 1) if least else dt.date(9999, 12, 31)
    for name in ("time32_ms", "time64_us", "time64_ns"):
        row[name] = dt.time(0) if least else dt.time(23, 59, 59)
    row["timestamp_ns"] = at
    for name in ("timestamp_ms_utc", "timestamp_us_berlin"):
        row[name] = at.replace(tzinfo=dt.timezone.utc)
    for unit in ("s", "ms", "us", "ns"):
        row[f"duration_{unit}"] = dt.timedelta(days=-1 if least else 365)
    return row


def every_text(*, least: bool) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in ("string", "large_string", "string_view", "dictionary"):
        row[name] = "" if least else "naïve ☃ " + name
    for name in ("binary", "large_binary", "binary_view"):
        row[name] = b"" if least else bytes(range(256))
    row["fixed_size_binary"] = b"\x00\x00\x00" if least else b"\xff\xfe\xfd"
    return row


def every_nested(*, least: bool) -> dict[str, Any]:
    row: dict[str, Any] = {}
    row["list"] = [] if least else [1, None, -1]
    row["large_list"] = [] if least else ["a", None]
    row["fixed_size_list"] = [0.5, 1.5]
    row["list_view"] = [] if least else [2, 1]
    row["map"] = {} if least else {"a": 0.5, "b": None}
    row["struct"] = {"a": None, "b": ""} if least else {"a": 1, "b": "x"}
    return row


POINT = pa.struct([pa.field("x", pa.int32(), nullable=False), ("tags", pa.list_(pa.string()))])
NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"unit": "none"}),
        ("points", pa.list_(POINT)),
        ("grid", pa.list_(pa.list_(pa.field("item", pa.int8(), nullable=False)))),
        ("by_name", pa.map_(pa.string(), pa.list_(POINT))),
        ("deep", pa.struct([("a", pa.struct([("b", pa.struct([("c", pa.string())]))]))])),
        ("dots.in.name", pa.string()),
        ('quotes "and" ☃', pa.string()),
    ]
)
ODD_NAMES = {"dots.in.name": "d", 'quotes "and" ☃': "q"}


def point(x: int, tags: Any) -> dict[str, Any]:
    return {"x": x, "tags": tags}


NESTED_ROWS = [
    {
        "id": 0,
        "points": [point(1, ["a", None]), None, point(2, None), point(3, [])],
        "grid": [[1, 2], [], None, [3]],
        "by_name": {"one": [point(4, ["b"])], "none": None, "empty": []},
        "deep": {"a": {"b": {"c": "bottom"}}},
        **ODD_NAMES,
    },
    {"id": 1, "points": [], "grid": [], "by_name": {}, "deep": {"a": None}, **ODD_NAMES},
    {"id": 2} | dict.fromkeys(NESTED.names[1:]),
    {
        "id": 3,
        "points": None,
        "grid": [None],
        "by_name": None,
        "deep": {"a": {"b": {"c": None}}},
        **ODD_NAMES,
    },
    {"id": 4, "points": [None], "grid": [[]], "by_name": {"": []}, "deep": None, **ODD_NAMES},
]
SMALL = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])
RECORDS = [
    Record({"n": 0, "text": "no key, no headers"}, None, START, None),
    Record({"n": 1, "text": "empty key"}, b"", START - 5, [("trace", b"1")]),
    Record({"n": 2, "text": "repeated key"}, b"k", START, [("h", b"1"), ("h", b"2"), ("g", b"3")]),
    Record({"n": 3, "text": "null value"}, b"\x00\xff", START + 9, [("h", None), ("h", b"")]),
    Record({"n": 4, "text": "empty key of a header"}, b"k", START, [("", b"x"), ("ü☃", b"\xff")]),
    Record({"n": 5, "text": None}, b"k", START, None),
]
EPOCH = [Record({"n": 0, "text": "before 1970"}, None, -62_135_596_800_000),
         Record({"n": 1, "text": "the year 10000"}, None, 253_402_300_800_000)]  # fmt: skip

SEGMENTS = {
    "avro": Golden("every Avro type", AVRO, [Record(every_avro(n)) for n in range(3)]),
    "arrow": Golden(
        "every Arrow type: least, most and no values; the schema's metadata",
        ARROW,
        [Record(every_arrow(n)) for n in range(3)],
        compression="snappy",
    ),
    "nested": Golden(
        "lists, maps and structs in each other, nulls at each level, odd names",
        NESTED,
        [Record(value) for value in NESTED_ROWS],
    ),
    "all-null": Golden(
        "a column without any value",
        SMALL,
        [Record({"n": n, "text": None}) for n in range(3)],
        compression="gzip",
    ),
    "one-row": Golden("the smallest segment", SMALL, RECORDS[:1], members=()),
    "times": Golden("record times far from now", SMALL, EPOCH),
    "registry": Golden("a registry's schema id", SMALL, RECORDS[:1], schema_id=42),
    "many-rows": Golden(
        "enough rows for dictionaries and deltas",
        SMALL,
        [
            Record({"n": n * 1000, "text": f"text {n % 7}"}, b"key-%d" % (n % 11), START + n)
            for n in range(300)
        ],
    ),
}
for _name, _type in (
    ("without", pa.timestamp("ms", "UTC")),
    ("with", pa.timestamp("ms", "+00:00")),
):
    SEGMENTS[f"{_name}-arrow-schema"] = Golden(
        "numbers, texts, lists and a time, in " + str(_type),
        pa.schema(
            [
                pa.field("n", pa.int16(), nullable=False),
                ("text", pa.string()),
                ("list", pa.list_(pa.field("item", pa.uint8(), nullable=False))),
                ("struct", pa.struct([("float", pa.float32()), ("date", pa.date32())])),
                ("at", _type),
            ]
        ),
        [
            Record({
                "n": n,
                "text": [None, "", "\u2603"][n],
                "list": [None, [], [0, 255]][n],
                "struct": [None, {"float": None, "date": None}, {"float": 0.5, "date": 1}][n],
                "at": [None, 0, START][n],
            })
            for n in range(3)
        ],
    )  # fmt: skip
SEGMENTS["json"] = Golden(
    "records that were JSON: absent and null, a rest, JSON text and UUIDs",
    pa.schema(
        [
            ("a", pa.int64()),
            ("t", pa.timestamp("ms", "UTC")),
            ("o", pa.struct([("x", pa.float64()), ("y", pa.decimal128(5, 2))])),
            ("l", pa.list_(pa.struct([("y", pa.int32())]))),
            ("m", pa.map_(pa.string(), pa.struct([("z", pa.binary())]))),
            ("p", pa.string()),
            ("u", pa.binary(16)),
            ("_rest", pa.string()),
        ]
    ),
    [
        Record(dict(zip("atolmpu", values, strict=True)) | {"_rest": rest})
        for values, rest in (
            ((1, 0, {"x": 1.5, "y": 2}, [{"y": 3}, None], {"k": {"z": b"z"}}, "[1.0]", bytes(16)),
             None),
            ((None, None, None, None, None, None, None), None),
            ((None, None, None, None, None, None, None),
             '{"a":null,"t":null,"o":7,"new":{"n":null}}'),
            ((2, 1500, {"x": None, "y": None}, [{"y": None}, None], {"k": {"z": None}}, "null",
              None), '{"o":{"x":"no","y":null},"l":{"0":{"w":1},"1":"item"},"m":{"k":{"z":null}}}'),
            ((3, None, {"x": None, "y": None}, [], {}, '{"p":1}', None), "no JSON"),
        )
    ],
    said='{"rest":"_rest","nulls":["a","l.item.y","m.value.z"],"texts":["p"],"uuids":["u"]}',
    objects=[
        ('{"a":1,"t":"1970-01-01T00:00:00Z","o":{"x":1.5,"y":2.00},"l":[{"y":3},null],'
         '"m":{"k":{"z":"eg=="}},"p":[1.0],"u":"00000000-0000-0000-0000-000000000000"}'),
        '{"a":null}',
        '{"t":null,"o":7,"new":{"n":null}}',
        ('{"a":2,"t":"1970-01-01T00:00:01.500000Z","o":{"x":"no","y":null},'
         '"l":[{"y":null,"w":1},"item"],"m":{"k":{}},"p":null}'),
        '{"a":3,"o":{},"l":[],"m":{},"p":{"p":1},"_rest":"no JSON"}',
    ],
)  # fmt: skip
_MONEY = logical("bytes", "decimal", precision=9, scale=2)
_VALUES = {
    "type": "record",
    "name": "Values",
    "fields": [
        field("n", ["int", "null", "long"]),
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        field("d", ["null", {"name": "D", "size": 4, **_MONEY, "type": "fixed"}]),
        field("b", _MONEY),
        field("f", ["float", "double"]),
        field("l", [{"type": "array", "items": ["string", "null"]}, "null"]),
        field("m", {"type": "map", "values": "boolean"}),
        field("at", ["null", logical("long", "timestamp-millis")]),
    ],
}
SEGMENTS["avro-values"] = Golden(
    "records that were Avro: a registry's id, unions, an enum, decimals",
    _VALUES,
    [
        Record(dict(zip("nedbflm", values, strict=True)) | {"at": at})
        for *values, at in (
            (1, "A", decimal.Decimal("-1.28"), decimal.Decimal("-1.28"), 0.5, ["x", None], {}, 0),
            (2**31, "B", None, decimal.Decimal("1.28"), -0.0, [], {"k": True, "": False}, None),
            (None, "A", decimal.Decimal("0.01"), decimal.Decimal(0), 1e300, None, {}, START),
        )
    ],
    said_of_avro=(
        '{"id":7,"types":{"n":["int","null","long"],"e":{"enum":["A","B"]},'
        '"d":["null",{"fixed":4}],"f":["float","double"],"l":["array","null"],'
        '"l.item":["string","null"]}}'
    ),
    datums=[
        "000000000700020002ffffff8004ff8002000000000000e03f00040002780200000200",
        "00000000070480808080100200040080020000000000000080000004026b0100000000",
        "0000000007020002000000010200029c7500883ce4377e0200028082d8c7fe4e",
    ],
)  # fmt: skip
_LEG = {"type": "record", "name": "Leg", "fields": [field("to", "string")]}
SEGMENTS["unions"] = Golden(
    "records of two types that were Avro, and unions inside them",
    [
        {
            "type": "record",
            "name": "Paid",
            "namespace": "shop",
            "fields": [
                field("id", "long"),
                field("by", ["string", {"type": "enum", "name": "E", "symbols": ["A", "B"]},
                             "double", "null"]),
            ],
        },
        {
            "type": "record",
            "name": "Moved",
            "namespace": "shop",
            "fields": [
                field("id", "long"),
                field("legs", {"type": "array", "items": ["null", "int", _LEG]}),
            ],
        },
    ],
    [
        Record(value)
        for value in (
            ("shop.Paid", {"id": 1, "by": ("shop.E", "B")}),
            ("shop.Moved", {"id": 1, "legs": [None, 5, {"to": "x"}]}),
            {"id": 2, "by": None},
            {"id": 3, "legs": []},
            {"id": 4, "by": 0.5},
        )
    ],
    said_of_avro=(
        '{"types":{"member0":"record","member0.by":["member0","member1","member2","null"],'
        '"member0.by.member0":"string","member0.by.member1":{"enum":["A","B"]},'
        '"member0.by.member2":"double","member1":"record","member1.legs.item.member0":"int",'
        '"member1.legs.item.member1":"record"}}'
    ),
    datums=["00020202", "02020600020a04027800", "000406", "020600", "000804000000000000e03f"],
)  # fmt: skip
for _name in ("avro", "nested", "many-rows", "unions"):
    SEGMENTS[f"native-{_name}"] = SEGMENTS[_name]._replace(
        shows=f"{SEGMENTS[_name].shows}, written by the native core",
        records=SEGMENTS[_name].records[:60],
        native=True,
        said_of_avro=None,  # its records are rows
        datums=(),
    )
for _compression in ("none", "gzip", "snappy", "lz4", "zstd"):
    SEGMENTS[f"compression-{_compression}"] = Golden(
        f"columnar.encoding.compression={_compression}", SMALL, RECORDS, compression=_compression
    )
for _count in range(5):
    for _members in itertools.combinations(ALL, _count):
        SEGMENTS["metadata-" + ("-".join(_members) or "none")] = Golden(
            f"columnar.metadata={','.join(_members) or 'none'}", SMALL, RECORDS[:4], _members
        )


def build(name: str, golden: Golden) -> tuple[bytes, dict[str, Any]]:
    """One segment's bytes, and what they mean."""
    schema = RecordSchema.parse(golden.schema)
    columns = RowColumns(schema)
    builder = columns.builder()
    for record in golden.records:
        builder.append(columns.take(record.value)[0])
    rows, refused = builder.finish()
    assert not refused, refused
    column = kafka_column.KafkaColumn(golden.members)
    segment = f"golden-{name}"[:40]
    batch = column.append_to(
        rows,
        segment=segment,
        timestamps=kafka_column.timestamp_array([record.timestamp for record in golden.records]),
        keys=kafka_column.key_array([record.key for record in golden.records]),
        headers=kafka_column.header_array([record.headers for record in golden.records]),
    )
    times = [record.timestamp for record in golden.records]
    header = SegmentHeader(
        rows=batch.num_rows,
        segment=segment,
        schema=fingerprint(batch.schema),
        timestamp_min=min(times),
        timestamp_max=max(times),
        schema_id=golden.schema_id,
    )
    footer = header.footer()
    if golden.said is not None:
        footer["columnar.json"] = golden.said.encode()
    if golden.said_of_avro is not None:
        footer["columnar.avro"] = golden.said_of_avro.encode()
    data = ParquetEncoder(golden.compression).encode(batch, footer).to_pybytes()
    if golden.native:
        data, header = produced(golden)
    pairs = with_checksum(header.footer(), data).items()
    headers = [[key, value.decode()] for key, value in pairs]
    records = [
        {
            "key": None if "key" not in golden.members or record.key is None else record.key.hex(),
            "timestamp": record.timestamp if "timestamp" in golden.members else max(times),
            "headers": None
            if "headers" not in golden.members or record.headers is None
            else [[key, None if value is None else value.hex()] for key, value in record.headers],
        }
        for record in golden.records
    ]
    return data, {
        "shows": golden.shows,
        "sha256": hashlib.sha256(data).hexdigest(),
        "compression": golden.compression,
        "metadata": list(golden.members),
        "headers": headers,
        "canonical": canonical(batch.schema).splitlines(),
        "rows": plain_rows(rows),
        "records": records,
        **({} if golden.said is None else {"json": golden.said, "objects": [*golden.objects]}),
        **(
            {"said_of_avro": golden.said_of_avro, "datums": [*golden.datums]}
            if golden.said_of_avro is not None
            else {}
        ),
    }


def produced(golden: Golden) -> tuple[bytes, SegmentHeader]:
    """Return the segment that a producer makes, with the native core where that is on."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {
        "columnar.encoding": "parquet",
        "columnar.encoding.compression": golden.compression,
        "columnar.metadata": ",".join(golden.members),
    }
    with kafka.Producer(config) as producer:
        producer.set_schema("t", golden.schema)
        for value, key, timestamp, headers in golden.records:
            producer.produce("t", value, key, timestamp=timestamp, headers=headers)
    [message] = kafka.messages("t", 0)
    return message.value(), parse_headers(message.headers())[0]


def to_json(meaning: dict[str, Any]) -> str:
    """JSON with an element of each list on its own line: few bytes, and a diff can be read."""
    lines = []
    for key, value in meaning.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    for name, golden in SEGMENTS.items():
        assert native.enabled or not golden.native, native.reason
        file, side = HERE / f"{name}.parquet", HERE / f"{name}.json"
        if file.exists() or side.exists():
            print(f"{name}: there already, not touched")  # noqa: T201
            continue
        data, meaning = build(name, golden)
        file.write_bytes(data)
        side.write_text(to_json(meaning), encoding="ascii")
        print(f"{name}: {len(data)} bytes, {meaning['shows']}")  # noqa: T201


if __name__ == "__main__":
    main()
