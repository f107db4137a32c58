"""What source and sink have in common: options, and Kafka's name for a topic's generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["admin_client", "client_config", "generation", "refuse_unknown", "required"]

_PREFIX: Final = "kafka."
_TIMEOUT: Final = 30.0


def required(options: Mapping[str, str], key: str, example: str) -> str:
    """Return an option that must be there.

    Raises:
        ConfigError: it is not.
    """
    value = options.get(key)
    if not value:
        raise ConfigError(f'option "{key}" is missing: .option("{key}", "{example}")')
    return value


def refuse_unknown(options: Mapping[str, str], known: Collection[str]) -> None:
    """Refuse what would have no effect; ``kafka.`` options go to the client, which knows them.

    Raises:
        ConfigError: naming the option, and those there are.
    """
    for key in options:
        if key.lower() not in known and not key.lower().startswith(_PREFIX):
            raise ConfigError(
                f'option "{key}" does not exist; there are {", ".join(sorted(known))}, '
                "and kafka.* for the Kafka client"
            )


def client_config(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the Kafka client's configuration: every ``kafka.`` option, without its prefix."""
    return {
        key[len(_PREFIX) :]: value
        for key, value in options.items()
        if key.lower().startswith(_PREFIX)
    }


def admin_client(config: Mapping[str, Any]) -> AdminClient:
    """Return a client for look-ups, quiet when it is closed."""
    return AdminClient({"log_level": 4, **_connection(config)})


def generation(admin: AdminClient, topic: str) -> tuple[str, str | None]:
    """Return the ids of cluster and topic; no other topic ever has the same.

    The topic's is None where Kafka does not tell. Blocks for look-ups.

    Raises:
        KafkaException: Kafka cannot be reached within 30 s, or the topic does not exist.
    """
    cluster = admin.list_topics(topic, _TIMEOUT)
    # librdkafka's mock names a controller there is not; a look-up would take all of its time.
    if cluster.controller_id not in cluster.brokers:
        return str(cluster.cluster_id), None
    asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT)
    found = asked[topic].result(_TIMEOUT)
    return str(cluster.cluster_id), None if found.topic_id is None else str(found.topic_id)


def _connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an admin client needs; a consumer's own settings would make it complain."""
    consumer = ("group.", "fetch.", "auto.offset.", "isolation.", "enable.", "session.", "max.poll")
    return {key: value for key, value in config.items() if not key.startswith(consumer)}
