"""Records as tables: the same rows in the same order as `poll`, and nothing decoded in vain."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from inside import feed_of
from tables import CONFIG, assigned_consumer, next_position, numbers, put, record_decoded_columns

from columnar_kafka import ConfigError, RowError, SchemaError, SegmentError, native, position
from columnar_kafka.consuming.arrow import table_feed
from columnar_kafka.consuming.feed import fetch_buffer, kafka_message, poller
from columnar_kafka.plain import Avro, Ipc, Json
from columnar_kafka.segment import decoder
from columnar_kafka.testing import FakeKafka
from columnar_kafka.testing.memory import MemoryConsumer

LITTLE = {
    "type": "record",
    "name": "Little",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": ["null", "string"]}],
}


def payload(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def kafka() -> FakeKafka:
    fake = FakeKafka()
    fake.create_topic("t")
    return fake


# --- rows -----------------------------------------------------------------------------------------


def test_rows_of_several_segments_are_one_table_in_order(kafka) -> None:
    for start in (0, 3, 6):
        put(kafka, numbers(start))
    table = assigned_consumer(kafka).consume_arrow(8, 0)
    assert table["n"].to_pylist() == list(range(8))
    offsets = [position.pack(n // 3, n % 3, 3) for n in range(8)]
    places = table["_kafka"].to_pylist()
    assert [place["offset"] for place in places] == offsets
    assert {(place["topic"], place["partition"]) for place in places} == {("t", 0)}
    assert [(place["segment"], place["row"]) for place in places[2:4]] == [("p-0", 2), ("p-1", 0)]


def test_metadata_names_the_topic_and_the_schema(kafka) -> None:
    made = put(kafka, numbers(0))
    name = dict(made.headers)["columnar.schema"]
    table = assigned_consumer(kafka).consume_arrow(8, 0)
    assert table.schema.metadata == {b"columnar.topic": b"t", b"columnar.schema": name}


def test_it_goes_on_inside_a_segment_without_decoding_it_again(kafka, monkeypatch) -> None:
    put(kafka, numbers(0, 10))
    reads = record_decoded_columns(monkeypatch)
    consumer = assigned_consumer(kafka)
    batches = [consumer.consume_arrow(4, 0)["n"].to_pylist() for _ in range(3)]
    assert (batches, len(reads)) == ([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], 1)
    assert consumer.consume_arrow(4, 0) is None


def test_chunks_are_the_decoded_columns_themselves(kafka, monkeypatch) -> None:
    put(kafka, numbers(0, 100))
    addresses = []
    read = decoder.InlineFile.read

    def watched(*args: Any) -> pa.Table:
        table = read(*args)
        addresses.append(table["n"].chunk(0).buffers()[1].address)
        return table

    monkeypatch.setattr(decoder.InlineFile, "read", watched)
    table = assigned_consumer(kafka, at=position.pack(0, 10, 100)).consume_arrow(20, 0)
    chunk = table["n"].chunk(0)
    assert [chunk.buffers()[1].address] == addresses
    assert chunk.to_pylist() == list(range(10, 30))


def test_rows_before_a_damaged_segment_come_without_waiting(kafka, monkeypatch) -> None:
    """Enough rows are buffered, and they cannot go together: more would not help."""
    put(kafka, numbers(0))
    put(kafka, numbers(3), damage=True)
    consumer = assigned_consumer(kafka, at=position.pack(0, 2, 3))
    poll, waits = consumer.memory.poll, []
    monkeypatch.setattr(consumer.memory, "poll", lambda wait: waits.append(wait) or poll(wait))
    assert consumer.consume_arrow(6, 30)["n"].to_pylist() == [2]
    assert set(waits) == {0}


def test_records_and_tables_take_turns(kafka) -> None:
    put(kafka, numbers(0, 6))
    put(kafka, numbers(6, 6))
    consumer = assigned_consumer(kafka)
    taken = [consumer.poll(0).value()["n"]]
    taken += consumer.consume_arrow(3, 0)["n"].to_pylist()
    taken += [message.value()["n"] for message in consumer.consume(4, 0)]
    taken += consumer.consume_arrow(9, 0)["n"].to_pylist()
    assert taken == list(range(12))
    assert next_position(consumer) == position.start(2)


def test_a_table_has_what_librdkafka_was_kept_from_fetching(kafka, monkeypatch) -> None:
    for start in (0, 3, 6):
        put(kafka, numbers(start))
    consumer = assigned_consumer(kafka)
    with monkeypatch.context() as patch:
        patch.setattr(fetch_buffer, "MOST_BYTES", 1)
        assert consumer.poll(0).value() == {"n": 0}
    assert consumer.consume_arrow(8, 1)["n"].to_pylist() == list(range(1, 9))


def test_what_is_too_much_to_wait_while_it_is_paused_is_fetched_again(kafka, monkeypatch) -> None:
    put(kafka, numbers(0, 6))
    put(kafka, numbers(6, 6))
    monkeypatch.setattr(fetch_buffer, "MOST_BYTES", 1)
    consumer = assigned_consumer(kafka)
    assert consumer.poll(0).value() == {"n": 0}
    consumer.pause([TopicPartition("t", 0)])
    consumer.resume([TopicPartition("t", 0)])
    assert consumer.consume_arrow(5, 0)["n"].to_pylist() == [1, 2, 3, 4, 5]
    assert consumer.consume_arrow(6, 0)["n"].to_pylist() == [6, 7, 8, 9, 10, 11]


def test_what_was_handed_out_is_what_is_committed(kafka) -> None:
    put(kafka, numbers(0, 6))
    consumer = assigned_consumer(kafka, **{"enable.auto.commit": False})
    consumer.consume_arrow(2, 0)
    [place] = consumer.commit(asynchronous=False)
    assert place.offset == position.pack(0, 2, 6)
    assert kafka.committed("g", "t", 0).metadata == "1:4:p-0"


def test_two_topics_are_two_tables(kafka) -> None:
    kafka.create_topic("u")
    put(kafka, numbers(0))
    put(kafka, numbers(3), topic="u")
    consumer = assigned_consumer(kafka, "t", "u")
    tables = [consumer.consume_arrow(10, 0) for _ in range(2)]
    topics = [table.schema.metadata[b"columnar.topic"] for table in tables]
    assert sorted(topics) == [b"t", b"u"]
    assert [table.num_rows for table in tables] == [3, 3]


def test_rows_that_take_more_memory_than_is_allowed_are_several_tables(kafka) -> None:
    for start in range(3):
        put(kafka, pa.table({"s": [f"{start}" * 4000] * 10}))
    consumer = assigned_consumer(kafka, **{"columnar.max.decoded.bytes": 80_500})
    assert [consumer.consume_arrow(100, 0).num_rows for _ in range(2)] == [20, 10]


def test_as_many_messages_again_are_fetched_each_time(kafka, monkeypatch) -> None:
    """One first, for a segment may have all that is wanted; then few calls for many messages."""
    for n in range(700):
        kafka.append("t", 0, b"%d" % n)
    asked = []
    fetch = poller.Poller.fetch

    def watched(self: Any, count: int, *args: Any, **kwargs: Any) -> Any:
        asked.append(count)
        return fetch(self, count, *args, **kwargs)

    monkeypatch.setattr(poller.Poller, "fetch", watched)
    assert assigned_consumer(kafka).consume_arrow(700, 0).num_rows == 700
    assert asked == [1, 2, 4, 8, 16, 32, 64, 128, 200, 200, 45]


def test_a_buffer_that_is_full_for_a_table_does_not_stop_librdkafka(kafka, monkeypatch) -> None:
    """The table is about to empty it; pausing librdkafka would drop what it has fetched."""
    for start in (0, 3, 6):
        put(kafka, numbers(start))
    paused = []
    monkeypatch.setattr(MemoryConsumer, "pause", lambda _, keys: paused.append(keys))
    monkeypatch.setattr(fetch_buffer, "MOST_BYTES", 1)
    assert assigned_consumer(kafka).consume_arrow(9, 0)["n"].to_pylist() == [0, 1, 2]
    assert paused == []


def test_while_the_group_cannot_be_asked_it_is_not_asked_all_the_time(kafka, monkeypatch) -> None:
    put(kafka, numbers(0))
    lookups = []

    def failing(*args: Any) -> Any:
        lookups.append(args)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(MemoryConsumer, "committed", failing)
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", 0)])
    assert consumer.consume_arrow(3, 0.5) is None
    assert 1 <= len(lookups) <= 7  # every 0.1 s


@pytest.mark.parametrize("timeout", [0, -1])
def test_what_is_begun_in_the_middle_counts_for_what_is_left_of_it(kafka, timeout) -> None:
    for start in (0, 3, 6):
        put(kafka, numbers(start))
    consumer = assigned_consumer(kafka, at=position.pack(0, 2, 3))
    assert consumer.consume_arrow(6, timeout)["n"].to_pylist() == [2, 3, 4, 5, 6, 7]


def test_where_one_record_was_counted_too_many_one_more_is_fetched(kafka) -> None:
    put(kafka, numbers(0, 6))
    put(kafka, numbers(6))
    consumer = assigned_consumer(kafka, at=position.pack(0, 1, 6))
    assert consumer.consume_arrow(6, -1)["n"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_what_is_resumed_in_the_middle_counts_for_what_is_left_of_it(kafka) -> None:
    for start in (0, 3, 6):
        put(kafka, numbers(start))
    for expected in ([0, 1], [2, 3, 4, 5, 6, 7]):
        with kafka.Consumer({**CONFIG, "enable.auto.commit": False}) as consumer:
            consumer.subscribe(["t"])
            assert consumer.consume_arrow(len(expected), -1)["n"].to_pylist() == expected
            consumer.commit(asynchronous=False)


def test_a_partition_not_begun_as_yet_counts_once_it_is(kafka) -> None:
    kafka.create_topic("two", 2)
    put(kafka, numbers(0, 5), topic="two")
    put(kafka, numbers(5, 5), topic="two", partition=1)
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("two", 0)])
    assert consumer.consume_arrow(2, 0)["n"].to_pylist() == [0, 1]
    consumer.incremental_assign([TopicPartition("two", 1)])
    assert consumer.consume_arrow(8, 5)["n"].to_pylist() == [2, 3, 4, 5, 6, 7, 8, 9]


def test_the_group_is_not_asked_about_a_partition_without_messages(kafka, monkeypatch) -> None:
    """Kafka would be asked in vain each time that fewer records come than are wanted."""
    put(kafka, numbers(0))
    kafka.create_topic("empty")
    asked = []
    monkeypatch.setattr(MemoryConsumer, "committed", lambda *args: asked.append(args) or [])
    consumer = assigned_consumer(kafka)
    consumer.incremental_assign([TopicPartition("empty", 0)])
    assert consumer.consume_arrow(9, 0)["n"].to_pylist() == [0, 1, 2]
    assert asked == []


def test_the_group_is_not_asked_while_there_are_records_enough(kafka, monkeypatch) -> None:
    """Kafka may take a second to answer, and these records need none of it."""
    kafka.create_topic("two", 2)
    put(kafka, numbers(0, 3), topic="two")
    put(kafka, numbers(3, 3), topic="two", partition=1)
    asked = []
    monkeypatch.setattr(MemoryConsumer, "committed", lambda *args: asked.append(args) or [])
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("two", 0, 0), TopicPartition("two", 1)])
    assert consumer.poll(0).value() == {"n": 0}  # what is behind it is buffered by now
    assert consumer.consume_arrow(2, 0)["n"].to_pylist() == [1, 2]
    assert asked == []
    assert consumer.consume_arrow(3, 0)["n"].to_pylist() == [3, 4, 5]
    assert len(asked) == 1


def test_a_position_beyond_the_end_says_nothing_of_a_segment_written_there_later(kafka) -> None:
    """librdkafka started over, and after plain messages a segment came to that offset."""
    consumer = assigned_consumer(kafka, at=position.pack(2, 1, 3))
    assert consumer.consume_arrow(9, 0) is None
    for _ in range(2):
        kafka.append("t", 0, b"plain")
    put(kafka, numbers(0))
    assert consumer.consume_arrow(9, 0)["value"].to_pylist() == [b"plain", b"plain"]
    assert consumer.consume_arrow(9, 0)["n"].to_pylist() == [0, 1, 2]


def test_what_is_behind_a_partition_not_begun_as_yet_waits_for_it(kafka) -> None:
    """It would come twice, and what it overtook never; and that goes on where the group is."""
    kafka.create_topic("two", 2)
    for start in (0, 5, 10):
        put(kafka, numbers(start, 5), topic="two")
    put(kafka, numbers(100, 5), topic="two", partition=1)
    before = kafka.Consumer({**CONFIG, "enable.auto.commit": False})
    before.assign([TopicPartition("two", 1)])
    assert before.consume_arrow(2, 0)["n"].to_pylist() == [100, 101]
    before.commit(asynchronous=False)
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("two", 0)])
    assert consumer.consume_arrow(2, 0)["n"].to_pylist() == [0, 1]
    consumer.incremental_assign([TopicPartition("two", 1)])
    # Buffered: the rest of 0, then 5 to 9, then partition 1, then 10 to 14.
    table = consumer.consume_arrow(11, 0)
    assert table["n"].to_pylist() == [*range(2, 10), 102, 103, 104]
    assert consumer.consume_arrow(11, 0)["n"].to_pylist() == [10, 11, 12, 13, 14]


def test_waiting_ends_with_the_record_that_was_missing(kafka) -> None:
    """Without a timeout: this test would not end."""
    put(kafka, numbers(0))
    put(kafka, numbers(3))
    assert assigned_consumer(kafka).consume_arrow(6, -1).num_rows == 6


def test_waiting_ends_with_what_cannot_go_with_the_rest(kafka) -> None:
    put(kafka, numbers(0))
    kafka.append("t", 0, b"plain")
    consumer = assigned_consumer(kafka)
    assert consumer.consume_arrow(100, -1)["n"].to_pylist() == [0, 1, 2]
    assert consumer.consume_arrow(1, -1)["value"].to_pylist() == [b"plain"]


@pytest.mark.parametrize("decode", ["inline", "isolated"])
def test_only_the_columns_asked_for_are_decoded(kafka, decode) -> None:
    put(kafka, pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}))
    consumer = assigned_consumer(kafka, **{"columnar.decode": decode})
    table = consumer.consume_arrow(1, 0, ["c", "_kafka.offset", "a"])
    assert table.schema.names == ["c", "_kafka", "a"]
    [place] = table["_kafka"].to_pylist()
    assert place == {"offset": position.pack(0, 0, 2)}
    assert consumer.consume_arrow(1, 0, ["_kafka.partition"]).to_pylist() == [
        {"_kafka": {"partition": 0}}
    ]
    consumer.close()


def test_nothing_else_is_decoded(kafka, monkeypatch) -> None:
    put(kafka, pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}))
    asked = record_decoded_columns(monkeypatch)
    assigned_consumer(kafka).consume_arrow(1, 0, ["_kafka.row", "b"])
    assert asked == [["b", "_kafka.row"]]


@pytest.mark.parametrize("columns", [["a.b"], ["a.b", "_kafka.row"]])
def test_a_name_with_a_point_is_that_of_a_column_and_not_of_a_member_too(kafka, columns) -> None:
    """Arrow's reader takes it for both."""
    put(kafka, pa.table({"a.b": [1, 2], "a": [{"b": "x"}, {"b": "y"}]}))
    table = assigned_consumer(kafka).consume_arrow(2, 0, columns)
    assert table.schema.names == [column.partition(".row")[0] for column in columns]
    assert table["a.b"].to_pylist() == [1, 2]


