"""What a consumer commits when partitions go, while its group goes on to another generation."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError

from columnar_kafka.testing import FakeKafka

GROUP_WENT_ON = ("STALE_MEMBER_EPOCH", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS")


def closed_after(error: KafkaError, count: int, told: list[Any]) -> int:
    """Return what a group has committed whose member's commits fail so many times at its end."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    for n in range(4):
        kafka.append("t", 0, value=b"%d" % n)
    config = {
        "group.id": "g",
        "columnar.encoding": "parquet",
        "auto.offset.reset": "earliest",
        "on_commit": lambda *results: told.append(results),
    }
    with closing(kafka.Consumer(config)) as consumer:
        consumer.subscribe(["t"])
        assert len(consumer.consume(3, 20)) == 3
        consumer.memory.fail_next(error, count=count)
    return int(kafka.committed("g", "t", 0).offset)


@pytest.mark.parametrize("name", GROUP_WENT_ON)
def test_a_commit_is_tried_again_when_the_group_has_gone_on(name: str) -> None:
    told: list[Any] = []
    assert closed_after(KafkaError(getattr(KafkaError, name)), 3, told) == 3
    [(error, [place])] = told
    assert (error, place.offset) == (None, 3 << 20)


def test_a_commit_of_no_member_is_not_tried_again() -> None:
    told: list[Any] = []
    refused = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    assert closed_after(refused, 1, told) == OFFSET_INVALID
    [(error, [place])] = told
    assert (error, place.offset) == (refused, 3 << 20)
