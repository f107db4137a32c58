"""Options of source and sink, and the ids of a topic's cluster and generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from columnar_kafka.errors import ConfigError
from spark_sink.java_keys import refuse_java_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["admin_client", "client_config", "generation", "refuse_unknown", "required"]

_PREFIX: Final = "kafka."
_TIMEOUT: Final = 30.0
_CONSUMER: Final = (
    *("auto.offset.", "enable.auto.", "enable.partition.", "fetch.", "group."),
    *("isolation.", "max.partition.", "max.poll.", "queued.", "session."),
)


def required(options: Mapping[str, str], key: str, example: str) -> str:
    """Return the value of a required option.

    Raises:
        ConfigError: it is missing.
    """
    value = options.get(key)
    if not value:
        raise ConfigError(f'option "{key}" is missing: .option("{key}", "{example}")')
    return value


def refuse_unknown(options: Mapping[str, str], known: Collection[str]) -> None:
    """Check that the options are known; ``kafka.`` options are left to the client.

    Raises:
        ConfigError: naming an option that is not, and those that are.
    """
    lower = {each.lower() for each in known}
    for key in options:
        if key.lower() not in lower and not key.lower().startswith(_PREFIX):
            raise ConfigError(
                f'option "{key}" does not exist; there are {", ".join(sorted(known))}, '
                "and kafka.* for the Kafka client"
            )


def client_config(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the Kafka client's configuration: every ``kafka.`` option, without the prefix.

    Raises:
        ConfigError: a key that only Java clients have; the text names librdkafka's.
    """
    config = {
        key[len(_PREFIX) :]: value
        for key, value in options.items()
        if key.lower().startswith(_PREFIX)
    }
    refuse_java_keys(config)
    return config


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
