"""The ids of a topic's cluster and generation, asked from Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["admin_client", "generation"]

_TIMEOUT: Final = 30.0
_CONSUMER: Final = (
    *("auto.offset.", "enable.auto.", "enable.partition.", "fetch.", "group."),
    *("isolation.", "max.partition.", "max.poll.", "queued.", "session."),
)


def admin_client(config: Mapping[str, Any]) -> AdminClient:
    """Return an admin client that creates no topic by asking for it, and logs no closing."""
    return AdminClient({"log_level": 4, **_connection(config), "allow.auto.create.topics": False})


def generation(admin: AdminClient, topic: str) -> tuple[str, str | None]:
    """Return the cluster id and the topic id, which no other topic ever has.

    The topic id is None if Kafka does not return it. Blocks for requests to Kafka.

    Raises:
        KafkaException: Kafka does not answer within 30 s, or the topic does not exist.
    """
    cluster = admin.list_topics(topic, _TIMEOUT)
    # librdkafka's mock names a controller that does not exist: a request would time out.
    if cluster.controller_id not in cluster.brokers:
        return str(cluster.cluster_id), None
    futures = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT)
    topic_id = futures[topic].result(_TIMEOUT).topic_id
    return str(cluster.cluster_id), None if topic_id is None else str(topic_id)


def _connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those of consumers, about which an admin client logs warnings."""
    return {key: value for key, value in config.items() if not key.startswith(_CONSUMER)}
