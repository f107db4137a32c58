"""Options of source and sink, and the ids of a topic's cluster and generation."""

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
_CONSUMER: Final = (
    *("auto.offset.", "enable.auto.", "enable.partition.", "fetch.", "group."),
    *("isolation.", "max.partition.", "max.poll.", "queued.", "session."),
)

_JAVA_ONLY: Final = {
    "sasl.jaas.config": "set kafka.sasl.username and kafka.sasl.password, or for Kerberos "
    "kafka.sasl.kerberos.principal and kafka.sasl.kerberos.keytab",
    "sasl.client.callback.handler.class": "for OAuth set kafka.sasl.oauthbearer.method=oidc",
    "sasl.login.callback.handler.class": "for OAuth set kafka.sasl.oauthbearer.method=oidc",
    "sasl.login.class": "librdkafka logs in by itself",
    "ssl.truststore.location": "set kafka.ssl.ca.location to a PEM file or a folder of them",
    "ssl.truststore.password": "a PEM file (kafka.ssl.ca.location) needs none",
    "ssl.truststore.certificates": "set kafka.ssl.ca.pem",
    "ssl.truststore.type": "kafka.ssl.ca.location is always PEM",
    "ssl.keystore.type": "kafka.ssl.keystore.location is always PKCS#12; for PEM set "
    "kafka.ssl.certificate.location and kafka.ssl.key.location",
    "ssl.keystore.key": "set kafka.ssl.key.pem",
    "ssl.keystore.certificate.chain": "set kafka.ssl.certificate.pem",
    "ssl.protocol": "OpenSSL chooses",
    "ssl.enabled.protocols": "OpenSSL chooses",
    "ssl.provider": "librdkafka uses OpenSSL",
    "key.deserializer": "keys are always bytes; decode the column",
    "value.deserializer": "values are always bytes; decode the column",
    "key.serializer": "keys are sent as bytes; encode the column",
    "value.serializer": "rows are sent as segments",
    "interceptor.classes": "librdkafka has no interceptors in Java",
    "max.poll.records": "set maxRecordsPerPartition, or leave it out",
    "fetch.max.wait.ms": "set kafka.fetch.wait.max.ms",
    "receive.buffer.bytes": "set kafka.socket.receive.buffer.bytes",
    "send.buffer.bytes": "set kafka.socket.send.buffer.bytes",
    "default.api.timeout.ms": "set kafka.socket.timeout.ms",
    "partitioner.class": "set kafka.partitioner",
    "max.block.ms": "leave it out: a full buffer is waited for",
}
"""Keys of Kafka's Java clients that librdkafka does not have, and what to do instead."""


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
    for key in config:
        if key in _JAVA_ONLY:
            raise ConfigError(f'option "{_PREFIX}{key}" is for Java clients: {_JAVA_ONLY[key]}')
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
