"""How many requests a broker gets where there are many partitions."""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from proxy import Api, Proxy

import columnar_kafka

if TYPE_CHECKING:
    import socket

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = 48


class Counting(Proxy):
    """Counts the requests of each kind."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self.requests: Counter[int] = Counter()

    def _passes(self, client: socket.socket, request: bytes) -> bool:
        self.requests.update(struct.unpack_from(">h", request))
        return True


def test_the_lags_of_all_partitions_take_two_requests_and_wait_for_no_fetch(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    """One for where they begin, one for their ends: the fetch would be over in minutes."""
    name = topic(PARTITIONS)
    settings: dict[str, Any] = {
        "group.id": name,
        "columnar.encoding": "parquet",
        "fetch.wait.max.ms": 290_000,
        "socket.timeout.ms": 300_000,
    }
    with Counting(kafka.bootstrap_servers) as proxy:
        servers = {"bootstrap.servers": proxy.bootstrap_servers}
        with columnar_kafka.Consumer(settings | servers) as consumer:
            consumer.assign([TopicPartition(name, index, 0) for index in range(PARTITIONS)])
            while not proxy.requests[Api.FETCH]:
                assert consumer.poll(0.1) is None
            assert not proxy.requests[Api.LIST_OFFSETS]
            lags = consumer.lag(timeout=100)
            assert [lag.messages for lag in lags] == [0] * PARTITIONS
            assert proxy.requests[Api.LIST_OFFSETS] == 2
