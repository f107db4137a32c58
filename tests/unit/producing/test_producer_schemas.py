"""`set_schema` again, and `produce_arrow`, on the surface; Kafka is in memory."""

from __future__ import annotations

import gc
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from arrow_types import optional, storable
from confluent_kafka import KafkaError, KafkaException
from inside import pipeline_of
from support import Reports

from columnar_kafka import ArrowReport, ConfigError, RowError, SchemaError
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = pa.schema([("n", pa.int32()), ("text", pa.string())])
JSON = {"columnar.encoding": "parquet", "columnar.value.format": "json"}
GROWN = pa.schema([("more", pa.float64()), ("text", pa.string()), ("n", pa.int64())])


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    with FakeKafka() as fake:
        fake.create_topic("t", 3)
        yield fake


def make(kafka: FakeKafka, **config: Any) -> Any:
    given = {key.replace("__", "."): value for key, value in config.items()}
    producer = kafka.Producer({"columnar.encoding": "parquet"} | given)
    producer.set_schema("t", SMALL)
    return producer


def values(kafka: FakeKafka) -> list[Any]:
    return [record.value() for record in kafka.records("t")]


# --- schemas in the configuration ---------------------------------------------------------------


def test_topics_have_the_schemas_of_the_configuration(kafka: FakeKafka) -> None:
    """So a service that produces bytes changes its import and its configuration only."""
    avro = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    schemas = {"t": SMALL, "u": json.dumps(avro)}
    with kafka.Producer({**JSON, "columnar.schema.topics": schemas}) as producer:
        producer.produce("t", '{"n":1,"text":"a"}', partition=0)
        producer.produce("u", b'{"n":2}')
        producer.produce("v", b'{"n":3}')
    for topic, is_there in (("t", True), ("u", True), ("v", False)):
        [message] = kafka.messages(topic)
        assert is_segment(message.headers()) == is_there
    assert values(kafka) == [{"n": 1, "text": "a", "_rest": None}]


def test_a_schema_of_the_configuration_may_grow(kafka: FakeKafka) -> None:
    with kafka.Producer({**JSON, "columnar.schema.topics": {"t": SMALL}}) as producer:
        producer.set_schema("t", GROWN)
        with pytest.raises(SchemaError, match="'more'"):
            producer.set_schema("t", pa.schema([("n", pa.int32())]))


@pytest.mark.parametrize(
    ("schemas", "error", "text"),
    [
        ("infer", ConfigError, "columnar.schema.topics must be a dict of topics and their schemas"),
        ({1: SMALL}, ConfigError, "columnar.schema.topics must be a dict"),
        ({"t": pa.schema([("n", pa.null())])}, SchemaError, "'n'"),
        ({"compacted": SMALL}, SchemaError, "cleanup.policy=compact"),
        ({"t": 5}, TypeError, "int"),
    ],
)
def test_schemas_of_the_configuration_are_checked(
    kafka: FakeKafka, schemas: Any, error: type[Exception], text: str
) -> None:
    kafka.create_topic("compacted", 1, compacted=True)
    threads = threading.active_count()
    with pytest.raises(error, match=text):
        kafka.Producer({**JSON, "columnar.schema.topics": schemas})
    gc.collect()
    assert threading.active_count() == threads


def test_without_an_encoding_the_schemas_of_the_configuration_wait(kafka: FakeKafka) -> None:
    with kafka.Producer({"columnar.schema.topics": {"t": SMALL}}) as producer:
        producer.produce("t", b"{}", partition=0)
    assert values(kafka) == [b"{}"]


# --- a schema that grows ------------------------------------------------------------------------


def test_records_before_and_after_a_grown_schema_have_each_their_own(kafka: FakeKafka) -> None:
    producer = make(kafka)
    producer.produce("t", {"n": 1, "text": "a"}, partition=0)
    producer.set_schema("t", GROWN)
    producer.produce("t", {"n": 1 << 40, "text": "b", "more": 0.5}, partition=0)
    assert producer.flush(60) == 0
    assert values(kafka) == [{"n": 1, "text": "a"}, {"more": 0.5, "text": "b", "n": 1 << 40}]


def test_a_type_that_pyarrow_cannot_write_is_refused_at_once(kafka: FakeKafka) -> None:
    """And not with each record: pyarrow 19 to 21 have such a type."""
    producer = make(kafka)
    for narrow in optional("decimal32", 9, 2):
        schema = pa.schema([("d", pa.list_(narrow))])
        if storable("decimal32", 9, 2):
            producer.set_schema("decimals", schema)
        else:
            with pytest.raises(SchemaError, match=r"decimal32\(9, 2\); .* pyarrow 22 or later"):
                producer.set_schema("decimals", schema)
    assert producer.flush(60) == 0


