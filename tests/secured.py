"""A real Kafka with a second listener, on which clients have to log in."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from columnar_kafka.local import LocalKafka
from columnar_kafka.local import kafka as local_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LISTENERS = {
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    )
}

_OAUTH = "listener.name.sasl_plaintext.oauthbearer"
TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{_OAUTH}.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    ),
    f"{_OAUTH}.sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
        "OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
    f"{_OAUTH}.connections.max.reauth.ms": "2000",  # no connection outlives its token
}
"""The brokers' configuration if clients log in by tokens, whose signature nobody checks."""
LOGIN_BY_TOKEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


@contextmanager
def secured_kafka(config: Mapping[str, str]) -> Iterator[tuple[LocalKafka, str]]:
    """Start one whose brokers have this configuration too; yield it with that listener's address.

    On its first listener nobody logs in.
    """
    properties = local_kafka.node_properties

    def with_users(*arguments: Any, **keywords: Any) -> dict[str, str]:
        settings = properties(*arguments, **keywords)
        for name in "listeners", "advertised.listeners":
            settings[name] += f",SASL_PLAINTEXT://{address}"
        return settings

    with socket.socket() as kept, pytest.MonkeyPatch.context() as patch:
        # Bound to the end, with SO_REUSEADDR: the broker may listen on it too, and nobody else.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{kept.getsockname()[1]}"
        patch.setattr(local_kafka, "node_properties", with_users)
        with LocalKafka(config=_LISTENERS | dict(config)) as kafka:
            yield kafka, address
