"""Filters: the rows are those of filtering afterwards, and what has none is not decoded."""

from __future__ import annotations

import contextlib
import decimal
from typing import TYPE_CHECKING

import hostile
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import TopicPartition
from hostile import BINARY, STRUCT
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples
from tables import assigned_consumer, next_position, numbers, put, record_decoded_columns

from columnar_kafka import SchemaError, SegmentError, position
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.consuming.arrow.table_builder import segment_rows
from columnar_kafka.plain import Json
from columnar_kafka.segment.isolated import IsolatedDecoder
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from columnar_kafka.segment.decoder import Decoder

TIME = pa.scalar(99, pa.timestamp("ms", "UTC"))
HALF = pa.scalar(4500, pa.timestamp("us", "UTC"))


@pytest.fixture
def kafka() -> FakeKafka:
    fake = FakeKafka()
    fake.create_topic("t")
    return fake


def test_a_filter_chooses_rows_and_positions_go_on(kafka) -> None:
    put(kafka, numbers(0, 10))
    put(kafka, numbers(10, 10))
    consumer = assigned_consumer(kafka)
    odd = pc.equal(pc.bit_wise_and(pc.field("n"), 1), 1)
    assert consumer.consume_arrow(3, 0, filter=odd)["n"].to_pylist() == [1, 3, 5]
    assert next_position(consumer) == position.pack(0, 6, 10)
    assert consumer.poll(0).value() == {"n": 6}
    assert consumer.consume_arrow(100, 0, filter=odd)["n"].to_pylist() == list(range(7, 20, 2))
    assert next_position(consumer) == position.start(2)


def test_with_a_filter_it_waits_for_one_row_only(kafka) -> None:
    """Without a timeout: this test would not end."""
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka)
    assert consumer.consume_arrow(100, -1, filter=pc.field("n") > 1)["n"].to_pylist() == [2]


def test_a_filter_may_use_columns_that_are_not_asked_for(kafka) -> None:
    put(kafka, pa.table({"n": [1, 2, 3], "s": ["a", "b", "a"]}))
    condition = (pc.field("s") == "a") & (pc.field("_kafka", "row") > 0)
    table = assigned_consumer(kafka).consume_arrow(9, 0, ["n", "_kafka.offset"], filter=condition)
    assert table.to_pylist() == [{"n": 3, "_kafka": {"offset": position.pack(0, 2, 3)}}]


def test_a_filter_may_use_the_whole_kafka_column(kafka) -> None:
    put(kafka, numbers(0))
    condition = pc.field("_kafka").is_valid()
    assert assigned_consumer(kafka).consume_arrow(9, 0, ["n"], filter=condition).num_rows == 3


def test_a_filter_works_on_plain_messages(kafka) -> None:
    for n in range(10):
        kafka.append("t", 0, b'{"n": %d}' % n)
    consumer = assigned_consumer(kafka)
    table = consumer.consume_arrow(100, 0, ["n"], filter=pc.field("n") > 7, value=Json())
    assert table["n"].to_pylist() == [8, 9]
    assert next_position(consumer) == position.start(10)


@pytest.mark.parametrize("columns", [None, ["n"]], ids=["all columns", "one column"])
def test_a_filter_may_name_no_column(kafka, columns) -> None:
    put(kafka, numbers(0))
    kafka.append("t", 0, b'{"n": 3}')
    consumer = assigned_consumer(kafka)
    for expected in ([0, 1, 2], [3]):
        table = consumer.consume_arrow(3, 0, columns, filter=pc.scalar(value=True), value=Json())
        assert table["n"].to_pylist() == expected
    assert next_position(consumer) == position.start(2)


def test_a_filter_may_match_no_row_of_any_columns(kafka) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka)
    assert consumer.consume_arrow(3, 0, filter=pc.scalar(value=False)) is None
    assert next_position(consumer) == position.start(1)


