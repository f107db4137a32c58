"""The same tests on confluent-kafka's classes and on ours, in each way of being switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from columnar_kafka.local import EmbeddedKafka

PRODUCERS = {
    "confluent": (confluent_kafka.Producer, {}),
    "ours, none": (columnar_kafka.Producer, {}),
    "ours, no schema": (
        columnar_kafka.Producer,
        {"columnar.encoding": "parquet", "columnar.linger.ms": 0},
    ),
}
CONSUMERS = {
    "confluent": (confluent_kafka.Consumer, {}),
    "ours, none": (columnar_kafka.Consumer, {}),
    "ours, raw": (
        columnar_kafka.Consumer,
        {"columnar.encoding": "parquet", "fetch.raw.bytes": True},
    ),
}


@pytest.fixture(params=PRODUCERS)
def make_producer(
    request: pytest.FixtureRequest, embedded: EmbeddedKafka
) -> Iterator[Callable[..., Any]]:
    """Makes producers, closed afterwards."""
    kind, own = PRODUCERS[request.param]
    made: list[Any] = []

    def make(**config: Any) -> Any:
        made.append(kind({"bootstrap.servers": embedded.bootstrap_servers, **own, **config}))
        return made[-1]

    make.kind = kind  # type: ignore[attr-defined]
    yield make
    for each in made:
        each.close()


@pytest.fixture(params=CONSUMERS)
def make_consumer(
    request: pytest.FixtureRequest, embedded: EmbeddedKafka
) -> Iterator[Callable[..., Any]]:
    """Makes consumers, closed afterwards."""
    kind, own = CONSUMERS[request.param]
    made: list[Any] = []

    def make(**config: Any) -> Any:
        servers = {"bootstrap.servers": embedded.bootstrap_servers, "group.id": "g"}
        made.append(kind({**servers, **own, **config}))
        return made[-1]

    make.kind = kind  # type: ignore[attr-defined]
    yield make
    for each in made:
        each.close()
