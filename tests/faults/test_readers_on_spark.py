"""What both encoders write is read equal by every reader of Parquet, whatever its type."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from arrow_readers import SPARK_OPTIONS, Reader, readers
from columns_compared import difference
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from nesting import LEAVES, RandomRows
from support import by_profile, examples
from typed_rows import rows_of, schema_of

from columnar_kafka import native
from columnar_kafka.columns.native_format import native_columns
from columnar_kafka.position import MAX_ROWS
from columnar_kafka.schema.arrow import normalise
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

ROWS = by_profile(2_000, 100_000)
MOST_ROWS = by_profile(20_000, MAX_ROWS)
LARGEST = 500_000_000
ALL_IN_ONE_SEGMENT = {
    "columnar.encoding": "parquet",
    "columnar.linger.ms": 900_000,
    "columnar.segment.bytes": LARGEST // 2,
    "columnar.segment.rows": MAX_ROWS,
    "message.max.bytes": LARGEST,
    "message.timeout.ms": 3_600_000,
    "queue.buffering.max.kbytes": 8_000_000,
}
LONG = pa.decimal256(76, 2)


@pytest.fixture(scope="module")
def every_reader(spark: Any) -> Iterator[dict[str, Reader]]:
    """All readers by name."""
    for key, value in SPARK_OPTIONS.items():
        spark.conf.set(key, value)
    yield readers(spark)
    for key in SPARK_OPTIONS:
        spark.conf.unset(key)


def check(schema: pa.Schema, rows: list[Any], all_readers: dict[str, Reader], folder: Path) -> None:
    """Write rows with and without the native core, and read both files with every reader."""
    schema = normalise(schema)
    for path, part in written(schema, rows, folder):
        expected = pa.Table.from_pylist(part, schema)
        for name, reader in all_readers.items():
            if refusal := next(filter(None, map(reader.refusal, schema.types)), None):
                with pytest.raises(BaseException, match=refusal):
                    reader.read(path)
            elif not any(map(reader.rounds, schema.types)):
                actual = reader.read(path).drop(["_kafka"])
                assert difference(expected, actual, reader.as_read) is None, (name, path.stem)


def written(schema: pa.Schema, rows: list[Any], folder: Path) -> Iterator[tuple[Path, list[Any]]]:
    """Yield the files of each encoder, with the rows of each file."""
    for encoder in ("native", "pure") if native.enabled else ("pure",):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "enabled", encoder == "native")
            start = 0
            for number, (data, count) in enumerate(produced(schema, rows)):
                path = folder / f"{encoder}-{number}.parquet"
                path.write_bytes(data)
                yield path, rows[start : start + count]
                start += count
            assert start == len(rows)


def produced(schema: pa.Schema, rows: list[Any]) -> list[tuple[bytes, int]]:
    """Return the segments that a producer makes of rows, and the rows in each.

    It is one, but for rows that take more memory than a batch of Python's may.
    """
    kafka = FakeKafka()
    kafka.create_topic("t", 1, max_message_bytes=LARGEST)
    with kafka.Producer(ALL_IN_ONE_SEGMENT) as producer:
        producer.set_schema("t", schema)
        for number, row in enumerate(rows):
            key = None if number % 3 else b"%d" % number
            headers = [("h", None), ("h", b"%d" % number)] if number % 5 == 0 else None
            producer.produce("t", row, key=key, headers=headers, timestamp=number)
    return [
        (bytes(message.value()), int(dict(message.headers())["columnar.rows"]))
        for message in kafka.messages("t", 0)
    ]


# --- types ----------------------------------------------------------------------------------------

TYPES = {
    str(kind): kind for kind, _ in LEAVES if normalise(pa.schema([("v", kind)])).types == [kind]
}


@pytest.mark.parametrize("name", TYPES)
def test_every_type_in_every_nesting(
    name: str, every_reader: dict[str, Reader], tmp_path: Path
) -> None:
    arrow = TYPES[name]
    assert native_columns(schema_of(arrow)) is not None
    check(schema_of(arrow), rows_of(arrow, ROWS), every_reader, tmp_path)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
@example(200)  # decimals of more than 38 digits in a struct, which polars refuses in other words
@example(2306)  # and of 256 bits under a list, in others again
def test_random_nestings(every_reader: dict[str, Reader], tmp_path: Path, seed: int) -> None:
    source = RandomRows(seed)
    check(source.schema, source.rows, every_reader, tmp_path)


def test_duckdb_rounds_decimals_of_more_than_38_digits_to_doubles(
    every_reader: dict[str, Reader], tmp_path: Path
) -> None:
    sent = [row["many"] for row in rows_of(LONG, 1000)]
    rows = [{"v": value} for value in sent]
    for path, part in written(pa.schema([("v", LONG)]), rows, tmp_path):
        column = every_reader["duckdb"].read(path)["v"]
        assert column.type == pa.float64()
        for value, exact in zip(column.to_pylist(), (row["v"] for row in part), strict=True):
            assert math.isclose(value, float(exact), rel_tol=1e-14)


# --- corner cases ---------------------------------------------------------------------------------

COMMON = [
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.decimal128(20, 2),
    pa.list_(pa.string()),
    pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float32()))]),
    pa.map_(pa.string(), pa.int64()),
]
"""Types that every reader has."""


def columns(*types: pa.DataType) -> pa.Schema:
    return pa.schema([(f"f{number}", arrow) for number, arrow in enumerate(types)])


def empty_texts() -> tuple[pa.Schema, list[Any]]:
    schema = columns(pa.string(), pa.binary(), pa.list_(pa.string()))
    return schema, [{"f0": "", "f1": b"", "f2": [""] * (n % 3)} for n in range(3000)]


def all_null() -> tuple[pa.Schema, list[Any]]:
    schema = columns(*COMMON)
    return schema, [dict.fromkeys(schema.names)] * 3000


def one_row() -> tuple[pa.Schema, list[Any]]:
    schema = columns(*COMMON)
    values = [True, -1, 1 << 62, -0.0, "é", b"\0", 0, 1, Decimal("1.25"), [None], None, {"k": 1}]
    return schema, [dict(zip(schema.names, values, strict=True))]


def most_rows() -> tuple[pa.Schema, list[Any]]:
    rows = [{"f0": n * n, "f1": None if n % 10 == 0 else f"{n % 1000}"} for n in range(MOST_ROWS)]
    return columns(pa.int64(), pa.string()), rows


def many_columns() -> tuple[pa.Schema, list[Any]]:
    schema = columns(*[pa.int64(), pa.string()] * 5000)
    rows = [[n if m % 2 == 0 else f"{n}" for m in range(10_000)] for n in range(5)]
    return schema, [dict(zip(schema.names, row, strict=True)) for row in rows]


def dictionary_overflow() -> tuple[pa.Schema, list[Any]]:
    """Columns that begin with few values, and become too many for a dictionary."""
    rows = [{"f0": "a", "f1": 1.5}] * 4000
    rows += [{"f0": f"{n * 7919 % 100_003:040}", "f1": n / 7} for n in range(100_000)]
    return columns(pa.string(), pa.float64()), rows


def large_values() -> tuple[pa.Schema, list[Any]]:
    rng = random.Random(1)
    texts = ["x" * (1 << 20), "é" * (1 << 19), "", None, *(f"{n}" * (1 << 19) for n in range(16))]
    return columns(pa.string(), pa.binary()), [
        {"f0": text, "f1": rng.randbytes(1 << 20)} for text in texts
    ]


CORNERS = [
    empty_texts,
    all_null,
    one_row,
    most_rows,
    many_columns,
    dictionary_overflow,
    large_values,
]


@pytest.mark.parametrize("corner", CORNERS)
def test_corner_cases(
    corner: Callable[[], tuple[pa.Schema, list[Any]]],
    every_reader: dict[str, Reader],
    tmp_path: Path,
) -> None:
    check(*corner(), every_reader, tmp_path)