# --- what is not decoded --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "decoded"),
    [
        (pc.field("n") == 5, [["n"]]),
        (pc.field("_kafka", "timestamp") == HALF, [["_kafka.timestamp"]]),
        ((pc.field("_kafka", "partition") == 0) & (pc.field("n") == 5), [["n"]]),
    ],
    ids=["column", "time", "partition"],
)
def test_of_a_segment_without_a_match_only_what_the_filter_uses_is_decoded(
    kafka, monkeypatch, condition, decoded
) -> None:
    even = pa.table({"n": range(0, 20, 2), "s": ["x"] * 10})
    put(kafka, even)
    assert_none(kafka, condition)
    asked = record_decoded_columns(monkeypatch)
    assert_none(kafka, condition)
    assert asked == decoded


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("n") > 100,
        pc.field("_kafka", "timestamp") > TIME,
        (pc.field("_kafka", "partition") == 3) & (pc.field("n") == 1),
        pc.field("_kafka", "offset") < 0,
    ],
    ids=["column", "time", "partition", "positions"],
)
def test_of_a_segment_that_is_ruled_out_nothing_is_decoded(kafka, monkeypatch, condition) -> None:
    put(kafka, numbers(0, 10).append_column("s", pa.array(["x"] * 10)))
    asked = record_decoded_columns(monkeypatch)
    assert_none(kafka, condition)
    assert asked == []


def assert_none(kafka: FakeKafka, condition: pc.Expression) -> None:
    """No row of the only segment matches: it counts as looked at."""
    consumer = assigned_consumer(kafka)
    assert consumer.consume_arrow(3, 0, filter=condition) is None
    assert next_position(consumer) == position.start(1)
    assert consumer.commit(asynchronous=False)[0].offset == position.start(1)


def test_only_the_segments_that_may_have_rows_are_decoded(kafka, monkeypatch) -> None:
    for start in range(0, 100, 10):
        put(kafka, numbers(start, 10))
    asked = record_decoded_columns(monkeypatch)
    some = (pc.field("n") >= 35) & (pc.field("n") < 42)
    reader = assigned_consumer(kafka, **{"enable.partition.eof": True}).arrow_reader(
        ["n"], filter=some, until_end=True
    )
    assert reader.read_all()["n"].to_pylist() == list(range(35, 42))
    assert asked == [["n"], ["n"], ["n"]]  # the first one for the schema


def test_of_one_with_a_match_each_column_is_decoded_once(kafka, monkeypatch) -> None:
    put(kafka, numbers(0, 10).append_column("s", pa.array(["x"] * 10)))
    asked = record_decoded_columns(monkeypatch)
    consumer = assigned_consumer(kafka)
    for _ in range(3):
        consumer.consume_arrow(1, 0, ["n", "s", "_kafka"], filter=pc.field("n") > 5)
    members = ["_kafka.segment", "_kafka.row", "_kafka.timestamp"]
    assert asked == [["n"], ["s", *members]]


def test_a_segment_without_a_match_is_checked_all_the_same(kafka) -> None:
    put(kafka, numbers(0, 10), damage=True)
    consumer = assigned_consumer(kafka)
    with pytest.raises(SegmentError, match=r"t\[0\]@0"):
        consumer.consume_arrow(3, 0, filter=pc.field("n") > 100)


# --- what a segment says of itself ----------------------------------------------------------------

ROWS = pa.table(
    {
        "n": pa.array([5, 7, None, 9], pa.int64()),
        "f": [1.5, float("nan"), None, 2.5],
        "s": ["b", "c", None, "d"],
        "i": pa.array([1, 2, None, 3], pa.int32()),
        "d": pa.array([1, 2, None, 3], pa.decimal128(20, 2)),
        "t": pa.array([1, 2, None, 3], pa.timestamp("us")),
    }
)
CONDITIONS = [
    pc.field("n") > 6,
    pc.field("n") == 100,
    pc.field("n").is_null(),
    pc.field("f") > 2,
    ~(pc.field("f") < 100),
    pc.field("f").is_nan(),
    pc.field("s") == "c",
    pc.field("s") > "zzz",
    pc.field("i").isin([2, 77]),
    pc.field("d") >= pa.scalar(decimal.Decimal("2.00"), pa.decimal128(20, 2)),
    (pc.field("t") > pa.scalar(1, pa.timestamp("us"))) | (pc.field("n") < 6),
]
Lie = tuple[bytes | None, bytes | None, int | None]


