"""The native core reads segments, or leaves them to Arrow: the records and errors are Arrow's."""

from __future__ import annotations

import gc
import io
import json
import random
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hostile
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nesting import RandomRows, SentSegment
from same_tables import assert_same_tables
from segments import header_of, headers_of
from support import examples

from columnar_kafka import SegmentError
from columnar_kafka.columns import older_arrow
from columnar_kafka.columns.kafka_column import (
    KafkaColumn,
    header_array,
    key_array,
    timestamp_array,
)
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.config import METADATA_MEMBERS, ReadOptions
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.declared_types import with_sizes
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import parse_headers
from columnar_kafka.segment.segment import Segment, record_slices
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GOLDEN = Path(__file__).parents[2] / "golden"
CONFIG = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
Headers = list[tuple[str, bytes]]


class Decoder(InlineDecoder):
    """Counts what was read natively."""

    def __init__(self, options: ReadOptions | None = None) -> None:
        super().__init__(options)
        self.native = 0

    def read_records(self, *arguments: Any) -> Any:
        records = super().read_records(*arguments)
        self.native += records is not None
        return records


class ByArrow(InlineDecoder):
    """Reads tables only."""

    def read_records(self, *_: Any) -> None: ...


def read(headers: Any, value: bytes, decoder: InlineDecoder, start: int = 0) -> str:
    """Return the records of a segment with their types, or its error."""
    try:
        segment = Segment(
            topic="t", partition=0, offset=0, headers=headers, value=value, decoder=decoder
        )
        return repr([*segment.records(start)])
    except SegmentError as error:
        return str(error)


def assert_equal(headers: Any, value: bytes, *, natively: bool = True) -> None:
    """Read a segment both ways, the native one first without and then with a known schema."""
    expected = read(headers, value, ByArrow())
    decoder = Decoder()
    assert read(headers, value, decoder) == expected
    assert read(headers, value, decoder) == expected
    assert decoder.native == 2 * natively
    assert assert_same_tables(headers, value) >= natively


def encoded(table: pa.Table, encoder: Any = None, **footer: bytes) -> tuple[Headers, bytes]:
    """Return a segment with these columns and no metadata of records."""
    header = header_of(table)
    batch = table.combine_chunks().to_batches()[0]
    value = (encoder or ParquetEncoder("zstd")).encode(batch, header.footer() | footer)
    value = value.to_pybytes() if isinstance(value, pa.Buffer) else value
    return headers_of(header, value), value


