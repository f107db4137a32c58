"""What a local Kafka is configured with, and when a topic is ready: no server is started."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.local import LocalKafka
from columnar_kafka.local.kafka import _answers, _replication

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition


@pytest.mark.parametrize(("nodes", "replicas", "in_sync"), [(1, "1", "1"), (3, "3", "2")])
def test_internal_topics_have_no_more_replicas_than_there_are_nodes(
    nodes: int, replicas: str, in_sync: str
) -> None:
    """Kafka's own default is 3: one node could then neither commit nor begin a transaction."""
    config = _replication(nodes)
    assert {key: value for key, value in config.items() if key.endswith("replication.factor")} == {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
    }
    assert {value for key, value in config.items() if key.endswith("min.isr")} == {in_sync}


class Admin:
    """An AdminClient that answers for each partition, or with an error."""

    def __init__(self, *errors: int | None) -> None:
        self._errors = errors

    def list_offsets(
        self, asked: dict[TopicPartition, Any], *, request_timeout: float
    ) -> dict[TopicPartition, Future[None]]:
        futures: dict[TopicPartition, Future[None]] = {}
        for partition, error in zip(asked, self._errors, strict=True):
            futures[partition] = Future()
            if error is None:
                futures[partition].set_result(None)
            else:
                futures[partition].set_exception(KafkaException(KafkaError(error)))
        return futures


def test_a_topic_is_ready_once_every_leader_answers() -> None:
    admin: Any = Admin(None, None)
    assert _answers(admin, "t", 2)
    admin = Admin(None, KafkaError.NOT_LEADER_FOR_PARTITION)
    assert not _answers(admin, "t", 2)


def test_what_only_a_started_one_has_is_refused_before() -> None:
    with pytest.raises(ValueError, match="nodes must be at least 1, not 0"):
        LocalKafka(nodes=0)
    kafka = LocalKafka()
    for ask in (lambda: kafka.bootstrap_servers, lambda: kafka.directory):
        with pytest.raises(RuntimeError, match="this LocalKafka is not started"):
            ask()
