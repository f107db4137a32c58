"""Transactions in which one record fails: nothing of them is to be seen, and the next ones work."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from reading import everything
from support import by_profile, eventually, set_config

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

SCHEMA = pa.schema(
    [pa.field("n", pa.int64(), nullable=False), ("blob", pa.binary()), ("code", pa.binary(1))]
)
GOOD = range(200)
TIMEOUT = 120.0


@dataclass(frozen=True)
class Case:
    """One way in which one record of a transaction fails."""

    code: int
    value: Any = None
    at: dict[str, Any] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    lowered: bool = False
    stock: bool = False  # whether confluent-kafka's producer accepts such a record too
    by_broker: bool = False


def row(n: int, blob: bytes | None = None, code: bytes | None = None) -> dict[str, Any]:
    return {"n": n, "blob": blob, "code": code}


OLD = {"message.timestamp.before.max.ms": "3600000"}
CASES = {
    "cannot be encoded": Case(KafkaError._VALUE_SERIALIZATION, row(-1, code=b"long")),
    "too large": Case(
        KafkaError.MSG_SIZE_TOO_LARGE, row(-1, random.Random(1).randbytes(1_100_000))
    ),
    "refused for its size": Case(
        KafkaError.MSG_SIZE_TOO_LARGE,
        row(-1, random.Random(1).randbytes(50_000)),
        lowered=True,
        stock=True,
        by_broker=True,
    ),
    # In a partition of its own: a segment has the time of its latest record.
    "refused for its time": Case(
        KafkaError.INVALID_TIMESTAMP,
        row(-1),
        at={"partition": 1, "timestamp": 1_000},
        config=OLD,
        stock=True,
        by_broker=True,
    ),
    "plain, refused for its time": Case(
        KafkaError.INVALID_TIMESTAMP,
        b"plain",
        at={"partition": 1, "timestamp": 1_000},
        config=OLD,
        by_broker=True,
    ),
    "purged": Case(KafkaError._PURGE_QUEUE, row(-1), stock=True),
}


class Client:
    """A transactional producer of numbers, and a consumer whose offsets go with them."""

    def __init__(self, servers: str, topic: str, *, ours: bool, positions: bool) -> None:
        self.ours = ours
        self.topic = topic
        self.source = f"{topic}-in"
        self.codes: list[int | None] = []
        own = {"columnar.encoding": "parquet"}
        common = {"bootstrap.servers": servers, "log_level": 0}
        kind: Any = columnar_kafka if ours else confluent_kafka
        config = common | {"transactional.id": topic, "linger.ms": 100}
        self.producer = kind.Producer(config | (own if ours else {}))
        if ours:
            self.producer.set_schema(topic, SCHEMA)
        kind = columnar_kafka if positions else confluent_kafka
        config = common | {"group.id": topic, "enable.auto.commit": False}
        self.consumer = kind.Consumer(config | (own if positions else {}))
        self.consumer.assign([TopicPartition(self.source, 0, 0)])
        # Without a connection it would ask for its coordinator again half a second later.
        self.producer.list_topics(timeout=TIMEOUT)
        self.producer.init_transactions(TIMEOUT)

    def produce(self, value: Any, partition: int = 0, timestamp: int = 0) -> None:
        if not self.ours and isinstance(value, dict):
            value = b"%d" % value["n"] + (value["blob"] or b"")
        self.producer.produce(
            self.topic,
            value,
            partition=partition,
            timestamp=timestamp,
            on_delivery=lambda error, _: self.codes.append(error and error.code()),
        )

    def send_offsets(self) -> None:
        """Add to the transaction that two of the source's three messages were consumed."""
        self.consumer.seek(TopicPartition(self.source, 0, 0))
        consumed = 0
        while consumed < 2:
            message = self.consumer.poll(TIMEOUT)
            assert message is not None
            consumed += message.error() is None
        offset = TopicPartition(self.source, 0, message.offset() + 1)
        metadata = self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction([offset], metadata, TIMEOUT)

    def committed(self) -> int:
        """Return what the group has committed, as Kafka knows it."""
        [committed] = self.consumer.committed([TopicPartition(self.source, 0)], TIMEOUT)
        return int(committed.offset)

    def transact(self) -> int:
        """Send all good records and offsets as an application does, until they are committed.

        Returns:
            How many transactions had to be aborted.
        """
        for aborted in range(3):
            self.producer.begin_transaction()
            try:
                for n in GOOD:
                    self.produce(row(n))
                self.send_offsets()
                self.producer.commit_transaction(TIMEOUT)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self.producer.abort_transaction(TIMEOUT)
            else:
                return aborted
        raise AssertionError("no transaction could be committed")

    def close(self) -> None:
        self.consumer.close()
        self.producer.close()