def test_a_column_that_is_not_there_is_an_error_that_takes_nothing(kafka) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka)
    with pytest.raises(SchemaError, match=r"segment at t\[0\]@0: no column 'x'; there are n"):
        consumer.consume_arrow(1, 0, ["n", "x"])
    assert consumer.consume_arrow(1, 0, ["n"])["n"].to_pylist() == [0]


# --- growth ---------------------------------------------------------------------------------------


def test_another_schema_is_another_table(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [3], "s": ["x"]}))
    put(kafka, numbers(4))
    consumer = assigned_consumer(kafka)
    tables = [consumer.consume_arrow(10, 0) for _ in range(3)]
    assert [table["n"].to_pylist() for table in tables] == [[0, 1, 2], [3], [4, 5, 6]]


def test_columns_of_one_schema_go_together_whatever_the_others_are(kafka) -> None:
    first = put(kafka, numbers(0))
    second = put(kafka, pa.table({"n": [3], "s": ["x"]}))
    table = assigned_consumer(kafka).consume_arrow(10, 0, ["n"])
    assert table["n"].to_pylist() == [0, 1, 2, 3]
    names = [dict(message.headers)["columnar.schema"] for message in (first, second)]
    assert table.schema.metadata[b"columnar.schema"] == b",".join(names)


