"""What others commit for a group: any metadata, any offset. No exception, and no record skipped."""

from __future__ import annotations

import base64
import random
import struct
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from segments import segment
from support import eventually

import columnar_kafka
from columnar_kafka import position
from columnar_kafka.local import LocalKafka
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE: Final = (3, 0, 5, 1)
"""What each partition holds: segments of so many records; 0 is a plain message."""
GONE: Final = 50  # an offset that is not there (any more)
PARTITIONS: Final = 100
STRINGS: Final = 10_000
OTHERS: Final = 2_000

_random = random.Random(8)


def text() -> str:
    """Return anything that can be committed: no NUL, no half of a surrogate pair."""
    plane = _random.choice([0x7F, 0x3FF, 0x10FFFF])
    points = (_random.randint(1, plane) for _ in range(_random.randint(0, 60)))
    return "".join(chr(point) for point in points if not 0xD800 <= point <= 0xDFFF)


def streams() -> str:
    """Return what Kafka Streams keeps: a version, a time, and in version 2 more of its own."""
    version = _random.choice([1, 2])
    more = b"" if version == 1 else struct.pack(">i", 1) + _random.randbytes(20)
    return _base64(struct.pack(">bq", version, _random.getrandbits(40)) + more)


def parallel() -> str:
    """Return what the parallel consumer keeps: which offsets after this one are done, encoded."""
    return _base64(_random.choice([b"l", b"a", b"n", b"J", b"o", b"s"]) + _random.randbytes(40))


def nearly_ours() -> str:
    """Return what looks like a row's, and is not."""
    left = _random.choice(["0", "-1", "00", "9999999", "1e3", "٣", "1.0", "", " 2"])
    return f"1:{left}:{_segment_id(0, 0)}"


def mirrored() -> str:
    """Return a row's of another segment: MirrorMaker moves the offset and keeps the metadata."""
    return f"1:{_random.randint(1, 5)}:somewhere-{_random.randint(0, 9)}"


def too_many() -> str:
    """Return more rows than any segment here has, of one that is there."""
    return f"1:{_random.randint(6, 1 << 20)}:{_segment_id(_random.randint(0, 9), 2)}"


KINDS: Final[list[Callable[[], str]]] = [text, streams, parallel, nearly_ours, mirrored, too_many]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _segment_id(partition: int, offset: int) -> str:
    return f"p-{partition * 10 + offset}"


def messages(partition: int) -> list[dict[str, Any]]:
    """Return what a partition holds; record n of the message at offset o is 10 o + n."""
    contents: list[dict[str, Any]] = []
    for offset, rows in enumerate(SHAPE):
        if rows:
            table = pa.table({"n": [10 * offset + row for row in range(rows)]})
            made = segment(table, number=partition * 10 + offset)
            contents.append({"value": made.value, "headers": list(made.headers)})
        else:
            contents.append({"value": b"%d" % (10 * offset), "headers": None})
    return contents


def expected(offset: int, first: int = 0) -> list[int]:
    """Return all records from an offset on; all there are, from the `first`, where it is gone."""
    begun = offset if first <= offset < len(SHAPE) else first
    return [
        10 * at + row for at, rows in enumerate(SHAPE) for row in range(rows or 1) if at >= begun
    ]


def check(consumer: Any, topic: str, wanted: dict[int, int], first: dict[int, int]) -> int:
    """Read every partition to its end; what comes is all that the offsets say, in order.

    Returns how many records that was.
    """
    places = [TopicPartition(topic, partition) for partition in wanted]
    for place in consumer.committed(places, 120):
        assert place.offset >= position.start(min(wanted[place.partition], 1 << 42))
    consumer.assign(places)
    numbers: dict[int, list[int]] = {partition: [] for partition in wanted}
    ended = 0
    while ended < len(wanted):
        for message in consumer.consume(1000, 0.05):
            error, value = message.error(), message.value()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                ended += 1
            else:
                number = value["n"] if isinstance(value, dict) else int(value)
                numbers[message.partition()].append(number)
    assert numbers == {key: expected(at, first.get(key, 0)) for key, at in wanted.items()}
    return sum(map(len, numbers.values()))


CONFIG: Final = {
    "group.id": "g",
    "columnar.encoding": "parquet",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
}


