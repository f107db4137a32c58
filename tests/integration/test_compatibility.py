"""KIP-1008's compatibility matrix on a real Kafka; `faults/test_mirror.py` has it mirrored."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka.admin import ResourceType
from matrix import (
    CELLS,
    CONSUMERS,
    as_records,
    check,
    fill_all,
    group,
    messages,
    reader,
    records,
)
from support import by_profile, set_config

from columnar_kafka import ShareConsumer

if TYPE_CHECKING:
    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topics(kafka: LocalKafka) -> dict[tuple[str, str], str]:
    """Topics of every producer with every content."""
    return fill_all(kafka, "matrix")


READERS = [(*cell, consumer) for cell in CELLS for consumer in CONSUMERS]
CHANGES = list(itertools.product(CONSUMERS, repeat=2))
# Our class hands every call on to confluent-kafka's where it unwraps nothing.
HANDS_ON = {"ours, none", "ours, raw"}


@pytest.mark.parametrize(
    ("producer", "content", "consumer"),
    by_profile([case for case in READERS if case[2] not in HANDS_ON or "mixed" in case], READERS),
)
def test_every_consumer_reads_what_every_producer_wrote(
    kafka: LocalKafka, topics: Any, producer: str, content: str, consumer: str
) -> None:
    check(kafka.bootstrap_servers, consumer, topics[producer, content], content)


@pytest.mark.parametrize(
    ("before", "after"),
    by_profile(
        [change for change in CHANGES if "ours, parquet" in change or not HANDS_ON & {*change}],
        CHANGES,
    ),
)
def test_a_group_may_change_its_consumers(
    kafka: LocalKafka, topics: Any, before: str, after: str
) -> None:
    """The third message of each is committed: for who unwraps, the second record of a segment.

    Nothing is skipped; only who does not unwrap reads that segment again, whole.
    """
    name, servers, members = topics["ours", "mixed"], kafka.bootstrap_servers, group()
    with reader(servers, before, name, members) as consumer:
        last = list(itertools.islice(messages(consumer), 3))[-1]
        consumer.commit(message=last, asynchronous=False)
    with reader(servers, after, name, members) as consumer:
        received = list(messages(consumer))
    inside = before == "ours, parquet"  # messages 0 and 1, rows 0 and 1; else messages 0 to 2
    if after == "ours, parquet":
        assert as_records(received) == records("mixed")[3 if inside else 5 :]
    else:
        assert [message.offset() for message in received] == list(range(1 if inside else 3, 6))


@pytest.mark.parametrize(
    "cls", by_profile([ShareConsumer], [confluent_kafka.ShareConsumer, ShareConsumer])
)
def test_a_share_group_gets_a_segment_as_one_message(
    kafka: LocalKafka, topics: Any, cls: Any
) -> None:
    name, servers, members = topics["ours", "segments"], kafka.bootstrap_servers, group()
    set_config(servers, members, "share.auto.offset.reset", "earliest", kind=ResourceType.GROUP)
    received: list[Any] = []
    with cls({"bootstrap.servers": servers, "group.id": members}) as consumer:
        consumer.subscribe([name])
        while len(received) < 3:
            polled = list(consumer.poll(120))
            assert polled, "nothing came any more"
            received += polled
    assert [message.error() for message in received] == [None] * 3
    assert [message.value()[:4] for message in received] == [b"PAR1"] * 3
    assert [dict(message.headers())["columnar.rows"] for message in received] == [b"3", b"3", b"1"]
