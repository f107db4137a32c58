"""Consumers that nobody closes: their processes end, also while their group rebalances."""

from __future__ import annotations

import gc
import random
import time
import weakref
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from unclosed import ENCODINGS, ENDINGS, PROTOCOLS, STATES, Case, failures_of, with_segments

from columnar_kafka import Consumer

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

MEMBERS = 100


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_process_ends_whoever_has_the_consumer_that_is_not_closed(
    kafka: LocalKafka, topic: TopicFactory, protocol: str, state: str
) -> None:
    name = with_segments(kafka, topic(partitions=2))
    cases = [Case(protocol, "parquet", state, ending) for ending in ENDINGS]
    cases += [
        Case(protocol, encoding, state, ending)
        for encoding, ending in product(ENCODINGS.keys() - {"parquet"}, ("module", "nobody"))
    ]
    assert failures_of(kafka.bootstrap_servers, name, cases, seconds=120) == []


@pytest.mark.parametrize("encoding", ["none", "parquet"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_may_be_dropped_at_any_moment_of_a_rebalance(
    kafka: LocalKafka, topic: TopicFactory, protocol: str, encoding: str
) -> None:
    chance = random.Random(1)
    name = with_segments(kafka, topic(partitions=3))
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        "log_level": 0,
        **PROTOCOLS[protocol],
        **ENCODINGS[encoding],
    }
    members: list[Consumer] = []
    dropped: list[weakref.ref[Any]] = []
    while len(dropped) < MEMBERS:
        members.append(Consumer(config))
        members[-1].subscribe([name])
        until = time.monotonic() + chance.random() ** 2
        while time.monotonic() < until:
            chance.choice(members).poll(chance.random() / 50)
        while len(members) > chance.randrange(4):
            dropped.append(weakref.ref(members.pop(chance.randrange(len(members)))))
            gc.collect()
    assert not any(reference() for reference in dropped)