def fill(servers: str, topic: str, partitions: int) -> None:
    with confluent_kafka.Producer({"bootstrap.servers": servers}) as producer:
        for partition in range(partitions):
            for message in messages(partition):
                producer.produce(topic, partition=partition, **message)


def tell(record_property: Callable[[str, Any], None], figures: dict[str, Any]) -> None:
    for what, figure in figures.items():
        record_property(what, figure)


def test_whatever_is_committed_nothing_is_skipped(record_property) -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", PARTITIONS)
    for partition in range(PARTITIONS):
        for message in messages(partition):
            kafka.append("t", partition, **message)
    kinds = [text] * STRINGS + [kind for kind in KINDS if kind is not text for _ in range(OTHERS)]
    count = 0
    for first in range(0, len(kinds), PARTITIONS):
        offsets = [0, 1, 2, 3, GONE, (1 << 43) - 1, (1 << 63) - 1]
        wanted = {index: _random.choice(offsets) for index in range(PARTITIONS)}
        places = [TopicPartition("t", k, v, kinds[first + k]()) for k, v in wanted.items()]
        kafka.commit("g", places)
        with closing(kafka.Consumer(CONFIG)) as consumer:
            count += check(consumer, "t", wanted, {})
    tell(record_property, {"strings": len(kinds), "records": count})


def test_what_is_ours_is_understood_among_all_that() -> None:
    """And so the test above can fail: with the right segment's name rows are left out."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    for message in messages(0):
        kafka.append("t", 0, **message)
    kafka.commit("g", [TopicPartition("t", 0, 2, f"1:2:{_segment_id(0, 2)}")])
    with closing(kafka.Consumer(CONFIG)) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        values = [
            message.value() for message in consumer.consume(3, 0.05) if message.error() is None
        ]
    assert values == [{"n": 23}, {"n": 24}, {"n": 30}]


@pytest.mark.kafka
def test_on_a_real_broker_too(kafka, topic, record_property) -> None:
    """There the first messages of some partitions are deleted, and what was committed with them."""
    name = topic(60)
    fill(kafka.bootstrap_servers, name, 60)
    servers = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "group.id": name}
    kinds = iter(KINDS * 10)
    wanted = {index: _random.choice([0, 1, 2, 3, GONE]) for index in range(60)}
    places = [TopicPartition(name, k, v, next(kinds)()) for k, v in wanted.items()]
    with confluent_kafka.Consumer(servers) as other:
        other.commit(offsets=places, asynchronous=False)
    deleted = {index: _random.choice([0, 2, 3]) for index in range(60)}
    with AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}) as admin:
        done = admin.delete_records([TopicPartition(name, k, v) for k, v in deleted.items() if v])
        for future in done.values():
            future.result(120)
    with columnar_kafka.Consumer({**CONFIG, **servers}) as consumer:
        count = check(consumer, name, wanted, deleted)
    gone = sum(not deleted[key] <= at < GONE for key, at in wanted.items())
    tell(record_property, {"partitions": 60, "commits that are gone": gone, "records": count})


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka")  # without Java it is skipped
def test_what_was_committed_and_has_expired_is_read_again(record_property) -> None:
    """A broker forgets what a group without members has committed; by default after a week."""
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    with LocalKafka(config=settings) as forgetful:
        forgetful.create_topic("t", 2, {"retention.ms": "-1"})
        fill(forgetful.bootstrap_servers, "t", 2)
        config = {**CONFIG, "bootstrap.servers": forgetful.bootstrap_servers, "log_level": 0}
        with columnar_kafka.Consumer(config) as consumer:
            # Not "where the group left off": of a broker as new as this librdkafka asks that once.
            consumer.assign([TopicPartition("t", 0, 0)])
            assert len(consumer.consume(2, 120)) == 2
            [done] = consumer.commit(asynchronous=False) or []
            assert position.unpack(done.offset) == (0, 1)
        with columnar_kafka.Consumer(config) as consumer:
            since = time.monotonic()
            eventually(
                lambda: consumer.committed([TopicPartition("t", 0)], 120)[0].offset < 0, seconds=180
            )
            seconds = round(time.monotonic() - since)
            count = check(consumer, "t", {0: OFFSET_INVALID, 1: OFFSET_INVALID}, {})
    tell(record_property, {"expired after, s": seconds, "records": count})
