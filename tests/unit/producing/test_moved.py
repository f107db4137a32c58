"""A topic made again with fewer partitions: records go where they would have gone at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from inside import pipeline_of
from pipeline import NUMBERS, Pipeline, records
from support import eventually

from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.producing.sending import segmenter
from columnar_kafka.producing.sending.moved import MovedRecords
from columnar_kafka.testing import FakeKafka
from columnar_kafka.testing.memory.cluster import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

BEFORE, NOW = 6, 2
GONE = KafkaError._UNKNOWN_PARTITION
CONFIG = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        ("at", pa.timestamp("ns", "UTC")),
        ("tags", pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ]
)


class World:
    """A topic, a producer that knows it, and what the producer was told."""

    def __init__(self, **config: Any) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", BEFORE)
        self.producer = self.kafka.Producer(CONFIG | config)
        self.producer.set_schema("t", SCHEMA)
        self.told: list[tuple[Any, int | None, Any]] = []

    def make_again(self, partitions: int = NOW) -> None:
        with self.kafka.lock:
            del self.kafka.by_name["t"]
            self.kafka.create_topic("t", partitions)

    def produce(self, tag: Any, value: Any, **given: Any) -> None:
        def report(error: KafkaError | None, record: Any) -> None:
            code = None if error is None else error.code()
            self.told.append((tag, code, (record.partition(), record.value(), record.key())))

        self.producer.produce("t", value, on_delivery=report, **given)

    @property
    def codes(self) -> dict[Any, int | None]:
        assert max(Counter(tag for tag, _, _ in self.told).values()) == 1
        return {tag: code for tag, code, _ in self.told}

    def stored(self, partition: int) -> list[Any]:
        """The records of a partition, as a consumer would read them."""
        messages = self.kafka.messages("t", partition)
        return [record for message in messages for record in records(message)]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.producer:
        yield made


def row(n: int) -> dict[str, Any]:
    return {"n": n, "at": 1_700_000_000_000_000_001 + n, "tags": ["a", None, "b"]}


def test_keyed_records_go_where_their_keys_belong_now(world: World) -> None:
    world.make_again()
    for n in range(90):
        headers = [("h", b"%d" % n)]
        world.produce(n, row(n), key=b"%d" % n, headers=headers, timestamp=1000 + n)
    assert world.producer.flush(60) == 0
    assert world.codes == dict.fromkeys(range(90))
    choose = Partitioner("consistent_random").choose
    for partition in range(NOW):
        stored = {record.value["n"]: record for record in world.stored(partition)}
        assert set(stored) == {n for n in range(90) if choose(b"%d" % n, NOW) == partition}
        for n, record in stored.items():
            assert record[1:4] == (b"%d" % n, [("h", b"%d" % n)], 1000 + n)
            assert record.value == row(n)
    for n, _, (partition, value, key) in world.told:
        assert (value, key, partition) == (row(n), b"%d" % n, choose(key, NOW))
    assert pipeline_of(world.producer).queue.used_bytes == 0


def test_records_without_keys_go_somewhere(world: World) -> None:
    for start in range(0, 60, 10):
        world.make_again(NOW)
        for n in range(start, start + 10):
            world.produce(n, row(n))
        assert world.producer.flush(60) == 0
    assert world.codes == dict.fromkeys(range(60))


def test_those_for_which_the_user_has_chosen_fail_beside_the_others(world: World) -> None:
    choose = Partitioner("consistent_random").choose
    mixed = [n for n in range(200) if choose(b"%d" % n, BEFORE) == BEFORE - 1][:8]
    world.make_again()
    for n in mixed:
        world.produce(n, row(n), key=b"%d" % n)
        world.produce(~n, row(~n), key=b"%d" % n, partition=BEFORE - 1)
    world.produce("there", row(1), partition=1)
    assert world.producer.flush(60) == 0
    expected: dict[Any, int | None] = dict.fromkeys(mixed)
    assert world.codes == expected | dict.fromkeys([~n for n in mixed], GONE) | {"there": None}
    failed = [place for tag, code, place in world.told if code is not None]
    assert [(partition, key) for partition, _, key in failed] == [
        (BEFORE - 1, b"%d" % n) for n in mixed
    ]


def test_plain_messages_do_so_too(world: World) -> None:
    with world.kafka.lock:  # none is sent yet: `produce` knows the count of before
        world.make_again()
        for n in range(40):
            world.produce(n, b"%d" % n, key=b"%d" % n)
            world.produce(~n, b"", partition=BEFORE - 1)
    assert world.producer.flush(60) == 0
    expected: dict[Any, int | None] = dict.fromkeys(range(40))
    assert world.codes == expected | dict.fromkeys(range(-40, 0), GONE)
    choose = Partitioner("consistent_random").choose
    for number in range(NOW):
        numbers = sorted(int(message.value) for message in world.stored(number))
        assert numbers == [n for n in range(40) if choose(b"%d" % n, NOW) == number]


@pytest.mark.parametrize("partition", [-1, BEFORE - 1])
def test_arrow_data_is_one_report_all_the_same(world: World, partition: int) -> None:
    reports: list[Any] = []
    data = pa.Table.from_pylist([row(n) for n in range(50)], schema=SCHEMA)
    data = data.append_column("k", pa.array([b"%d" % n for n in range(50)]))
    world.make_again()
    world.producer.produce_arrow(
        "t", data, key="k", partition=partition, on_delivery=lambda *report: reports.append(report)
    )
    assert world.producer.flush(60) == 0
    [(error, report)] = reports
    assert (report.records, report.failed) == (50, 0 if partition < 0 else 50)
    assert (error and error.code()) == (None if partition < 0 else GONE)
    stored = sorted(record.value["n"] for number in range(NOW) for record in world.stored(number))
    assert stored == (list(range(50)) if partition < 0 else [])
    assert pipeline_of(world.producer).queue.used_bytes == 0


def test_what_librdkafka_has_taken_is_moved_as_well(world: World) -> None:
    """It learns later than at once that the partition is gone, and says so in its report."""
    world.kafka.faults.extend([Fault(KafkaError(GONE))] * 3)
    for n in range(30):
        world.produce(n, row(n), key=b"%d" % n)
    world.producer.flush(0)
    eventually(lambda: not world.kafka.faults)
    assert world.producer.flush(60) == 0
    assert world.codes == dict.fromkeys(range(30))
    stored = sorted(
        record.value["n"] for number in range(BEFORE) for record in world.stored(number)
    )
    assert stored == list(range(30))


def test_in_a_transaction_nothing_is_sent_again() -> None:
    world = World(**{"transactional.id": "x"})
    with world.producer as producer:
        producer.init_transactions(10)
        world.kafka.faults.append(Fault(KafkaError(GONE)))
        producer.begin_transaction()
        world.produce(1, row(1), key=b"1")
        with pytest.raises(KafkaException) as raised:
            producer.commit_transaction(60)
        assert raised.value.args[0].txn_requires_abort()
        producer.abort_transaction(60)
        assert world.codes == {1: GONE}
        world.make_again()  # what librdkafka has never had may go to another partition
        producer.begin_transaction()
        for n in range(2, 30):
            world.produce(n, row(n), key=b"%d" % n)
        producer.commit_transaction(60)
        assert world.codes == {1: GONE, **dict.fromkeys(range(2, 30))}


def test_what_cannot_be_read_back_fails_as_before(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(MovedRecords, "unpinned", None)
    world.make_again(1)
    world.produce(1, row(1), key=b"1")
    world.produce(2, row(2), partition=0)
    assert world.producer.flush(60) == 0
    assert world.codes == {1: GONE, 2: None}
    eventually(lambda: "could not be read" in caplog.text)  # after the step
    assert pipeline_of(world.producer).queue.used_bytes == 0


def gone(**settings: Any) -> Pipeline:
    """Return a pipeline whose topic has gone, with a record that was for a partition of it."""
    pipeline = Pipeline(NUMBERS, partitions=BEFORE, partitioner="murmur2_random", **settings)
    pipeline.run(0.0)
    del pipeline.kafka.by_name["t"]
    pipeline.kafka.faults.append(Fault.refusal(KafkaError(GONE)))
    pipeline.numbers(1, key=b"k")
    pipeline.flush()
    assert pipeline.reports == []
    return pipeline


def test_what_cannot_be_read_back_is_logged_after_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    working: list[bool] = []

    pipeline = Pipeline(NUMBERS, partitions=BEFORE)
    pipeline.run(0.0)

    def log(*_: object, **__: object) -> None:
        working.append(pipeline.sender.working)

    monkeypatch.setattr(MovedRecords, "unpinned", None)
    monkeypatch.setattr(segmenter._log, "error", log)
    monkeypatch.setattr(segmenter._log, "exception", log)
    pipeline.kafka.faults.append(Fault.refusal(KafkaError(GONE)))
    pipeline.numbers(1, key=b"k")
    pipeline.flush()
    assert working == [False]
    assert [report.error for report in pipeline.reports] == [GONE]


def test_they_wait_for_the_topic_to_come_back() -> None:
    pipeline = gone()
    pipeline.numbers(2, key=b"k")
    pipeline.run(2.0)
    pipeline.kafka.create_topic("t", 1)
    pipeline.run(4.0)
    pipeline.flush()
    assert [(report.tag, report.error) for report in pipeline.reports] == [(1, None), (2, None)]
    assert [record.value for record in pipeline.sent()] == [{"n": 1}, {"n": 2}]
    assert pipeline.queue.used_bytes == 0


@pytest.mark.parametrize("timeout", [10.0, 300.0])
def test_they_wait_as_long_as_others_of_a_topic_that_is_missing(timeout: float) -> None:
    pipeline = gone(message_timeout=timeout, propagation=30.0)
    for second in range(40):
        pipeline.accumulator.topic_unusable("t", KafkaError(KafkaError._UNKNOWN_TOPIC), second)
        pipeline.run(float(second))
    pipeline.poll()
    expected = KafkaError._MSG_TIMED_OUT if timeout < 30 else KafkaError._UNKNOWN_TOPIC
    assert [(report.tag, report.error) for report in pipeline.reports] == [(1, expected)]
    assert pipeline.queue.used_bytes == 0


def test_purge_reports_them() -> None:
    pipeline = gone()
    pipeline.purge()
    pipeline.poll()
    purged = KafkaError._PURGE_QUEUE
    assert [(report.tag, report.error) for report in pipeline.reports] == [(1, purged)]
    assert pipeline.queue.used_bytes == 0


def test_where_metadata_and_refusals_disagree_it_asks_once_a_second() -> None:
    pipeline = Pipeline(NUMBERS, partitions=BEFORE, message_timeout=9.5)
    pipeline.run(0.0)
    pipeline.kafka.faults.extend([Fault.refusal(KafkaError(GONE))] * 50)
    pipeline.numbers(1, key=b"k")
    pipeline.flush()
    for tenth in range(1, 100):
        pipeline.run(tenth / 10)
    pipeline.poll()
    assert [(report.tag, report.error) for report in pipeline.reports] == [
        (1, KafkaError._MSG_TIMED_OUT)
    ]
    assert 50 - len(pipeline.kafka.faults) <= 11