def test_a_schema_that_grew_is_promoted_when_asked(kafka) -> None:
    put(kafka, pa.table({"n": pa.array([0], pa.int32()), "r": [{"x": 1}]}))
    put(kafka, pa.table({"s": ["a"], "n": [1 << 40], "r": [{"x": 2, "y": "b"}]}))
    put(kafka, pa.table({"n": pa.array([2], pa.int32()), "r": [{"x": 3}]}))
    table = assigned_consumer(kafka).consume_arrow(10, 0, ["n", "s", "r"], promote=True)
    assert table.to_pylist() == [
        {"n": 0, "s": None, "r": {"x": 1, "y": None}},
        {"n": 1 << 40, "s": "a", "r": {"x": 2, "y": "b"}},
        {"n": 2, "s": None, "r": {"x": 3, "y": None}},
    ]
    assert table.schema.field("n").type == pa.int64()


INNER = pa.struct([pa.field("l", pa.list_(pa.string()), nullable=False)])
OUTER = pa.struct([pa.field("r", INNER, nullable=False)])
PAIR = pa.list_(pa.field("item", pa.int32(), nullable=False), 2)
NESTED = pytest.mark.parametrize(
    ("kind", "value"), [(OUTER, {"r": {"l": ["a"]}}), (PAIR, [1, 2])], ids=["record", "pair"]
)


