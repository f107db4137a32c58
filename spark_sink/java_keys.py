"""Keys of Kafka's Java clients that librdkafka does not have, and what to set instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["refuse_java_keys"]

_OAUTH: Final = (
    "for OAuth set kafka.sasl.oauthbearer.method=oidc, or kafka.oauth_cb to a function of Python's "
    "that makes tokens, as MODULE:FUNCTION"
)
_JAVA_ONLY: Final = {
    "sasl.jaas.config": "set kafka.sasl.username and kafka.sasl.password, or for Kerberos "
    "kafka.sasl.kerberos.principal and kafka.sasl.kerberos.keytab",
    "sasl.client.callback.handler.class": _OAUTH,
    "sasl.login.callback.handler.class": _OAUTH,
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
    "max.block.ms": "leave it out: the writer waits while the buffer is full",
    "buffer.memory": "set kafka.queue.buffering.max.kbytes",
    "max.request.size": "set kafka.message.max.bytes",
}
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"


def refuse_java_keys(config: Mapping[str, str]) -> None:
    """Check that no key of a client's configuration, without ``kafka.``, is a Java client's.

    Raises:
        ConfigError: naming the key, and librdkafka's; or one whose value is a Java client's.
    """
    for key in config:
        if key in _JAVA_ONLY:
            raise ConfigError(f'option "kafka.{key}" is for Java clients: {_JAVA_ONLY[key]}')
    if config.get(_HOST_CHECK) == "":
        raise ConfigError(f'option "kafka.{_HOST_CHECK}" is empty, as for Java clients: set "none"')
