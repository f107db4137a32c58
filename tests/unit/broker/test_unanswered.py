"""What a producer knows of a topic while Kafka does not answer."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from columnar_kafka.broker.base import TopicLimits
from columnar_kafka.broker.confluent import ConfluentProducer
from columnar_kafka.testing.client import cluster_metadata
from columnar_kafka.testing.memory import MemoryKafka

if TYPE_CHECKING:
    import pytest
    from typing_extensions import Self


class StockClient:
    """Knows the metadata of a cluster with one topic of three partitions."""

    def list_topics(self, topic: str, _timeout: float) -> Any:
        kafka = MemoryKafka()
        kafka.create_topic("t", 3)
        return cluster_metadata(kafka, topic)


class Client(StockClient):
    """The class whose `super()` a producer's broker calls."""


class SilentAdminClient:
    """Asks for configurations, and gets no answer."""

    def __init__(self, _config: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        return {resource: Future() for resource in resources}


def test_a_topics_configuration_is_unknown_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to Python 3.10 what a future raises then is no `TimeoutError`."""
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", SilentAdminClient)
    client = Client()
    broker = ConfluentProducer(Client, client, {})
    assert broker.limits("t", 0.01) == TopicLimits(3)
