"""Random tables of every layout, and filters of every kind: no engine misses a row."""

from __future__ import annotations

import datetime
import io
import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from lakes import GENERATIONS, DeltaLake, DirectoryLake, IcebergLake, audit
from questions import ask
from segments import produced, segment
from support import by_profile

from columnar_kafka import native
from columnar_kafka.ingest import Decoding, Rules
from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.lake.plan import Layout, Mode
from columnar_kafka.lake.tables.bounds import wrong_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUESTIONS = by_profile(2_500, 20_000)
LARGE = 1 << 20
LAST = "\U0010ffff"
UTC = datetime.timezone.utc
# pyiceberg looks for the partitions of the days before and after the one that is asked for.
TIMES = [
    datetime.datetime(1, 1, 2, tzinfo=UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 456_789, tzinfo=UTC),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 456_000, tzinfo=UTC),
    datetime.datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC),
]
TEXTS = [
    "",
    "a",
    "zeta",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00020bb7",
    "a" * 15 + "\ud7ffb",
    "a" * 31 + "\ud7ffb",
    "b" * 16,
    "b" * 17,
    "c" * 33,
    "c" * 100,
    "d" * 15 + LAST + "e",
    LAST * 16,
    "'",
    '"\\\n',
]
FLOATS = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan]


def _integers(bits: int) -> list[int]:
    return [-(1 << (bits - 1)), -1, 0, 7, (1 << (bits - 1)) - 1]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    most = Decimal((0, (9,) * precision, -scale))
    return [-most, -most + most.quantize(Decimal(1).scaleb(-scale)) / most, Decimal(0), most]


class Column(NamedTuple):
    """A type, values of it, and the Avro type that becomes it, if there is one."""

    arrow: pa.DataType
    values: list[Any]
    avro: Any = None


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


COLUMNS = [
    Column(pa.bool_(), [False, True], "boolean"),
    Column(pa.int8(), _integers(8)),
    Column(pa.int16(), _integers(16)),
    Column(pa.int32(), _integers(32), "int"),
    Column(pa.int64(), _integers(64), "long"),
    Column(pa.float32(), FLOATS, "float"),
    Column(pa.float64(), [*FLOATS, 5e-324, 1.7976931348623157e308], "double"),
    Column(pa.string(), TEXTS, "string"),
    Column(pa.binary(), [text.encode() for text in TEXTS] + [b"\xff" * 17, b"\xff"], "bytes"),
    Column(
        pa.date32(),
        [datetime.date(1, 1, 2), datetime.date(1970, 1, 1), datetime.date(9999, 12, 30)],
        _logical("int", "date"),
    ),
    Column(pa.timestamp("us", "UTC"), TIMES, _logical("long", "timestamp-micros")),
    Column(pa.timestamp("ms", "UTC"), TIMES[2:4], _logical("long", "timestamp-millis")),
    Column(pa.timestamp("us"), [time.replace(tzinfo=None) for time in TIMES]),
    Column(
        pa.decimal128(9, 2),
        [Decimal("-9999999.99"), Decimal("0.01"), Decimal("1.25")],
        _logical("bytes", "decimal", precision=9, scale=2),
    ),
    Column(pa.decimal128(38, 10), [Decimal(10**28 - 1), Decimal(-(10**28) + 1), Decimal("0.1")]),
]


class Case:
    """One table: its columns, its segments and how they land; all by one seed."""

    def __init__(self, seed: int, lake: Any) -> None:
        self.random = random.Random(seed)
        self.lake = lake
        self.columns = {
            f"c{number}": self.random.choice(COLUMNS) for number in range(self.random.randint(1, 4))
        }
        self.columns["part"] = Column(pa.string(), ["a", "b"], "string")

    def rows(self, columns: dict[str, Column]) -> pa.Table:
        """Return what a segment has."""
        count = self.random.choice([1, 2, 6])
        values = {name: self._values(column.values, count) for name, column in columns.items()}
        values["part"] = self.random.choices(["a", "b"], k=count)
        arrays = {name: pa.array(values[name], column.arrow) for name, column in columns.items()}
        # polars fails at statistics of a struct with a member that has none.
        members = [array for array in arrays.values() if not pa.types.is_binary(array.type)][:2]
        structs = {"s": pa.StructArray.from_arrays(members, ["x", "y"][: len(members)])}
        return pa.table(arrays | structs)

    def _values(self, values: list[Any], count: int) -> list[Any]:
        some = self.random.sample(values, self.random.randint(1, len(values)))
        share = self.random.choice([0, 0, 0.3, 1])
        return [
            None if self.random.random() < share else self.random.choice(some) for _ in range(count)
        ]

    def encoded(self, tables: list[pa.Table]) -> list[SourceMessage]:
        """Return segments, by one encoder or the other."""
        if native.enabled and self.random.random() < 0.5:
            return produced(tables)
        return [segment(table, offset=n, number=n) for n, table in enumerate(tables)]

    def put(
        self, messages: list[SourceMessage], mode: Mode = Mode.STITCHED, **options: Any
    ) -> None:
        rules, layout = options.pop("rules", None), Layout(mode=mode)
        table = self.lake.table(**options)
        land(messages, table=table, generations=GENERATIONS, layout=layout, rules=rules)

    def tables(self) -> list[pa.Table]:
        return [self.rows(self.columns) for _ in range(self.random.randint(2, 4))]


