"""A topic whose max.message.bytes is made smaller while a producer goes on."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import confluent_kafka
import producing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType
from reading import everything
from support import eventually, set_config

from columnar_kafka import Producer
from columnar_kafka.broker.base import TopicLimits
from columnar_kafka.broker.confluent import ConfluentProducer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.kafka

LOWERED = 20_000
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("blob", pa.binary())])
SETTINGS = {
    "columnar.segment.rows": 60,  # 30 KB a segment
    "columnar.linger.ms": 200,
    "linger.ms": 50,  # several segments go as one batch of librdkafka's
    "batch.num.messages": 3,
}
READ_COMMITTED = {"isolation.level": "read_committed"}
BLOBS = random.Random(5)
FAIL = ["MSG_SIZE_TOO_LARGE", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
"""Why transactions fail until one is committed: librdkafka 2.16 goes on counting a partition's
messages behind those that were rejected, and learns from the next ones that Kafka does not.
"""


def lower_limit(servers: str, topic: str) -> None:
    """Make it smaller, and wait until the broker says so."""
    admin = set_config(servers, topic, "max.message.bytes", str(LOWERED))
    asked = ConfigResource(ResourceType.TOPIC, topic)

    def told() -> bool:
        configs = admin.describe_configs([asked])[asked].result(60)
        return bool(configs["max.message.bytes"].value == str(LOWERED))

    eventually(told)


def blob(n: int) -> bytes:
    """Return what makes a segment larger than the lowered limit, or much smaller, by turns."""
    return BLOBS.randbytes(500 if n // 200 % 2 else 20)


@pytest.fixture(params=["told", "not told"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the broker tells what a topic accepts."""
    if request.param == "not told":
        monkeypatch.setattr(ConfluentProducer, "limits", lambda *_: TopicLimits())


class Watch:
    """Sees which segments are handed to librdkafka, and which of them come back as too large."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handed: dict[int, int] = {}  # how many segments there are by partition
        self.first_handed: dict[int, int] = {}  # which of them a number was in first
        self.first_refused: dict[int, int] = {}  # and how many there were when that came back
        send = ConfluentProducer.send

        def watched(
            broker: Any, topic: str, partition: int, value: Any, *, acknowledge: Any, **rest: Any
        ) -> None:
            numbers = pq.read_table(pa.BufferReader(value), columns=["n"])["n"].to_pylist()
            index = self.handed.get(partition, 0)
            self.handed[partition] = index + 1
            for n in numbers:
                self.first_handed.setdefault(n, index)

            def returned(error: KafkaError | None, message: Any) -> None:
                acknowledge(error, message)
                if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    for n in numbers:
                        self.first_refused.setdefault(n, self.handed[partition])

            send(broker, topic, partition, value, acknowledge=returned, **rest)

        monkeypatch.setattr(ConfluentProducer, "send", watched)

    def may_overtake(self, later: int, earlier: int) -> bool:
        """Say whether `later` was on its way when `earlier` came back.

        The sender may be about to hand one segment over at that moment.
        """
        return self.first_handed[later] <= self.first_refused.get(earlier, -1)


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_limit_made_smaller_loses_nothing_and_only_what_was_on_its_way_overtakes(
    kafka, topic, monkeypatch, idempotent: bool, record_property
) -> None:
    servers, name, watch = kafka.bootstrap_servers, topic(3), Watch(monkeypatch)
    sender = producing.Numbered(
        servers, name, SCHEMA, **SETTINGS | {"enable.idempotence": idempotent}
    )

    def produce_until(condition: Callable[[], bool]) -> None:
        def produce() -> bool:
            for _ in range(50):
                sender.produce(blob=blob(sender.accepted))
                sender.producer.poll(0)
            return condition()

        eventually(produce)

    produce_until(lambda: len(sender.stored) > 1_000)
    lower_limit(servers, name)
    handed = sum(watch.handed.values())
    kafka.nodes[0].suspend()  # so that many are on their way when the first comes back
    try:
        produce_until(lambda: sum(watch.handed.values()) > handed + 20)
    finally:
        kafka.nodes[0].resume()
    produce_until(lambda: len(watch.first_refused) > 0)
    enough = sender.accepted + 2_000
    produce_until(lambda: sender.accepted > enough)
    left = sender.producer.flush(120)
    sender.producer.close()

    places: dict[tuple[int, int], int] = {}
    overtaken: list[tuple[int, int]] = []
    highest: dict[int, int] = defaultdict(lambda: -1)
    for message in everything(servers, name, retries=True):
        partition, n = message.partition(), message.value()["n"]
        places[partition, message.offset()] = n
        if n < highest[partition]:
            overtaken.append((highest[partition], n))
        highest[partition] = max(highest[partition], n)
    record_property("accepted", sender.accepted)
    record_property("acknowledged", len(sender.stored))
    record_property("stored", len(places))
    record_property("in refused segments", len(watch.first_refused))
    record_property("overtaken", len(overtaken))
    assert left == 0
    assert sender.failed == {}
    assert sorted(places.values()) == list(range(sender.accepted))
    assert {n: place for place, n in places.items()} == sender.stored
    assert [pair for pair in overtaken if not watch.may_overtake(*pair)] == []


@pytest.mark.usefixtures("limits")
def test_in_transactions_none_fails_that_does_not_fail_with_stock(
    kafka, topic, record_property
) -> None:
    """Stock's messages are as large as our segments.

    After the first that fails, stock's user produces small ones; our segments have to become small
    by themselves.
    """
    ours, stock = Ours(kafka.bootstrap_servers, topic()), Stock(kafka.bootstrap_servers, topic())
    outcomes = {sender: outcome(sender, kafka.bootstrap_servers) for sender in (ours, stock)}
    record_property("ours", outcomes[ours])
    record_property("stock", outcomes[stock])
    assert outcomes[ours] == outcomes[stock]
    assert outcomes[stock]["failed"] == FAIL


class Ours:
    """This package's producer in transactions."""

    def __init__(self, servers: str, topic: str) -> None:
        config = {"bootstrap.servers": servers, "transactional.id": topic, "log_level": 0}
        self.topic = topic
        self.errors: list[KafkaError | None] = []
        self.client: confluent_kafka.Producer = self.make(config)
        self.client.init_transactions(120)

    def make(self, config: dict[str, Any]) -> confluent_kafka.Producer:
        producer = Producer(config | SETTINGS | {"columnar.encoding": "parquet"})
        producer.set_schema(self.topic, SCHEMA)
        return producer

    def produce(self, count: int, *, large: bool) -> None:
        """Produce records, `large`: 30 KB a message; none after one that Kafka has rejected."""
        try:
            for _ in range(count):
                self.send(large=large)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise

    def send(self, *, large: bool) -> None:
        for n in range(60):
            value = {"n": n, "blob": BLOBS.randbytes(500)}
            self.client.produce(self.topic, value, on_delivery=self.report)

    def report(self, error: KafkaError | None, _: Any) -> None:
        self.errors.append(error)

    def committed(self, servers: str) -> int:
        """Return how many records a reader of what is committed sees."""
        messages = everything(
            servers, self.topic, **{"isolation.level": "read_committed"}, retries=True
        )
        return sum(1 for _ in messages) // 60