def lying(lies: dict[int, Lie]) -> Callable[[hostile.File], None]:
    """Change the least and the greatest value in columns' statistics.

    The number of nulls is right or not there: Arrow decodes by it.
    """

    def change(file: hostile.File) -> None:
        for column, (least, greatest, nulls) in lies.items():
            meta = file.meta(column)
            meta[:] = [field for field in meta if field[0] != 12]
            given = [(3, hostile.I64, nulls), (5, BINARY, greatest), (6, BINARY, least)]
            said = [list(field) for field in given if field[2] is not None]
            place = next((n for n, field in enumerate(meta) if field[0] > 12), len(meta))
            meta.insert(place, [12, STRUCT, said])

    return change


def append(kafka: FakeKafka, made: hostile.Sent) -> None:
    kafka.append("t", 0, made.value, headers=made.headers())


SAID = st.one_of(st.none(), st.binary(max_size=17), st.sampled_from([b"\0" * 8, b"\xff" * 8]))


@pytest.fixture(scope="module")
def child() -> Iterator[IsolatedDecoder]:
    """A process that decodes for producers that are not trusted."""
    decoder = IsolatedDecoder()
    yield decoder
    decoder.close()


@settings(max_examples=examples(150))
@given(
    lies=st.dictionaries(st.integers(0, 5), st.tuples(SAID, SAID, st.sampled_from([None, 1]))),
    number=st.integers(0, len(CONDITIONS) - 1),
)
def test_statistics_may_say_what_they_like_and_hide_no_row_where_they_are_not_believed(
    child, lies, number
) -> None:
    made = hostile.changed(hostile.sent(ROWS), lying(lies))
    condition = CONDITIONS[number]
    try:
        expected = read(made).filter(condition)
    except SegmentError:  # some Arrow does not decode beside; perhaps the filter does not need it
        with contextlib.suppress(SegmentError):
            assert read(made, condition).num_rows == 0
        return
    table = read(made, condition, child)
    assert repr(table.to_pylist()) == repr(expected.to_pylist())  # NaN is not equal to itself
    believed = read(made, condition)
    assert believed.num_rows == 0 or repr(believed.to_pylist()) == repr(expected.to_pylist())


def read(
    made: hostile.Sent, condition: pc.Expression | None = None, decoder: Decoder | None = None
) -> pa.Table:
    headers = made.headers()
    segment = Segment(
        topic="t", partition=0, offset=0, headers=headers, value=made.value, decoder=decoder
    )
    projection = Projection(ROWS.schema.names, condition)
    rows = segment_rows(segment, 0, 9, projection, segment.to_table)
    return ROWS.schema.empty_table() if rows.table is None else rows.table


@pytest.mark.parametrize(("decode", "rows"), [("inline", 0), ("isolated", 2)])
def test_statistics_that_lie_are_believed_of_producers_that_are_trusted(
    kafka, decode, rows
) -> None:
    least, greatest = ((n).to_bytes(8, "little") for n in (100, 200))
    append(kafka, hostile.changed(hostile.sent(ROWS), lying({0: (least, greatest, 0)})))
    assert found(kafka, decode, pc.field("n") < 8) == rows


@pytest.mark.parametrize(("decode", "rows"), [("inline", 0), ("isolated", 40)])
def test_headers_that_lie_are_believed_of_producers_that_are_trusted(kafka, decode, rows) -> None:
    made = hostile.ordinary("zstd")
    header = made.header._replace(timestamp_min=1000, timestamp_max=2000)
    file = hostile.File.load(made.value)
    for pair in hostile.field(file.footer, 5)[2][1]:
        key = hostile.field(pair, 1)[2].decode()
        if key in header.footer():
            hostile.field(pair, 2)[2] = header.footer()[key]
    # Corrected: pyarrow 17 also writes metadata between the columns, which `File` leaves out.
    append(kafka, hostile.Sent(header, file.correct().bytes()))
    assert found(kafka, decode, pc.field("_kafka", "timestamp") < TIME) == rows