def check_castable(table: pa.Table) -> None:
    table.validate(full=True)
    assert table.cast(table.schema).equals(table)


@NESTED
def test_rows_that_a_filter_chose_can_be_cast(kafka, kind, value) -> None:
    """Arrow puts nulls under null lists when it takes rows."""
    column = pa.array([None, value] * 10, kind)
    put(kafka, pa.table({"n": pa.array(range(20)), "c": column}))
    table = assigned_consumer(kafka).consume_arrow(20, 0, filter=pc.field("n") > 15)
    assert table["c"].to_pylist() == [None, value, None, value]
    check_castable(table)


@NESTED
def test_rows_that_lack_a_column_can_be_cast(kafka, kind, value) -> None:
    column = pa.array([None, value], kind)
    put(kafka, pa.table({"n": [0]}))
    put(kafka, pa.table({"n": [1, 2], "c": column}))
    put(kafka, pa.table({"n": pa.array([3], pa.int64())}))
    table = assigned_consumer(kafka).consume_arrow(9, 0, promote=True)
    assert table["c"].to_pylist() == [None, None, value, None]
    check_castable(table)


@NESTED
def test_records_that_grew_by_a_nested_field_can_be_cast(kafka, kind, value) -> None:
    n = pa.field("n", pa.int32(), nullable=False)
    put(kafka, pa.table({"s": pa.array([{"n": 1}, None], pa.struct([n]))}))
    rows = [{"n": 2, "c": value}, None]
    put(kafka, pa.table({"s": pa.array(rows, pa.struct([n, pa.field("c", kind)]))}))
    table = assigned_consumer(kafka).consume_arrow(9, 0, promote=True)
    assert table["s"].to_pylist() == [{"n": 1, "c": None}, None, *rows]
    check_castable(table)


