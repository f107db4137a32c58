"""The native core makes tables of segments, or leaves them to Arrow: the tables are Arrow's."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hostile
import hostile_arrow
import hostile_schema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nesting import RandomRows, SentSegment
from same_tables import assert_same_tables
from segments import header_of, headers_of
from support import examples

from columnar_kafka import SegmentError
from columnar_kafka.segment import decoder, native_decoder
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

resource = pytest.importorskip("resource", reason="Windows has none")


def segment(table: pa.Table, own: InlineDecoder | None = None) -> Segment:
    header = header_of(table)
    batch = table.combine_chunks().to_batches()[0]
    value = ParquetEncoder("zstd").encode(batch, header.footer()).to_pybytes()
    headers = headers_of(header, value)
    return Segment(topic="t", partition=0, offset=0, headers=headers, value=value, decoder=own)


def received(sent: hostile.Sent, own: InlineDecoder) -> Segment:
    headers = sent.headers()
    return Segment(topic="t", partition=0, offset=0, headers=headers, value=sent.value, decoder=own)


def is_same(table: pa.Table, columns: list[str] | None = None) -> bool:
    """Compare what is read of a segment with these columns; return whether it is read natively."""
    made = segment(table)
    headers = headers_of(header_of(table), bytes(made.bytes))
    return assert_same_tables(headers, bytes(made.bytes), columns)


def names_in(schema: pa.Schema) -> Iterable[str]:
    for field in schema:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from (f"{field.name}.{member.name}" for member in field.type)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_some_columns_and_members(seed: int) -> None:
    source = RandomRows(seed)
    sent = SentSegment(source)
    names = list(names_in(source.schema))
    for _ in range(4):
        columns = source.rng.sample(names, source.rng.randint(1, len(names)))
        assert_same_tables(sent.headers, sent.value, columns)


@pytest.mark.parametrize("text", ["", "short", "longer than sixteen bytes"])
@pytest.mark.parametrize("nulls", [0, 7])
def test_texts_that_are_all_the_same(text: str, nulls: int) -> None:
    texts = [None if nulls and not n % nulls else text for n in range(1_000)]
    table = pa.table({"text": texts, "binary": pa.array(texts, pa.large_string()).cast("binary")})
    assert is_same(table)
    assert segment(table).to_table()["text"].to_pylist() == texts


STRUCTS = pa.table(
    {
        "n": [1, 2],
        "s": pa.array(
            [{"a": 1, "b": [{"c": "x"}], "d": None}, None],
            pa.struct({"a": pa.int64(), "b": pa.list_(pa.struct({"c": pa.string()})), "d": "bool"}),
        ),
        "last": ["y", None],
    }
)


@pytest.mark.parametrize(
    "columns", [["last", "n"], ["s.a"], ["s.d", "s.b", "n"], ["s.b", "s"], ["n", "n"]]
)
def test_columns_in_any_order(columns: list[str]) -> None:
    assert is_same(STRUCTS, columns)


@pytest.mark.parametrize("columns", [["s.b.list.element.c"], ["s.x"], ["x"], []])
def test_what_only_arrow_can_name(columns: list[str]) -> None:
    assert not is_same(STRUCTS, columns)


def test_names_with_points_are_left_to_arrow() -> None:
    table = pa.table({"s": pa.array([{"a": 1}], pa.struct({"a": pa.int64()})), "s.a": [2]})
    assert not is_same(table, ["s.a"])
    assert is_same(table)


@pytest.mark.parametrize(
    "arrow",
    [
        pa.binary(),
        pa.large_binary(),
        pa.large_list(pa.large_string()),
        pa.map_(pa.string(), pa.list_(pa.int8(), 2)),
        pa.list_(pa.list_(pa.struct({"a": pa.float16(), "b": pa.list_(pa.bool_())})), 3),
        pa.list_(pa.map_(pa.int16(), pa.decimal256(50, 3))),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["null", "empty"])
def test_nothing_but_nulls_or_empty_values(arrow: pa.DataType, kind: str) -> None:
    values = [None] * 20 if kind == "null" else [_empty(arrow)] * 20
    assert is_same(pa.table({"a": pa.array(values, arrow)}))


def _empty(arrow: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(arrow):
        return [[]] * arrow.list_size
    return [] if pa.types.is_nested(arrow) else b""


def test_required_values_below_a_null_are_zeros() -> None:
    fields = [
        pa.field("n", pa.int32(), nullable=False),
        pa.field("s", pa.string(), nullable=False),
        pa.field("l", pa.list_(pa.int64()), nullable=False),
    ]
    rows = [{"n": 7, "s": "x", "l": [1]}, None]
    table = pa.table({"r": pa.array(rows, pa.struct(fields))})
    assert is_same(table)
    records = segment(table).to_table()["r"].chunk(0)
    members = [records.field(index).to_pylist() for index in range(3)]
    assert members == [[7, 0], ["x", ""], [[1], []]]


def test_a_map_with_a_key_twice_is_a_column_though_no_dict() -> None:
    maps = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    assert is_same(pa.table({"m": maps}))


def test_a_file_of_a_known_schema_is_not_opened_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    own = InlineDecoder()
    tables = [pa.table({"n": [n], "s": ["x"]}) for n in range(3)]
    assert segment(tables[0], own).to_table().equals(tables[0])
    monkeypatch.setattr(decoder, "ArrowFile", None)
    again = segment(tables[1], own)
    assert (again.schema, again.to_table(["s"])) == (tables[1].schema, tables[1].select(["s"]))
    assert again.verify()
    assert segment(tables[2], own).to_table().equals(tables[2])


def test_segments_without_a_decoder_know_the_schemas_of_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lake's and Spark's are such: Arrow takes longer to open one than the core to read it."""
    tables = [pa.table({"of no other test": [n]}) for n in range(2)]
    assert segment(tables[0]).schema == tables[0].schema
    monkeypatch.setattr(decoder, "ArrowFile", None)
    assert segment(tables[1]).schema == tables[1].schema


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_a_file_with_another_number_of_columns_than_its_schema_is_refused(columns: int) -> None:
    """By Arrow, which reads no such file: also after one whose schema is the same."""
    honest = hostile.sent(pa.table({"a": [1, 2], "b": [3, 4]}))
    file = hostile.File.load(honest.value)
    for field in (hostile.field(file.footer, 4, 0, 1), hostile.field(file.footer, 7)):
        elements = field[2][1]  # of the row group's columns, and of their orders
        elements[:] = (elements * 2)[:columns]
    forged = replace(honest, value=file.bytes())
    own = InlineDecoder()
    for _ in range(2):
        with pytest.raises(SegmentError):
            received(forged, own).schema  # noqa: B018 - reading the property checks
        assert received(honest, own).schema.names == ["a", "b"]