def produced(schema: pa.Schema, rows: list[Any], **config: Any) -> list[tuple[Headers, bytes]]:
    """Return the segments that a producer makes of rows, some with keys and headers."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer(CONFIG | config) as producer:
        producer.set_schema("t", schema)
        for n, row in enumerate(rows):
            key = None if n % 3 else f"k{n}".encode()
            headers = [("h", None), ("é", b"%d" % n)] if n % 5 == 0 else None
            producer.produce("t", row, key=key, headers=headers, timestamp=1000 + n)
    return [(message.headers(), message.value()) for message in kafka.messages("t", 0)]


# --- equal ----------------------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_random_types_by_pyarrow(seed: int) -> None:
    sent = SentSegment(RandomRows(seed))
    decoder = Decoder()
    expected = read(sent.headers, sent.value, ByArrow())
    assert read(sent.headers, sent.value, decoder) == expected
    assert read(sent.headers, sent.value, decoder, 101) == read(
        sent.headers, sent.value, ByArrow(), 101
    )
    assert_same_tables(sent.headers, sent.value)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_random_types_by_the_producer(seed: int) -> None:
    source = RandomRows(seed)
    compression = source.rng.choice(["none", "snappy", "lz4", "zstd"])
    rows = source.rows[: source.rng.choice([1, 30, 250])]
    config = {"columnar.encoding.compression": compression}
    for headers, value in produced(source.schema, rows, **config):
        decoder = Decoder()
        assert read(headers, value, decoder) == read(headers, value, ByArrow())
        assert_same_tables(headers, value)


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.parquet")))
def test_the_golden_segments(name: str) -> None:
    meaning = json.loads((GOLDEN / f"{name}.json").read_text(encoding="ascii"))
    headers = [(key, text.encode()) for key, text in meaning["headers"]]
    value = (GOLDEN / f"{name}.parquet").read_bytes()
    # Two are compressed with gzip, and one has decimals that an older pyarrow does not know.
    left = ["compression-gzip", "all-null", *(["arrow"] if VERSION < (19, 0) else [])]
    assert_equal(headers, value, natively=name not in left)


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False, None]),
    "int8": (pa.int8(), [-128, 127, 0, None]),
    "uint32": (pa.uint32(), [0, 2**32 - 1, None]),
    "uint64": (pa.uint64(), [0, 2**64 - 1, None]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, None, 0]),
    "float32": (pa.float32(), [0.1, float("nan"), -0.0, None]),
    "float64": (pa.float64(), [1e308, float("-inf"), None]),
    "text": (pa.string(), ["", "é", "a" * 300, "\U0001f600", None]),
    "large_text": (pa.large_string(), ["", "x", None]),
    "binary": (pa.binary(), [b"", b"\xff\x00", None]),
    "fixed": (pa.binary(2), [b"ab", b"\x00\x00", None]),
    "date": (pa.date32(), [0, -719163, 2932897, None]),
    "utc": (pa.timestamp("us", "UTC"), [0, -1, 253402300800000000, None]),
    "millis": (pa.timestamp("ms"), [0, -62135596800001, 253402300799999, None]),
    "nanos": (pa.timestamp("ns", "UTC"), [1000, 1, -1000, None]),
    "zoned": (pa.timestamp("us", "Europe/Paris"), [0, 1711846800000000, -(2**63), None]),
    "offset": (pa.timestamp("ms", "+05:30"), [0, -1, 253402300799999, None]),
    "time_ms": (pa.time32("ms"), [0, 86_399_999, None]),
    "time_us": (pa.time64("us"), [0, 86_399_999_999, None]),
    "time_ns": (pa.time64("ns"), [0, 1, 86_399_999_999_000, None]),
    "duration_s": (pa.duration("s"), [0, -1, 86_399_999_999_999, 2**63 - 1, None]),
    "duration_us": (pa.duration("us"), [0, -(2**63), 1, None]),
    "duration_ns": (pa.duration("ns"), [0, 1000, 1, None]),
    "decimal": (pa.decimal128(5, 2), [Decimal("999.99"), Decimal("-0.01"), Decimal(0), None]),
    "integers": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38), None]),
    "wide": (pa.decimal256(76, 40), [Decimal("-" + "9" * 36 + "." + "9" * 40), Decimal(1), None]),
    "half": (pa.float16(), [0.1, float("nan"), -0.0, float("-inf"), 65504.0, None]),
    "pair": (pa.list_(pa.int64(), 2), [[1, None], [2**40, -1], None]),
    "matrix": (
        pa.list_(pa.list_(pa.decimal128(9, 3), 2), 3),
        [[[Decimal("1.5"), None], None, [Decimal(2), Decimal("-0.125")]], None],
    ),
}


@pytest.mark.parametrize("rows", [1, 5, 3000])
@pytest.mark.parametrize("name", TYPES)
def test_values_at_the_ends_of_each_type(name: str, rows: int) -> None:
    arrow, values = TYPES[name]
    rng = random.Random(1)
    some = older_arrow.array([rng.choice(values) for _ in range(rows)], arrow)
    lists = older_arrow.array(
        [rng.choices(values, k=rng.randint(0, 3)) for _ in range(rows)], pa.list_(arrow)
    )
    structs = pa.StructArray.from_arrays([some], fields=[pa.field("s", arrow)])
    table = pa.table({"flat": some, "list": lists, "struct": structs})
    assert_equal(*encoded(table))


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_that_are_no_dictionary(encoding: str) -> None:
    texts = [None if n % 7 == 0 else f"prefix-{n * n}" for n in range(3000)]
    assert_equal(*foreign(pa.table({"s": texts}), encoding))


def test_a_dictionary_that_is_given_up() -> None:
    table = pa.table({"s": [f"{n:0100}" for n in range(20_000)], "n": range(20_000)})
    assert_equal(*foreign(table, None))


def test_many_pages() -> None:
    lists = [[n] * (n % 4) if n % 9 else None for n in range(20_000)]
    table = pa.table({"n": range(20_000), "l": lists, "s": [f"{n % 100}" for n in range(20_000)]})
    assert_equal(*foreign(table, None, data_page_size=1000))


def foreign(table: pa.Table, encoding: str | None, **options: Any) -> tuple[Headers, bytes]:
    class Foreign:
        def encode(self, batch: pa.RecordBatch, footer: Mapping[str, str]) -> bytes:
            out = io.BytesIO()
            with pq.ParquetWriter(
                out,
                batch.schema,
                use_dictionary=encoding is None,
                column_encoding=encoding and {"s": encoding},
                write_page_checksum=True,
                **options,
            ) as writer:
                writer.write_batch(batch)
                writer.add_key_value_metadata(dict(footer))
            return out.getvalue()

    return encoded(table, Foreign())


def test_all_metadata_of_records() -> None:
    count = 5000
    batch = pa.record_batch({"n": pa.array(range(count))})
    whole = KafkaColumn(METADATA_MEMBERS).append_to(
        batch,
        segment="p-0",
        timestamps=timestamp_array([5 * n for n in range(count)]),
        keys=key_array([None if n % 4 else b"%d" % n for n in range(count)]),
        headers=header_array([[("h", None), ("h", b"x")], None, [], [("", b"")]] * (count // 4)),
    )
    assert_equal(*encoded(pa.Table.from_batches([whole])))


def test_slices_are_cut_by_rows_and_by_bytes() -> None:
    table = pa.table({"s": [f"{n:01000}" for n in range(10_000)]})
    headers, value = encoded(table)
    segment = Segment(
        topic="t", partition=0, offset=0, headers=headers, value=value, decoder=Decoder()
    )
    slices = [(row, columns.values) for row, columns in record_slices(segment, 17, 10_000)]
    assert slices[0][0] == 17
    assert [row["s"] for _, values in slices for row in values] == table["s"].to_pylist()[17:]
    assert max(len(values) for _, values in slices) <= 4096
    assert sum(len(row["s"]) for row in slices[0][1]) <= 4 << 20


@pytest.mark.parametrize(("wanted", "rows"), [(1, 512), (1_000, 1_000), (100_000, 4_096)])
def test_a_slice_has_as_many_rows_as_are_wanted_together(wanted: int, rows: int) -> None:
    headers, value = encoded(pa.table({"n": range(5_000)}))
    segment = Segment(
        topic="t", partition=0, offset=0, headers=headers, value=value, decoder=Decoder()
    )
    slices = [(row, len(columns.values)) for row, columns in record_slices(segment, 0, wanted)]
    assert slices == [(row, min(rows, 5_000 - row)) for row in range(0, 5_000, rows)]


def test_equal_texts_of_a_segment_are_one_object() -> None:
    table = pa.table({"s": ["carrier"] * 9000, "n": range(9000)})
    headers, value = encoded(table)
    segment = Segment(
        topic="t", partition=0, offset=0, headers=headers, value=value, decoder=Decoder()
    )
    assert len({id(record.value["s"]) for record in [*segment.records()]}) == 1


def test_rows_are_ordinary_dicts() -> None:
    """They are copies of one dict: none shares anything with another."""
    names = [f"c{n}" for n in range(40)]
    table = pa.table({name: [1, 2, None] for name in names} | {"l": [[1], None, [2]]})
    headers, value = encoded(table)
    read(headers, value, Decoder())
    nones = sys.getrefcount(None)
    segment = Segment(
        topic="t", partition=0, offset=0, headers=headers, value=value, decoder=Decoder()
    )
    first, second, third = (record.value for record in segment.records())
    assert [*first] == [*names, "l"]
    assert gc.is_tracked(first)
    assert gc.is_tracked(second)
    del first["c7"]
    first |= {"c3": 3, "new": 4}
    first["c7"] = 5
    assert [*first] == [*names[:7], *names[8:], "l", "new", "c7"]
    assert first["c3"] == 3
    assert second == dict.fromkeys(names, 2) | {"l": None}
    second.clear()
    assert third == dict.fromkeys(names) | {"l": [2]}
    del first, second, third, segment
    assert abs(sys.getrefcount(None) - nones) < 40  # some are elsewhere


def test_the_garbage_collector_stays_on_or_off() -> None:
    headers, value = encoded(pa.table({"n": [1, 2, 3]}))
    assert gc.isenabled()
    read(headers, value, Decoder())
    assert gc.isenabled()
    gc.disable()
    try:
        read(headers, value, Decoder())
        assert not gc.isenabled()
    finally:
        gc.enable()


# --- left to Arrow --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "declared", "bad"),
    [
        (pa.int32(), pa.time32("ms"), [0, 86_400_000]),
        (pa.int32(), pa.time32("ms"), [-1]),
        (pa.int64(), pa.time64("us"), [86_400_000_000]),
        (pa.int64(), pa.time64("ns"), [-1]),
        (pa.decimal128(5, 2), pa.decimal128(4, 2), [Decimal("99.99"), Decimal("-100.00")]),
        (pa.decimal256(40, 0), pa.decimal256(39, 0), [Decimal(10**39)]),
    ],
)
def test_values_that_their_type_does_not_allow(
    stored: pa.DataType, declared: pa.DataType, bad: list[Any]
) -> None:
    whole = pa.array(bad, stored)
    column = pa.Array.from_buffers(declared, len(whole), whole.buffers())
    headers, value = encoded(pa.table({"v": column}))
    assert "cannot be decoded" in read(headers, value, ByArrow())
    assert_equal(headers, value, natively=False)


def test_times_in_seconds() -> None:
    """Parquet has none: Arrow stores milliseconds."""
    times = pa.array([0, 1, 86_399], pa.time32("s"))
    assert_equal(*encoded(pa.table({"t": times.cast(pa.time32("ms")), "n": [1, 2, 3]})))
    stamps = pa.array([0, 1, -1], pa.timestamp("s"))
    assert_equal(*encoded(pa.table({"t": times, "s": stamps})), natively=False)


def test_lists_that_lack_their_declared_size() -> None:
    kind = pa.list_(pa.int64(), 2)
    schema = pa.schema([pa.field("l", pa.list_(kind))])
    for last in ([3, None], [3], [], [3, 4, 5]):
        items = pa.array([[[1, 2], None], [], None, [last]], pa.list_(pa.list_(pa.int64())))
        headers, value = foreign(pa.table({"l": items}), None)
        value = with_sizes(pa.py_buffer(value), schema).to_pybytes()
        header = parse_headers(headers)[0]._replace(schema=fingerprint(schema))
        value = value.replace(dict(headers)["columnar.schema"], header.schema.encode())
        assert_equal(headers_of(header, value), value, natively=len(last) == 2)


def test_a_known_schema_with_another_fingerprint() -> None:
    headers, value = encoded(pa.table({"n": [1, 2, 3]}))
    decoder = Decoder()
    read(headers, value, decoder)
    other = [*(dict(headers) | {"columnar.schema": b"0" * 32}).items()]
    assert "columnar.schema is 0000" in read(other, value, decoder)
    assert read(other, value, decoder) == read(other, value, ByArrow())
    assert decoder.native == 1


@pytest.mark.parametrize(
    "options",
    [
        ReadOptions(max_rows=2),
        ReadOptions(max_values=2),
        ReadOptions(max_decoded_bytes=20),
        ReadOptions(max_footer_bytes=20),
    ],
)
def test_limits(options: ReadOptions) -> None:
    headers, value = encoded(pa.table({"n": [1, 2, 3]}))
    decoder = Decoder(options)
    assert "columnar.max." in read(headers, value, decoder)
    assert read(headers, value, decoder) == read(headers, value, ByArrow(options))
    assert decoder.native == 0


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_no_limit_is_wider_than_arrows(seed: int) -> None:
    sent = SentSegment(RandomRows(seed))
    rng = random.Random(seed)
    options = ReadOptions(
        max_decoded_bytes=int(10 ** rng.uniform(3, 5.3)), max_values=rng.randint(250, 999)
    )
    decoder = Decoder(options)
    result = read(sent.headers, sent.value, decoder)
    if decoder.native:
        assert result == read(sent.headers, sent.value, ByArrow(options))
        assert_same_tables(sent.headers, sent.value, options=options)


def test_a_map_with_a_key_twice() -> None:
    maps = pa.array([[("a", 1)], [("b", 1), ("a", 2), ("b", 3)]], pa.map_(pa.string(), pa.int64()))
    assert_equal(*encoded(pa.table({"m": maps})), natively=False)


def test_many_keys_of_a_map() -> None:
    keys = [f"k{n}" for n in range(50)]
    kind = pa.map_(pa.string(), pa.int64())
    assert_equal(*encoded(pa.table({"m": pa.array([[(key, 1) for key in keys]], kind)})))
    twice = pa.array([[(key, 1) for key in [*keys, "k49"]]], kind)
    assert_equal(*encoded(pa.table({"m": twice})), natively=False)


def test_text_that_is_no_utf8() -> None:
    bad = pa.array([b"x", b"\xff"]).cast(pa.binary()).view(pa.string())
    assert_equal(*encoded(pa.table({"s": bad})), natively=False)


def test_a_structure_is_read_with_its_own_metadata() -> None:
    """The metadata of a schema are in its fingerprint, and belong to no other."""
    decoder = Decoder()
    for owner in ("ops", "dev"):
        table = pa.table({"n": [1]}).replace_schema_metadata({"owner": owner})
        headers, value = encoded(table)
        assert read(headers, value, decoder) == read(headers, value, ByArrow())
    assert decoder.native == 2


# --- hostile --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hostile.BOMBS)
def test_bombs(name: str) -> None:
    sent = hostile.BOMBS[name]()
    assert read(sent.headers(), sent.value, Decoder()) == read(
        sent.headers(), sent.value, ByArrow()
    )


DAMAGE = {
    "flips": lambda sent, count, rng: hostile.flips(sent, count, rng, honest=False),
    "mutations": hostile.mutations,
    "bodies": hostile.bodies,
}


@pytest.mark.parametrize(
    ("kind", "compression"),
    [("flips", "zstd"), ("mutations", "zstd"), ("mutations", "none"), ("bodies", "none")],
)
def test_damage(kind: str, compression: str) -> None:
    original = hostile.ordinary(compression)
    cases = DAMAGE[kind](original, examples(1000), random.Random(5))
    assert_equal_or_left(original, cases)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_damage_of_random_types(seed: int) -> None:
    source = RandomRows(seed)
    rows = source.rows[: source.rng.choice([3, 30])]
    config = {"columnar.encoding.compression": "none"}
    for headers, value in produced(source.schema, rows, **config):
        original = hostile.Sent(parse_headers(headers)[0], value)
        cases = hostile.bodies(original, 20, source.rng)
        assert_equal_or_left(original, cases)


def assert_equal_or_left(original: hostile.Sent, cases: Iterator[hostile.Sent]) -> None:
    """Whatever is read natively is read by Arrow, and equal."""
    decoder, arrow = Decoder(), ByArrow()
    expected = read(original.headers(), original.value, decoder)
    for case in cases:
        before = decoder.native
        result = read(case.headers(), case.value, decoder)
        if decoder.native > before:
            assert result == read(case.headers(), case.value, arrow)
            assert_same_tables(case.headers(), case.value)
    assert read(original.headers(), original.value, decoder) == expected