def stitched(case: Case) -> pa.Table:
    tables = case.tables()
    case.put(case.encoded(tables))
    return pa.concat_tables(tables)


def verbatim(case: Case) -> pa.Table:
    tables = case.tables()
    case.put(case.encoded(tables), Mode.VERBATIM)
    return pa.concat_tables(tables)


def split(case: Case) -> pa.Table:
    tables = case.tables()
    terms = [
        case.random.choice(choices).format(name)
        for name, column in case.columns.items()
        for choices in [TERMS[type(case.lake)].get(column.arrow)]
        if choices
    ]
    by = case.random.sample(terms, case.random.randint(0, min(2, len(terms))))
    case.put(case.encoded(tables), **({"partition_by": by} if by else {}))
    return pa.concat_tables(tables)


def compacted(case: Case) -> pa.Table:
    tables = case.tables()
    messages = case.encoded(tables)
    for number in range(len(messages)):
        case.put(messages[: number + 1])
    case.lake.table().compact(LARGE)
    assert audit(case.lake, messages).findings == []
    return pa.concat_tables(tables)


def grown(case: Case) -> pa.Table:
    """The first segments lack columns that the others have."""
    names = list(case.columns)
    fewer = {name: case.columns[name] for name in names[len(names) // 2 :]}
    tables = [case.rows(fewer).drop(["s"]), *case.tables()]
    messages = case.encoded(tables)
    case.put(messages[:1] if case.random.random() < 0.5 else messages)
    case.put(messages)
    return pa.concat_tables(tables, promote_options="permissive")


def decoded(case: Case) -> pa.Table:
    """Plain messages in Avro."""
    columns = {name: column for name, column in case.columns.items() if column.avro is not None}
    fields = [{"name": name, "type": ["null", column.avro]} for name, column in columns.items()]
    schema = {"type": "record", "name": "r", "fields": fields}
    decoding = Decoding("avro", schema)
    arrow = pa.schema(list(PlainDecoder(decoding).schema)[:-1])
    tables = [case.rows(columns).drop(["s"]).cast(arrow) for _ in range(3)]
    rows = [row for table in tables for row in table.to_pylist()]
    messages = [
        _message(offset, fastavro.parse_schema(schema), row) for offset, row in enumerate(rows)
    ]
    case.put(messages, rules=Rules(plain="decode", decoding=decoding))
    return pa.concat_tables(tables)


def _message(offset: int, schema: Any, row: dict[str, Any]) -> SourceMessage:
    value = io.BytesIO()
    fastavro.schemaless_writer(value, schema, row)
    return SourceMessage(
        topic="t", partition=0, offset=offset, headers=None, value=value.getvalue(), timestamp=1
    )


# Not by what cannot be a partition's: empty texts in Delta, the least integers when truncated.
TERMS: dict[Any, dict[pa.DataType, list[str]]] = {
    DirectoryLake: {},
    DeltaLake: {
        kind: ["{}"] for kind in (pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.date32())
    },
    IcebergLake: {
        pa.bool_(): ["{}"],
        pa.int8(): ["{}", "truncate(10, {})"],
        pa.int64(): ["{}"],
        pa.string(): ["{}", "truncate(3, {})"],
        pa.date32(): ["{}", "year({})", "month({})", "day({})"],
        pa.timestamp("us", "UTC"): ["{}", "year({})", "month({})", "day({})", "hour({})"],
    },
}
LAYOUTS: list[Callable[[Case], pa.Table]] = [stitched, verbatim, split, compacted, grown, decoded]


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_every_filter_finds_exactly_its_rows(
    tmp_path: Path, kind: Any, record_property: Callable[[str, object], None]
) -> None:
    asked = seed = 0
    while asked < QUESTIONS:
        layout = LAYOUTS[seed % len(LAYOUTS)]
        lake = kind(tmp_path / f"{seed}")
        try:
            expected = layout(Case(seed, lake))
            if kind is DeltaLake and seed % 4 == 0:
                lake.load().create_checkpoint()
            asked += ask(lake, expected, values=4)
        except AssertionError as error:
            raise AssertionError(f"{layout.__name__}, seed {seed}: {error}") from error
        table = lake.table()
        assert list(wrong_files(table, table.head())) == [], (layout.__name__, seed)
        seed += 1
    record_property("questions", asked)
    record_property("tables", seed)
