"""What source and sink have in common: options, and Kafka's name for a topic's generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["client_config", "cluster_id", "refuse_unknown", "required", "topic_id"]

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


def cluster_id(config: Mapping[str, Any]) -> str:
    """Return the cluster's id. Blocks for a look-up.

    Raises:
        KafkaException: Kafka cannot be reached within 30 s.
    """
    with AdminClient(_connection(config)) as admin:
        return str(admin.cluster_id(_TIMEOUT))


def topic_id(config: Mapping[str, Any], topic: str) -> str | None:
    """Return a topic's id, which no other topic ever has; None where Kafka does not tell.

    Blocks for a look-up.

    Raises:
        KafkaException: Kafka cannot be reached within 30 s, or the topic does not exist.
    """
    with AdminClient(_connection(config)) as admin:
        # librdkafka's mock names a controller there is not; a look-up would take all of its time.
        cluster = admin.list_topics(topic, _TIMEOUT)
        if cluster.controller_id not in cluster.brokers:
            return None
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT)
        try:
            found = asked[topic].result(_TIMEOUT)
        except KafkaException as error:
            raise KafkaException(error.args[0]) from None
    return None if found.topic_id is None else str(found.topic_id)


def _connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an admin client needs; a consumer's own settings would make it complain."""
    consumer = ("group.", "fetch.", "auto.offset.", "isolation.", "enable.", "session.", "max.poll")
    return {key: value for key, value in config.items() if not key.startswith(consumer)}
