"""A producer's first request to a partition is refused, and its second is on its way already.

The broker knows nothing of the producer, and takes the second although it begins in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from proxy import Refusing
from reading import everything
from support import eventually

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

IDEMPOTENT = {"enable.idempotence": True, "linger.ms": 0, "log_level": 0}
COUNT = 3


def stored(kafka: LocalKafka, topic: str) -> list[Any]:
    """Return the values of what a topic's one partition holds."""
    return [message.value() for message in everything(kafka.bootstrap_servers, topic)]


def acknowledged(
    producer: Any, send: Callable[[Any, int, Any], None], proxy: Refusing
) -> list[int]:
    """Send messages, the first in a request of its own; return those reported as delivered."""
    delivered: list[int] = []
    for n in range(COUNT):
        send(producer, n, lambda error, _, n=n: delivered.append(n) if error is None else None)
        eventually(lambda: producer.poll(0.01) or proxy.refused)
    assert producer.flush(200) == 0
    return delivered


@pytest.mark.kafka
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_what_is_acknowledged_is_there(
    kafka: LocalKafka, topic: TopicFactory, *, transactional: bool, plain: bool
) -> None:
    name = topic()

    def send(producer: Any, n: int, report: Any) -> None:
        value = b"%d" % n if plain else {"n": n}
        producer.produce(name, value, partition=0, on_delivery=report)

    with Refusing(kafka.bootstrap_servers, wait=1) as proxy:
        config = {"bootstrap.servers": proxy.bootstrap_servers, "columnar.encoding": "parquet"}
        config |= {"transactional.id": name} if transactional else {}
        producer = columnar_kafka.Producer({**config, **IDEMPOTENT, "columnar.linger.ms": 1})
        producer.set_schema(name, pa.schema([("n", pa.int64())]))
        if transactional:
            producer.init_transactions(120)
            producer.begin_transaction()
        delivered = acknowledged(producer, send, proxy)
        if transactional:
            producer.commit_transaction(120)
        producer.close()
        assert (proxy.refused, proxy.behind) == (1, 0)
    assert delivered == list(range(COUNT))
    wanted = [b"%d" % n if plain else {"n": n} for n in delivered]
    assert stored(kafka, name) == wanted


@pytest.mark.kafka
def test_confluents_producer_loses_what_it_acknowledges(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    """When that is mended, one request at a time is no longer needed."""
    name = topic()

    def send(producer: Any, n: int, report: Any) -> None:
        producer.produce(name, b"%d" % n, partition=0, on_delivery=report)

    with Refusing(kafka.bootstrap_servers, wait=20) as proxy:
        config = {"bootstrap.servers": proxy.bootstrap_servers}
        producer = confluent_kafka.Producer({**config, **IDEMPOTENT})
        delivered = acknowledged(producer, send, proxy)
        assert (proxy.refused, proxy.behind) == (1, 1)
    assert delivered == list(range(COUNT))
    assert stored(kafka, name) == [b"1", b"2"]