def test_a_schema_that_takes_much_memory_is_not_remembered() -> None:
    """Its fields share one entry of metadata in the file, and each has it in memory."""
    own = InlineDecoder()
    names = [f"c{n}" for n in range(400)]
    forged = hostile_schema.forged(
        pa.table({name: [True] for name in names}), hostile_arrow.shared_field(400, 40_000)
    )
    assert received(forged, own).schema.field(399).metadata
    assert own.core is not None
    assert not own.core.known


def test_schemas_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_decoder, "_CACHE_BYTES", 40_000)
    own = InlineDecoder()
    assert own.core is not None
    numbers = []
    for n in range(30):
        assert segment(pa.table({f"c{n}": [n]}), own).schema.names == [f"c{n}"]
        numbers.append(len(own.core.known))
    assert numbers[:3] == [1, 2, 3]
    assert 3 <= max(numbers) < 20


def test_damage_in_a_column_that_is_not_read_is_found_by_the_checksum() -> None:
    own = InlineDecoder()
    intact = segment(pa.table({"n": [1], "s": ["x"]}), own)
    intact.to_table()
    damaged = bytearray(intact.bytes)
    damaged[len(damaged) // 4] ^= 1
    other = Segment(
        topic="t",
        partition=0,
        offset=0,
        headers=headers_of(intact.header, bytes(intact.bytes)),
        value=bytes(damaged),
        decoder=own,
    )
    with pytest.raises(SegmentError, match="crc32"):
        other.to_table(["n"])


def test_any_number_of_choices_of_columns() -> None:
    """Those that were made are remembered, up to a bound."""
    table = pa.table({name: [ord(name)] for name in "abcdefg"})
    own = InlineDecoder()
    choices = [list(c) for n in range(1, 8) for c in itertools.combinations("abcdefg", n)]
    assert len(choices) > 100
    for columns in choices:
        read = segment(table, own).to_table(columns)
        assert read == table.select(columns)


def test_columns_outlive_their_table_and_their_segment() -> None:
    texts = [f"text {n % 50}" for n in range(5000)]
    column = segment(pa.table({"s": texts, "n": range(5000)})).to_table()["s"].slice(4000)
    segment(pa.table({"s": texts[::-1]})).to_table()
    assert column.to_pylist() == texts[4000:]


def test_the_memory_of_tables_is_freed() -> None:
    rng = random.Random(1)
    made = segment(pa.table({"n": [rng.getrandbits(60) for _ in range(300_000)]}))
    made.to_table()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        assert made.to_table().nbytes > 2_000_000
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 120_000  # KiB; together they take 230 MiB
