"""Records go to the partitions where a stock producer puts messages of the same key."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from reading import everything
from support import by_profile

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = 7
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
HASHED = ["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
NULL_HASHED = ["consistent", "murmur2", "fnv1a"]
# Keys that are hashed by every setting but random: consistent_random may put empty ones anywhere.
KEYS: list[bytes | str] = [
    *(b"%d" % n for n in range(500)),
    *(f"N{n}" for n in range(300)),
    *(f"schlüssel {n} 键 🚀" for n in range(200)),
    *(bytes([n]) * (n + 1) for n in range(256)),
    *("long" * n for n in range(1, 2000, 200)),
    bytes(range(256)),
    b"\0",
    b"\xff\xfe",
    b"x" * 100_000,
]
SETTINGS = {
    "setting": lambda name: {"partitioner": name},
    "default.topic.config": lambda name: {"default.topic.config": {"partitioner": name}},
}


@pytest.fixture(params=by_profile(["setting"], list(SETTINGS)))
def config(request: pytest.FixtureRequest, kafka: LocalKafka) -> Callable[[str], dict[str, Any]]:
    """Configures a partitioner."""
    place = SETTINGS[request.param]
    return lambda name: {"bootstrap.servers": kafka.bootstrap_servers, **place(name)}


def stock(config: dict[str, Any], topic: str, keys: Iterable[Any]) -> list[int]:
    """Return the partitions that a stock producer's reports name, of messages with these keys."""
    index: dict[int, int] = {}

    def report(error: Any, message: Any) -> None:
        assert error is None
        index[int(message.value())] = message.partition()

    with confluent_kafka.Producer(config) as producer:
        for n, key in enumerate(keys):
            producer.produce(topic, b"%d" % n, key, on_delivery=report)
    return [index[n] for n in sorted(index)]


def ours(config: dict[str, Any], topic: str, keys: Iterable[Any], **more: Any) -> list[int]:
    """Return the partitions that our reports name, of records with these keys."""
    index: dict[int, int] = {}

    def report(error: Any, message: Any) -> None:
        assert error is None
        index[message.value()["n"]] = message.partition()

    with columnar_kafka.Producer(config | {"columnar.encoding": "parquet"} | more) as producer:
        producer.set_schema(topic, SCHEMA)
        for n, key in enumerate(keys):
            producer.produce(topic, {"n": n}, key, on_delivery=report)
    return [index[n] for n in sorted(index)]


def stored(kafka: LocalKafka, topic: str, **more: Any) -> Iterator[Any]:
    """Yield all messages of a topic: records, or segments with ``fetch.raw.bytes``."""
    return everything(kafka.bootstrap_servers, topic, **more)


@pytest.mark.parametrize("name", HASHED)
def test_a_key_goes_where_stock_puts_it(config, topic: TopicFactory, name: str) -> None:
    plain, records = topic(PARTITIONS), topic(PARTITIONS)
    expected = stock(config(name), plain, KEYS)
    assert ours(config(name), records, KEYS) == expected
    assert set(expected) == set(range(PARTITIONS))


def test_the_partitioner_may_stand_in_default_topic_config(kafka, topic: TopicFactory) -> None:
    """In short runs the other tests have it in one place: it means the same in both."""
    place = SETTINGS["default.topic.config"]
    config = {"bootstrap.servers": kafka.bootstrap_servers, **place("fnv1a")}
    plain, records = topic(PARTITIONS), topic(PARTITIONS)
    expected = stock(config, plain, KEYS)
    assert ours(config, records, KEYS) == expected
    elsewhere = {"bootstrap.servers": kafka.bootstrap_servers}
    assert expected != stock(elsewhere, topic(PARTITIONS), KEYS)


def test_a_report_names_the_partition_that_holds_the_record(
    config, kafka, topic: TopicFactory
) -> None:
    records = topic(PARTITIONS)
    reported = ours(config("murmur2"), records, KEYS)
    partitions: dict[int, int] = {}
    for message in stored(kafka, records):
        partitions[message.value()["n"]] = message.partition()
    assert [partitions[n] for n in range(len(KEYS))] == reported


@pytest.mark.parametrize("name", [name for name in HASHED if name != "consistent_random"])
def test_an_empty_key_is_a_key(config, topic: TopicFactory, name: str) -> None:
    plain, records = topic(PARTITIONS), topic(PARTITIONS)
    keys = [b"", b"other", "", b"another", b"", ""]
    assert ours(config(name), records, keys) == stock(config(name), plain, keys)


@pytest.mark.parametrize("name", NULL_HASHED)
def test_no_key_goes_where_stock_puts_it(config, topic: TopicFactory, name: str) -> None:
    plain, records = topic(PARTITIONS), topic(PARTITIONS)
    keys = [None, b"other", None, b"another", None]
    assert ours(config(name), records, keys) == stock(config(name), plain, keys)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("random", [None] * 1000),
        ("random", KEYS),
        ("consistent_random", [None] * 1000),
        ("consistent_random", [b""] * 1000),
        ("murmur2_random", [None] * 1000),
        ("fnv1a_random", [None] * 1000),
    ],
    ids=["random", "random with keys", "consistent", "consistent, empty", "murmur2", "fnv1a"],
)
def test_where_any_partition_will_do_segments_fill(
    config, kafka, topic: TopicFactory, name: str, keys: list[Any]
) -> None:
    """A batch sticks to a partition; the next goes to any."""
    records = topic(PARTITIONS)
    per_segment = 100
    partitions = ours(config(name), records, keys, **{"columnar.segment.rows": per_segment})
    assert set(partitions) <= set(range(PARTITIONS))
    segments = list(stored(kafka, records, **{"fetch.raw.bytes": True}))
    assert len(segments) == -(-len(keys) // per_segment)


@pytest.mark.parametrize("name", ["random", "consistent_random", "murmur2_random", "fnv1a_random"])
def test_over_many_batches_all_partitions_are_used(
    config, kafka, topic: TopicFactory, name: str
) -> None:
    """No batch of 200 goes to one of 7 partitions with a chance of 4 in 10^14."""
    records = topic(PARTITIONS)
    partitions = ours(config(name), records, [None] * 400, **{"columnar.segment.rows": 2})
    assert set(partitions) == set(range(PARTITIONS))
    counted: dict[int, int] = defaultdict(int)
    for message in stored(kafka, records):
        counted[message.partition()] += 1
    assert counted == {n: partitions.count(n) for n in range(PARTITIONS)}