def test_a_schema_that_is_no_growth_is_refused_and_the_old_one_stays(kafka: FakeKafka) -> None:
    producer = make(kafka)
    with pytest.raises(SchemaError, match="'text'"):
        producer.set_schema("t", pa.schema([("n", pa.int32())]))
    producer.produce("t", {"n": 1, "text": "a"})
    assert producer.flush(60) == 0
    assert values(kafka) == [{"n": 1, "text": "a"}]


def test_the_same_schema_again_changes_nothing(kafka: FakeKafka) -> None:
    producer = make(kafka)
    encoder = pipeline_of(producer).formats["t"].encoder
    producer.set_schema("t", SMALL)
    assert pipeline_of(producer).formats["t"].encoder is encoder
    producer.produce("t", {"n": 1, "text": "a"})
    assert producer.flush(60) == 0


def test_a_lowered_limit_is_learned_from_set_schema(kafka: FakeKafka) -> None:
    producer = make(kafka)
    kafka.create_topic("t", 3, max_message_bytes=50_000)
    producer.set_schema("t", SMALL)
    limits = pipeline_of(producer).formats["t"].limits
    assert (limits.most, limits.target, limits.window) == (49_488, 49_488, 50_000)


# --- Arrow --------------------------------------------------------------------------------------


def test_whatever_exports_arrow_is_sent(kafka: FakeKafka) -> None:
    producer = make(kafka)
    table = pa.table({"n": pa.array([1, 2], pa.int64()), "text": ["a", None]})
    for data in (table, table.to_batches()[0], pl.from_arrow(table), table.to_pandas()):
        producer.produce_arrow("t", data, partition=1)
    producer.produce_arrow("t", table.to_reader(), partition=1)
    assert producer.flush(60) == 0
    assert values(kafka) == [{"n": 1, "text": "a"}, {"n": 2, "text": None}] * 5


def test_a_call_has_keys_times_and_headers_and_one_report(kafka: FakeKafka) -> None:
    reports: list[Any] = []
    producer = make(kafka)
    data = pa.table(
        {
            "n": [1, 2],
            "text": ["a", "b"],
            "who": ["x", None],
            "when": [7, None],
            "with": pa.array([[("h", b"1")], None], pa.map_(pa.string(), pa.binary())),
        }
    )
    producer.produce_arrow(
        "t",
        data,
        partition=2,
        key="who",
        timestamp="when",
        headers="with",
        on_delivery=lambda *report: reports.append(report),
    )
    assert len(producer) == 2
    assert producer.flush(60) == 0
    [(error, report)] = reports
    assert error is None
    assert isinstance(report, ArrowReport)
    assert (report.topic(), report.partition(), report.records, report.failed) == ("t", 2, 2, 0)
    first, second = kafka.records("t", 2)
    assert (first.key(), first.timestamp(), first.headers()) == (b"x", (1, 7), [("h", b"1")])
    assert (second.key(), second.headers()) == (None, None)
    assert second.timestamp()[1] > 1_000_000_000_000
    assert report.offset() == second.offset()


def test_the_configured_callback_gets_the_report(kafka: FakeKafka) -> None:
    seen: list[Any] = []
    producer = make(kafka, on_delivery=lambda _, message: seen.append(message.records))
    producer.produce_arrow("t", pa.table({"n": [1, 2, 3], "text": ["a"] * 3}))
    assert producer.flush(60) == 0
    assert seen == [3]


@pytest.mark.parametrize("where", ["call", "configuration"])
def test_the_callback_may_be_false(kafka: FakeKafka, where: str) -> None:
    reports = Reports()
    producer = make(kafka, **({"on_delivery": reports} if where == "configuration" else {}))
    given = {"on_delivery": reports} if where == "call" else {}
    producer.produce_arrow("t", pa.table({"n": [1], "text": ["a"]}), **given)
    producer.flush()
    assert [(error, message.records) for error, message in reports] == [(None, 1)]


def test_no_rows_are_one_report_all_the_same(kafka: FakeKafka) -> None:
    seen: list[Any] = []
    producer = make(kafka)
    empty = SMALL.empty_table()
    producer.produce_arrow("t", empty, on_delivery=lambda *report: seen.append(report))
    assert len(producer) == 0
    producer.poll(0)
    [(error, report)] = seen
    assert (error, report.records, report.failed, report.offset()) == (None, 0, 0, None)
    assert kafka.count("t") == 0