@NESTED
@pytest.mark.parametrize("options", [{}, {"filter": pc.field("n") < 9}, {"promote": True}], ids=str)
def test_arrow_data_that_could_not_be_cast_can_be(kafka, kind, value, options) -> None:
    column = pa.chunked_array([pa.array([value], kind), pa.nulls(1, kind)])
    with pytest.raises(pa.ArrowInvalid, match="nulls in input"):
        column.cast(kind)
    tables = [pa.table({"n": [1, 2], "c": column}) for _ in range(2)]
    tables[1] = tables[1].append_column("m", pa.array([1, 2]))
    for sent in tables[: 1 + len(options)]:
        kafka.append("t", 0, payload(sent))
    table = assigned_consumer(kafka).consume_arrow(4, 0, value=Ipc(), **options)
    assert table["c"].to_pylist()[:2] == [value, None]
    check_castable(table)


def test_what_is_no_growth_is_cut_even_then(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": ["text"]}))
    consumer = assigned_consumer(kafka)
    tables = [consumer.consume_arrow(10, 0, ["n"], promote=True) for _ in range(2)]
    assert [table["n"].to_pylist() for table in tables] == [[0, 1, 2], ["text"]]


# --- what is wrong --------------------------------------------------------------------------------


def test_a_bad_segment_is_raised_after_what_was_before_it_and_passed(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(3), damage=True)
    put(kafka, numbers(6))
    consumer = assigned_consumer(kafka)
    assert consumer.consume_arrow(9, 0)["n"].to_pylist() == [0, 1, 2]
    with pytest.raises(SegmentError, match=r"t\[0\]@1.*damaged"):
        consumer.consume_arrow(9, 0)
    assert next_position(consumer) == position.start(2)
    assert consumer.consume_arrow(9, 0)["n"].to_pylist() == [6, 7, 8]


def test_a_bad_segment_is_raised_at_once_where_enough_records_are_behind_it(kafka) -> None:
    """Without a timeout: a wait for more records would not end."""
    put(kafka, numbers(0), damage=True)
    put(kafka, numbers(3))
    consumer = assigned_consumer(kafka)
    with pytest.raises(SegmentError, match=r"t\[0\]@0.*damaged"):
        consumer.consume_arrow(3, -1)


def test_an_event_is_raised_after_what_was_before_it(kafka) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    assert consumer.consume_arrow(9, -1).num_rows == 3
    with pytest.raises(KafkaException) as raised:
        consumer.consume_arrow(9, -1)
    assert raised.value.args[0].code() == KafkaError._PARTITION_EOF


@pytest.mark.parametrize("buffered", [False, True])
def test_what_a_callback_raises_is_raised_before_records_come(kafka, buffered: bool) -> None:
    """And where there are none, it waits for none."""

    def failing(*_: Any) -> None:
        raise ZeroDivisionError

    consumer = assigned_consumer(kafka, on_commit=failing)
    if buffered:
        put(kafka, numbers(0))
        put(kafka, numbers(3))
        assert consumer.poll(0).value() == {"n": 0}
        feed_of(consumer).serve_soon()
    consumer.commit(offsets=[TopicPartition("t", 0, 0)])
    with pytest.raises(ZeroDivisionError):
        consumer.consume_arrow(1, 0)
    if buffered:
        assert consumer.consume_arrow(5, 0)["n"].to_pylist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("take", ["consume_arrow", "poll_segment"])
def test_the_text_of_an_end_names_its_position(kafka, take: str) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    assert consumer.consume_arrow(9, -1).num_rows == 3
    call = {
        "consume_arrow": lambda: consumer.consume_arrow(9),
        "poll_segment": consumer.poll_segment,
    }
    with pytest.raises(
        KafkaException, match=f"reached end of partition at offset {1 << 20}"
    ) as end:
        call[take]()
    assert end.value.args[0].code() == KafkaError._PARTITION_EOF


def test_an_interrupted_call_has_taken_nothing(kafka, monkeypatch) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(3))
    consumer = assigned_consumer(kafka)
    assert consumer.consume_arrow(1, 0).num_rows == 1
    read = decoder.InlineFile.read
    raising = iter([KeyboardInterrupt])

    def interrupted(*args: Any) -> pa.Table:
        for error in raising:
            raise error
        return read(*args)

    monkeypatch.setattr(decoder.InlineFile, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.consume_arrow(5, 0)
    assert next_position(consumer) == position.pack(0, 1, 3)
    assert consumer.consume_arrow(5, 0)["n"].to_pylist() == [1, 2, 3, 4, 5]


def test_what_a_callback_takes_away_while_it_waits_is_not_in_the_table(kafka, monkeypatch) -> None:
    monkeypatch.setattr(poller, "SERVE_EVERY", 0)
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka)
    poll, polls = consumer.memory.poll, []

    def seeking(timeout: float) -> Any:
        polls.append(timeout)
        if len(polls) == 3:
            consumer.seek(TopicPartition("t", 0, position.pack(0, 1, 3)))
            put(kafka, numbers(3))
        return poll(timeout)

    monkeypatch.setattr(consumer.memory, "poll", seeking)
    assert consumer.consume_arrow(5, 120)["n"].to_pylist() == [1, 2, 3, 4, 5]