class Stock(Ours):
    """Stock's producer in transactions."""

    def make(self, config: dict[str, Any]) -> confluent_kafka.Producer:
        return confluent_kafka.Producer(config | {"linger.ms": 50})

    def send(self, *, large: bool) -> None:
        value = BLOBS.randbytes(30_000 if large else 500)
        self.client.produce(self.topic, value, on_delivery=self.report)

    def committed(self, servers: str) -> int:
        messages = everything(
            servers, self.topic, **{"isolation.level": "read_committed"}, retries=True
        )
        return sum(1 for _ in messages)


def outcome(sender: Ours, servers: str) -> dict[str, Any]:
    """Return what a transaction makes of a limit that is lowered in it, and those after it."""
    sender.client.begin_transaction()
    sender.produce(3, large=True)
    sender.client.commit_transaction(120)
    before = sender.committed(servers)

    sender.client.begin_transaction()
    lower_limit(servers, sender.topic)
    sender.errors.clear()
    sender.produce(10, large=True)
    failed = [commit(sender)]
    codes = {error.name() for error in sender.errors if error is not None}
    aborted = sender.committed(servers) - before

    while failed[-1] is not None and len(failed) <= len(FAIL):
        sender.client.begin_transaction()
        sender.produce(5, large=False)
        failed.append(commit(sender))
    sender.client.close()
    return {
        "committed before": before,
        "too large": "MSG_SIZE_TOO_LARGE" in codes,
        "failed": [name for name in failed if name is not None],
        "visible after abort": aborted,
        "committed after": sender.committed(servers) - before,
    }


def commit(sender: Ours) -> str | None:
    """Commit, or abort where that is required; return the name of librdkafka's error, if any."""
    try:
        sender.client.commit_transaction(120)
    except KafkaException as error:
        assert error.args[0].txn_requires_abort()  # noqa: PT017 - commit may or may not raise
    else:
        return None
    with pytest.raises(KafkaException) as again:
        confluent_kafka.Producer.commit_transaction(sender.client, 120)  # ours speaks of records
    sender.client.abort_transaction(120)
    return str(again.value.args[0].name())