def test_nothing_of_refused_data_is_taken(kafka: FakeKafka) -> None:
    producer = make(kafka)
    with pytest.raises(RowError, match="n"):
        producer.produce_arrow("t", pa.table({"n": [1, 1 << 40], "text": ["a", "b"]}))
    with pytest.raises(RowError, match="other"):
        producer.produce_arrow("t", pa.table({"n": [1], "text": ["a"], "other": [1]}))
    with pytest.raises(TypeError):
        producer.produce_arrow("t", [{"n": 1}])
    with pytest.raises(KafkaException) as raised:
        producer.produce_arrow("t", pa.table({"n": [1], "text": ["a"]}), partition=3)
    assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
    assert (len(producer), pipeline_of(producer).queue.used_bytes) == (0, 0)
    extra = pa.table({"n": [1], "text": ["a"], "other": [1]})
    producer.produce_arrow("t", extra, extra="ignore")
    assert producer.flush(60) == 0
    assert values(kafka) == [{"n": 1, "text": "a"}]


def test_a_topic_without_a_schema_takes_no_arrow_data(kafka: FakeKafka) -> None:
    with pytest.raises(SchemaError, match=r"'plain' has no schema here: call set_schema\(\)"):
        make(kafka).produce_arrow("plain", pa.table({"n": [1]}))
    stock = kafka.Producer({})
    with pytest.raises(SchemaError, match="no schema"):
        stock.produce_arrow("t", pa.table({"n": [1]}))


def test_a_closed_producer_takes_no_arrow_data(kafka: FakeKafka) -> None:
    """Not even a topic it has no schema of is what it complains about."""
    producer = make(kafka)
    producer.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce_arrow("plain", pa.table({"n": [1]}))


def test_keys_without_a_place_are_refused(kafka: FakeKafka) -> None:
    producer = make(kafka, columnar__metadata="timestamp")
    with pytest.raises(
        RowError, match=r"columnar\.metadata=timestamp does not store a record's key"
    ):
        producer.produce_arrow("t", pa.table({"n": [1], "text": ["a"]}), key="text")


def test_the_memory_bound_holds_for_arrow_data(kafka: FakeKafka) -> None:
    """What is larger than the bound is taken when nothing else is there: it could never be."""
    producer = make(kafka, queue__buffering__max__kbytes=64)
    kafka.hold()
    large = pa.table({"n": range(50_000), "text": ["a"] * 50_000})
    producer.produce_arrow("t", large, partition=0)
    with pytest.raises(BufferError, match=r"queue\.buffering\.max\.kbytes allows 65536 bytes"):
        producer.produce_arrow("t", large, partition=0)
    kafka.release()
    assert producer.flush(20) == 0
    assert [value["n"] for value in values(kafka)] == list(range(50_000))


def test_outside_a_transaction_arrow_data_is_refused_as_records_are(kafka: FakeKafka) -> None:
    producer = make(kafka, transactional__id="one")
    producer.init_transactions()
    data = pa.table({"n": [1], "text": ["a"]})
    with pytest.raises(KafkaException) as raised:
        producer.produce_arrow("t", data)
    assert raised.value.args[0].code() == KafkaError._STATE
    producer.begin_transaction()
    producer.produce_arrow("t", data)
    producer.commit_transaction()
    assert values(kafka) == [{"n": 1, "text": "a"}]


def test_a_dataframe_changed_afterwards_changes_nothing(kafka: FakeKafka) -> None:
    producer = make(kafka)
    frame = pd.DataFrame({"n": [1, 2], "text": ["a", "b"]})
    producer.produce_arrow("t", frame, partition=0)
    frame.loc[:, "n"] = 9
    assert producer.flush(60) == 0
    assert values(kafka) == [{"n": 1, "text": "a"}, {"n": 2, "text": "b"}]


TIMES = pa.map_(pa.timestamp("us"), pa.int64())


@pytest.mark.parametrize(
    ("field", "compression", "reason"),
    [
        (pa.int64(), "zstd", None),
        (pa.int64(), "gzip", "columnar.encoding.compression=gzip"),
        (TIMES, "zstd", f"column 'n' is of the type {TIMES}"),
        (
            pa.struct([("m", TIMES)]),
            "zstd",
            f"column 'n.m' is of the type {TIMES}",
        ),
    ],
)
def test_the_log_says_why_a_topic_does_without_the_native_core(
    engine: str,
    caplog: pytest.LogCaptureFixture,
    field: pa.DataType,
    compression: str,
    reason: str | None,
) -> None:
    caplog.set_level(logging.INFO, "columnar_kafka")
    kafka = FakeKafka()
    config = {"columnar.encoding": "parquet", "columnar.encoding.compression": compression}
    with kafka.Producer(config) as producer:
        producer.set_schema("t", pa.schema([("n", field)]))
    if engine == "pure":
        reason = "a test goes without it"
    told = f"topic 't': its records are encoded without the native core: {reason}"
    assert caplog.messages == ([] if reason is None else [told])