@pytest.fixture
def client(kafka: LocalKafka) -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(name: str, **kinds: bool) -> Client:
        kafka.create_topic(f"{name}-in")
        source = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for _ in range(3):
            source.produce(f"{name}-in", b"consumed")
        source.flush()
        source.close()
        made.append(Client(kafka.bootstrap_servers, name, **kinds))
        return made[-1]

    yield make
    for instance in made:
        instance.close()


def lower_limit(servers: str, topic: str) -> None:
    """Let the broker take 20,000 bytes a message from now on; the third partition is for asking."""
    set_config(servers, topic, "max.message.bytes", "20000")
    codes: list[Any] = []
    asks = confluent_kafka.Producer({"bootstrap.servers": servers})

    def is_lowered() -> bool:
        asks.produce(topic, bytes(30_000), partition=2, on_delivery=lambda e, _: codes.append(e))
        asks.flush()
        return codes[-1] is not None

    eventually(is_lowered)
    asks.close()


def committed_values(servers: str, topic: str) -> list[Any]:
    """Return what a read_committed consumer finds in a topic's first two partitions."""
    level = {"isolation.level": "read_committed"}
    return [message.value() for message in everything(servers, topic, partitions=range(2), **level)]


KINDS = {
    "confluent": {"ours": False, "positions": False},
    "ours, stock offsets": {"ours": True, "positions": False},
    "ours, positions": {"ours": True, "positions": True},
}


EVERY = [
    (name, kind, reported)
    for name in CASES
    for kind in KINDS
    if kind != "confluent" or CASES[name].stock
    for reported in (False, True)
]
PAIRWISE = [
    (name, kind, reported)
    for name, kind, reported in EVERY
    if reported == bool((list(CASES).index(name) + list(KINDS).index(kind)) % 2)
]
"""Each way to fail with each kind and, of the two, each with both times of the report."""


@pytest.mark.parametrize(
    ("name", "kind", "reported"),
    by_profile(PAIRWISE, EVERY),
    ids=lambda value: {False: "", True: "reported before"}.get(value, value),
)
def test_a_transaction_with_a_failed_record_is_not_committed(
    kafka: LocalKafka,
    topic: TopicFactory,
    client: Callable[..., Client],
    name: str,
    kind: str,
    *,
    reported: bool,
) -> None:
    """Whether its report has run before `commit_transaction`, or runs inside it."""
    case = CASES[name]
    servers, target = kafka.bootstrap_servers, topic(3, case.config)
    sender = client(target, **KINDS[kind])
    if case.lowered:
        lower_limit(servers, target)

    sender.producer.begin_transaction()
    for n in GOOD[:100]:
        sender.produce(row(n))
    sender.produce(case.value, **case.at)
    for n in GOOD[100:]:
        sender.produce(row(n))
    if name == "purged":
        sender.producer.purge()
    if reported:
        sender.producer.flush(TIMEOUT)
        assert case.code in sender.codes
    with pytest.raises(KafkaException) as raised:
        send_offsets_and_commit(sender)
    assert raised.value.args[0].txn_requires_abort()
    assert not raised.value.args[0].fatal()
    sender.producer.abort_transaction(TIMEOUT)
    assert len(sender.codes) == len(GOOD) + 1
    assert case.code in sender.codes
    assert committed_values(servers, target) == []
    assert sender.committed() == OFFSET_INVALID

    # What librdkafka had counted for messages that are refused, or purged when they have come to
    # it, is missing in the next transaction, and so that one has to be aborted too.
    assert sender.transact() <= (case.by_broker or kind == "confluent")
    values = committed_values(servers, target)
    if kind == "confluent":
        assert values == [b"%d" % n for n in GOOD]
    else:
        assert values == [row(n) for n in GOOD]
    assert sender.committed() == (2 << 20 if KINDS[kind]["positions"] else 2)


def send_offsets_and_commit(sender: Client) -> None:
    """Either may find that the transaction has failed."""
    sender.send_offsets()
    sender.producer.commit_transaction(TIMEOUT)
