"""The ids of a topic's cluster and generation, asked from Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["admin_client", "generation", "generations"]

_TIMEOUT: Final = 30.0
_CONSUMER: Final = (
    *("auto.offset.", "enable.auto.", "enable.partition.", "fetch.", "group.", "heartbeat."),
    *("isolation.", "max.partition.", "max.poll.", "queued.", "session."),
)


def admin_client(config: Mapping[str, Any]) -> AdminClient:
    """Return an admin client that creates no topic by asking for it, and logs no closing."""
    return AdminClient({"log_level": 4, **_connection(config), "allow.auto.create.topics": False})


def generation(admin: AdminClient, topic: str) -> tuple[str, str | None]:
    """Return the cluster id and the topic id, which no other topic ever has. As `generations`."""
    return generations(admin, [topic])[topic]


def generations(admin: AdminClient, topics: Sequence[str]) -> dict[str, tuple[str, str | None]]:
    """Return the cluster id and the topic id of each of these topics: one or more.

    A topic id is None if Kafka does not return it. Blocks for two requests to Kafka.

    Raises:
        KafkaException: Kafka does not answer within 30 s, or a topic does not exist.
    """
    cluster = admin.list_topics(topics[0], _TIMEOUT)
    cluster_id = str(cluster.cluster_id)
    # librdkafka's mock names a controller that does not exist: a request would time out.
    if cluster.controller_id not in cluster.brokers:
        return dict.fromkeys(topics, (cluster_id, None))
    # Its own timeout says what timed out; that of a future says nothing, and may come first.
    futures = admin.describe_topics(TopicCollection([*topics]), request_timeout=_TIMEOUT)
    ids = {topic: futures[topic].result().topic_id for topic in topics}
    return {
        topic: (cluster_id, None if topic_id is None else str(topic_id))
        for topic, topic_id in ids.items()
    }


def _connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those of consumers, about which an admin client logs warnings."""
    return {key: value for key, value in config.items() if not key.startswith(_CONSUMER)}