def test_what_a_callback_has_taken_meanwhile_does_not_come_again(kafka, monkeypatch) -> None:
    for n in range(6):
        kafka.append("t", 0, b"%d" % n)
    put(kafka, numbers(6))
    consumer = assigned_consumer(kafka)
    poll, taken, calls = consumer.memory.poll, [], []

    def taking(timeout: float) -> Any:
        calls.append(timeout)
        if len(calls) == 6:
            taken.append(consumer.poll(0).value())
            taken.extend(consumer.consume_arrow(2, 0)["value"].to_pylist())
        return poll(timeout)

    monkeypatch.setattr(consumer.memory, "poll", taking)
    taken += consumer.consume_arrow(6, 0)["value"].to_pylist()
    assert taken == [b"%d" % n for n in range(6)]
    assert consumer.consume_arrow(6, 0)["n"].to_pylist() == [6, 7, 8]


GONE = TopicPartition("v", 0)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", [1, 2, 3, 5, 8, 16, 20, 30])
@pytest.mark.parametrize(
    ("call", "left"),
    [
        (lambda _: None, range(15)),
        (lambda consumer: consumer.seek(TopicPartition("v", 0, position.start(2))), range(2, 15)),
        (lambda consumer: consumer.pause([GONE]), ()),
        (lambda consumer: consumer.incremental_unassign([GONE]), ()),
        (lambda consumer: consumer.poll_segment(0), range(15)),  # raises: nothing of it goes
        (lambda _: interrupt(), range(15)),
    ],
    ids=["nothing", "seek", "pause", "unassign", "look", "interrupt"],
)
def test_what_a_callback_does_while_many_are_fetched_is_done_at_once(
    kafka, monkeypatch, call, left, at
) -> None:
    kafka.create_topic("v", 2)
    for n in range(15):
        kafka.append("v", 0, b"%d" % n)
        kafka.append("v", 1, b"%d" % n)
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("v", 0, 0), TopicPartition("v", 1, 0)])
    poll, polls = consumer.memory.poll, []

    def polled(timeout: float) -> Any:
        polls.append(timeout)
        if len(polls) == at:
            call(consumer)
        return poll(timeout)

    monkeypatch.setattr(consumer.memory, "poll", polled)
    taken: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(4):
        with suppress(KafkaException, KeyboardInterrupt):
            table = consumer.consume_arrow(100, 0)
            for row in () if table is None else table.to_pylist():
                taken[row["_kafka"]["partition"]].append(int(row["value"]))
        held = feed_of(consumer).buffer.buffered
        assert feed_of(consumer).poller.is_interrupted or feed_of(
            consumer
        ).buffer.nbytes == kafka_message.bytes_of(held)
    assert len(polls) >= at
    assert taken == {0: list(left), 1: list(range(15))}
    if left == ():
        consumer.resume([GONE])
        assert (consumer.consume_arrow(100, 0) is None) == (GONE not in consumer.assignment())


def test_what_is_full_of_bytes_waits_for_no_more(kafka) -> None:
    """Without a timeout: this test would not end."""
    for start in range(3):
        put(kafka, pa.table({"s": [f"{start}" * 4000] * 10}))
    consumer = assigned_consumer(
        kafka, at=position.pack(0, 1, 10), **{"columnar.max.decoded.bytes": 80_500}
    )
    assert consumer.consume_arrow(30, -1, ["s"]).num_rows == 29


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((0,), ValueError),
        ((1_000_001,), ValueError),
        (("1",), TypeError),
        ((1, "x"), TypeError),
        ((1, 0, "n"), TypeError),
        ((1, 0, []), ValueError),
        ((1, 0, ["n", "n"]), ValueError),
    ],
)
def test_arguments_are_checked(kafka, args, error) -> None:
    with pytest.raises(error):
        assigned_consumer(kafka).consume_arrow(*args)


def test_options_are_checked(kafka) -> None:
    consumer = assigned_consumer(kafka)
    with pytest.raises(TypeError, match="filter must be a pyarrow"):
        consumer.consume_arrow(1, 0, filter=[("n", ">", 1)])
    with pytest.raises(TypeError, match="value must be Avro, Json, Ipc or Registry"):
        consumer.consume_arrow(1, 0, value="json")
    with pytest.raises(TypeError, match="key cannot be Ipc"):
        consumer.consume_arrow(1, 0, key=Ipc())
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.consume_arrow(1, 0)
    raw = kafka.Consumer({**CONFIG, "fetch.raw.bytes": True})
    for call in (lambda: raw.consume_arrow(1), raw.arrow_reader):
        with pytest.raises(ConfigError, match=r"needs columnar\.encoding=parquet"):
            call()


# --- plain messages -------------------------------------------------------------------------------


def little(n: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(LITTLE), {"id": n, "text": f"x{n}"})
    return out.getvalue()


def test_plain_messages_are_bytes_with_their_keys_times_and_headers(kafka) -> None:
    kafka.append("t", 0, b"a", key=b"k", headers=[("h", None), ("h", b"")], timestamp=7)
    kafka.append("t", 0, None, key=None, timestamp=8)
    table = assigned_consumer(kafka).consume_arrow(9, 0)
    assert table["value"].to_pylist() == [b"a", None]
    kafka_column = table["_kafka"].combine_chunks()
    assert kafka_column.field("key").to_pylist() == [b"k", None]
    assert kafka_column.field("timestamp").cast(pa.int64()).to_pylist() == [7, 8]
    assert kafka_column.field("headers").to_pylist() == [
        [{"key": "h", "value": None}, {"key": "h", "value": b""}],
        None,
    ]
    assert kafka_column.field("offset").to_pylist() == [position.pack(0), position.pack(1)]