def found(kafka: FakeKafka, decode: str, condition: pc.Expression) -> int:
    """How many rows are found."""
    with assigned_consumer(kafka, **{"columnar.decode": decode}) as consumer:
        table = consumer.consume_arrow(99, 0, filter=condition)
    return 0 if table is None else int(table.num_rows)


@pytest.mark.parametrize(
    ("condition", "rows"), [(pc.field("n") > 7, 2), (pc.field("_kafka", "offset") < 0, 0)]
)
def test_in_another_process_it_is_the_same(kafka, condition, rows) -> None:
    put(kafka, numbers(0, 10))
    assert found(kafka, "isolated", condition) == rows


# --- other schemas --------------------------------------------------------------------------------


def test_a_filter_on_a_column_that_came_later_is_null_before(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [3, 4], "s": ["x", "y"]}))
    some = (pc.field("s") == "y") | pc.field("s").is_null()
    table = assigned_consumer(kafka).consume_arrow(9, 0, ["n", "s"], filter=some, promote=True)
    assert table.to_pylist() == [
        *({"n": n, "s": None} for n in range(3)),
        {"n": 4, "s": "y"},
    ]


def test_the_type_of_a_filter_is_that_of_truth_even_where_nothing_is_decoded(kafka) -> None:
    put(kafka, pa.table({"n": pa.nulls(3, pa.int64())}))
    with pytest.raises(SchemaError, match="is int64, and must be true or false"):
        assigned_consumer(kafka).consume_arrow(1, 0, filter=pc.field("n") + 1)


def test_a_filter_may_fail_on_bytes_that_are_no_text(kafka) -> None:
    put(kafka, pa.table({"b": [b"\0"]}))
    put(kafka, pa.table({"b": [b"\xff"]}))
    consumer = assigned_consumer(kafka)
    for offset in range(2):
        consumer.seek(TopicPartition("t", 0, position.start(offset)))
        with pytest.raises(SchemaError, match=rf"t\[0\]@{offset}: the filter .* fails"):
            consumer.consume_arrow(1, 0, filter=pc.field("b").cast("int8") == 1)


def test_a_filter_on_a_column_that_grew_is_that_of_each_type(kafka) -> None:
    put(kafka, pa.table({"n": pa.array([1, 2], pa.int32())}))
    put(kafka, pa.table({"n": pa.array([1 << 40, 2], pa.int64())}))
    large = pc.field("n") >= pa.scalar(2, pa.int64())
    table = assigned_consumer(kafka).consume_arrow(9, 0, ["n"], filter=large, promote=True)
    assert table["n"].to_pylist() == [2, 1 << 40, 2]


def test_a_filter_that_does_not_fit_a_plain_message_says_where(kafka) -> None:
    kafka.append("t", 0, b'{"n": 0}')
    condition = pc.scalar(1) / pc.field("n") == 1
    with pytest.raises(SchemaError, match=r"plain message at t\[0\]@0: .*divide by zero"):
        assigned_consumer(kafka).consume_arrow(1, 0, filter=condition, value=Json())


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (pc.field("x") > 1, "No match for FieldRef"),
        (pc.field("n") > "text", "no kernel"),
        (pc.field("n") + 1, "must be true or false"),
        (pc.scalar(1) / pc.field("n") == 1, "divide by zero"),
    ],
)
def test_a_filter_that_does_not_fit_is_an_error_that_takes_nothing(kafka, condition, says) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka)
    with pytest.raises(SchemaError, match=says):
        consumer.consume_arrow(1, 0, filter=condition)
    assert consumer.poll(0).value() == {"n": 0}
