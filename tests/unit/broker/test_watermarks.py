"""The ends of partitions, from a client that answers or has not connected."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka.broker.watermarks import watermarks

PARTITIONS = [TopicPartition("t", 0), TopicPartition("u", 1)]


class Client:
    """Answers what the times -2 and -1 are asked for, or raises an error."""

    def __init__(self, code: int | None = None) -> None:
        self.code = code

    def offsets_for_times(self, asked: list[TopicPartition], _: float) -> list[TopicPartition]:
        if self.code is not None:
            raise KafkaException(KafkaError(self.code))
        return [
            TopicPartition(
                partition.topic, partition.partition, 10 * partition.partition + partition.offset
            )
            for partition in reversed(asked)
        ]


def test_each_partition_has_its_beginning_and_end() -> None:
    client: Any = Client()
    assert watermarks(client, PARTITIONS, 1) == {("t", 0): (-2, -1), ("u", 1): (8, 9)}


@pytest.mark.parametrize(
    ("code", "timeout", "expected"),
    [
        (KafkaError._ALL_BROKERS_DOWN, 0, KafkaError._TIMED_OUT),
        (KafkaError._ALL_BROKERS_DOWN, 60, KafkaError._ALL_BROKERS_DOWN),
        (KafkaError._TIMED_OUT, 0, KafkaError._TIMED_OUT),
        (KafkaError._STATE, 0, KafkaError._STATE),
    ],
)
def test_a_client_that_has_not_connected_in_time_says_so_as_confluent_kafka(
    code: int, timeout: float, expected: int
) -> None:
    client: Any = Client(code)
    with pytest.raises(KafkaException) as caught:
        watermarks(client, PARTITIONS, timeout)
    assert caught.value.args[0].code() == expected