def test_avro_values_and_keys_become_columns(kafka) -> None:
    for n in range(3):
        kafka.append("t", 0, little(n), key=b"\x02" * (n + 1) if n < 1 else None)
    consumer = assigned_consumer(kafka)
    table = consumer.consume_arrow(9, 0, value=Avro(LITTLE), key=Avro('"long"'))
    assert table.drop_columns("_kafka").to_pylist() == [
        {"id": n, "text": f"x{n}"} for n in range(3)
    ]
    assert table["_kafka"].combine_chunks().field("key").to_pylist() == [1, None, None]
    assert table.schema.metadata[b"columnar.schema"] == b"Little"


def test_formats_go_by_topic(kafka) -> None:
    kafka.create_topic("u")
    kafka.append("t", 0, b'{"n": 1}')
    kafka.append("u", 0, b'{"n": 1}')
    consumer = assigned_consumer(kafka, "t", "u")
    tables = [consumer.consume_arrow(9, 0, value={"t": Json()}) for _ in range(2)]
    names = {table.schema.metadata[b"columnar.topic"]: table.schema.names[0] for table in tables}
    assert names == {b"t": "n", b"u": "value"}


def test_a_value_that_does_not_decode_harms_only_itself(kafka) -> None:
    for n in range(40):
        kafka.append("t", 0, b"?" if n in (0, 17, 18, 39) else b'{"n": %d}' % n)
    consumer = assigned_consumer(kafka)
    taken, bad = [], []
    while True:
        try:
            table = consumer.consume_arrow(100, 0, ["n"], value=Json())
        except RowError as error:
            bad.append((error.kafka_error.code(), str(error).split(":")[0]))
            continue
        if table is None:
            break
        taken += table["n"].to_pylist()
    assert taken == [n for n in range(40) if n not in (0, 17, 18, 39)]
    assert bad == [
        (
            KafkaError._VALUE_DESERIALIZATION,
            f"plain message at t[0]@{n} (position {position.pack(n)})",
        )
        for n in (0, 17, 18, 39)
    ]
    assert next_position(consumer) == position.start(40)


def test_a_key_that_does_not_decode_says_so(kafka) -> None:
    kafka.append("t", 0, b"a", key=b"\x02\x02")
    with pytest.raises(RowError, match="its key cannot be decoded: is longer") as raised:
        assigned_consumer(kafka).consume_arrow(1, 0, key=Avro('"long"'))
    assert raised.value.kafka_error.code() == KafkaError._KEY_DESERIALIZATION


class CountingJson(Json):
    """Counts the values that it decodes."""

    def __init__(self) -> None:
        self.spans: list[int] = []
        super().__init__()

    @property
    def decoded(self) -> int:
        return sum(self.spans)

    def decode(self, values: Any) -> pa.Array:
        self.spans.append(len(values))
        return super().decode(values)


def test_a_topic_of_rubbish_costs_what_one_bad_message_costs(kafka) -> None:
    """Each call decodes few values, however many are held."""
    form = CountingJson()
    for _ in range(500):
        kafka.append("t", 0, b"?")
    consumer = assigned_consumer(kafka)
    for _ in range(500):
        with pytest.raises(RowError):
            consumer.consume_arrow(500, 0, value=form)
    assert form.decoded < 500 * 20


def test_after_a_bad_value_twice_as_many_are_decoded_at_once_as_were_good(kafka) -> None:
    form = CountingJson()
    for value in [b'{"n": 1}'] * 4 + [b"?"] + [b'{"n": 1}'] * 100:
        kafka.append("t", 0, value)
    consumer = assigned_consumer(kafka)
    assert consumer.consume_arrow(500, 0, value=form).num_rows == 4
    form.spans.clear()
    with pytest.raises(RowError):
        consumer.consume_arrow(500, 0, value=form)
    assert form.spans[0] == 8


def test_rubbish_in_between_costs_little_while_a_partition_is_not_begun(kafka) -> None:
    """Then messages are not known to be plain without a look at each."""
    form = CountingJson()
    kafka.create_topic("empty")
    for _ in range(100):
        for value in (b'{"n": 1}', b'{"n": 1}', b"?"):
            kafka.append("t", 0, value)
    consumer = assigned_consumer(kafka)
    consumer.incremental_assign([TopicPartition("empty", 0)])
    good = bad = 0
    while good + bad < 300:
        try:
            good += consumer.consume_arrow(500, 0, value=form).num_rows
        except RowError:
            bad += 1
    assert (good, bad) == (200, 100)
    assert form.decoded < 300 * 10


def test_inferred_columns_that_do_not_go_together_are_two_tables(kafka) -> None:
    kafka.append("t", 0, b'{"n": 1}')
    kafka.append("t", 0, b'{"n": "x"}')
    consumer = assigned_consumer(kafka)
    batches = [consumer.consume_arrow(9, 0, value=Json())["n"].to_pylist() for _ in range(2)]
    assert batches == [[1], ["x"]]


def test_a_tombstone_is_a_row_of_nulls(kafka) -> None:
    kafka.append("t", 0, little(1), key=b"a")
    kafka.append("t", 0, None, key=b"b")
    table = assigned_consumer(kafka).consume_arrow(9, 0, ["id", "text"], value=Avro(LITTLE))
    assert table.to_pylist() == [{"id": 1, "text": "x1"}, {"id": None, "text": None}]


def test_plain_messages_are_not_looked_at_again_once_they_are_counted(kafka, monkeypatch) -> None:
    """A look at each costs a tenth of the call."""
    for n in range(50):
        kafka.append("t", 0, little(n))
    asked = []
    monkeypatch.setattr(table_feed, "is_segment", asked.append)
    assert assigned_consumer(kafka).consume_arrow(50, 0).num_rows == 50
    assert len(asked) == (6 if native.enabled else 1)  # for all that were fetched together


def test_an_arrow_payload_is_any_number_of_rows_at_one_position(kafka) -> None:
    kafka.append("t", 0, payload(numbers(0, 4)), key=b"k")
    kafka.append("t", 0, payload(numbers(4, 0)))
    kafka.append("t", 0, payload(numbers(4, 2)))
    kafka.append("t", 0, b"no arrow")
    consumer = assigned_consumer(kafka)
    table = consumer.consume_arrow(5, 0, value=Ipc())
    assert table["n"].to_pylist() == [0, 1, 2, 3, 4, 5]
    kafka_column = table["_kafka"].combine_chunks()
    assert kafka_column.field("key").to_pylist() == [b"k"] * 4 + [None] * 2
    assert (
        kafka_column.field("offset").to_pylist() == [position.pack(0)] * 4 + [position.pack(2)] * 2
    )
    with pytest.raises(RowError, match=r"t\[0\]@3"):
        consumer.consume_arrow(5, 0, value=Ipc())


def test_members_that_plain_messages_lack_are_null_when_asked_for(kafka) -> None:
    put(kafka, pa.table({"value": [b"a"]}))
    kafka.append("t", 0, b"b", key=b"k")
    consumer = assigned_consumer(kafka)
    columns = ["value", "_kafka.row", "_kafka.key"]
    with pytest.raises(SchemaError, match=r"t\[0\]@0: no column '_kafka.key'"):
        consumer.consume_arrow(9, 0, columns)
    table = consumer.consume_arrow(9, 0, columns, promote=True)
    assert table.to_pylist() == [
        {"value": b"a", "_kafka": {"row": 0, "key": None}},
        {"value": b"b", "_kafka": {"row": None, "key": b"k"}},
    ]
    with pytest.raises(
        SchemaError, match=r"`_kafka` has no member 'x'; it has segment, row, key, timestamp, "
    ):
        assigned_consumer(kafka).consume_arrow(9, 0, ["_kafka.x"], promote=True)


@pytest.mark.parametrize("columns", [None, ["_kafka", "id"]])
@pytest.mark.parametrize("plain_first", [False, True])
def test_a_topic_of_both_is_one_table_when_asked(kafka, columns, plain_first) -> None:
    """Without a timeout: it does not wait for what cannot go with the rest."""
    for number in range(10):
        if number % 3 == plain_first:
            kafka.append("t", 0, little(number), key=b"k", timestamp=5)
        else:
            put(kafka, pa.table({"id": [number], "text": [f"x{number}"]}))
    options = {"value": Avro(LITTLE), "promote": True}
    table = assigned_consumer(kafka).consume_arrow(10, -1, columns, **options)
    assert table["id"].to_pylist() == list(range(10))
    kafka_type = table.schema.field("_kafka").type
    assert [field.name for field in kafka_type] == [
        *("segment", "row", "key", "timestamp", "headers", "topic", "partition", "offset")
    ]
    assert [field.name for field in kafka_type if not field.nullable] == [
        *("topic", "partition", "offset")
    ]
    for number, row in enumerate(table["_kafka"].to_pylist()):
        is_plain = number % 3 == plain_first
        assert (row["segment"], row["row"]) == ((None, None) if is_plain else (f"p-{number}", 0))
        assert row["key"] == (b"k" if is_plain else None)
        assert row["offset"] == position.pack(number)


def test_members_of_other_types_do_not_go_together(kafka) -> None:
    put(kafka, pa.table({"id": [0], "text": ["x"]}), members=("key",))
    kafka.append("t", 0, little(1), key=b"1")
    consumer = assigned_consumer(kafka)
    options = {"value": Avro(LITTLE), "key": Json(), "promote": True}
    assert [consumer.consume_arrow(2, 0, **options).num_rows for _ in range(2)] == [1, 1]


def test_plain_messages_and_segments_of_the_same_columns_go_together_when_asked(kafka) -> None:
    kafka.append("t", 0, little(1))
    put(kafka, pa.table({"id": [2], "text": ["x2"]}))
    table = assigned_consumer(kafka).consume_arrow(
        9, 0, ["id", "text"], value=Avro(LITTLE), promote=True
    )
    assert table["id"].to_pylist() == [1, 2]
