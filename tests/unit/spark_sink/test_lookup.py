"""The source's questions to Kafka, where it does not answer."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql.datasource import CaseInsensitiveDict

from columnar_kafka.ingest import topic_id
from spark_sink.reading import lookup
from spark_sink.reading.source_options import SourceOptions


class Deaf(AbstractContextManager["Deaf"]):
    """An admin client whose requests fail."""

    asked = closed = 0

    def __exit__(self, *error: object) -> None:
        self.closed += 1

    def list_topics(self, topic: str, timeout: float) -> None:
        self.asked += 1
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_kafka_is_asked_again_as_often_as_the_option_says(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = Deaf()
    monkeypatch.setattr(lookup, "admin_client", lambda _: deaf)
    parsed = SourceOptions.parse(
        CaseInsensitiveDict(
            {
                "kafka.bootstrap.servers": "localhost:9092",
                "subscribe": "t",
                "fetchOffset.numRetries": "2",
                "fetchOffset.retryIntervalMs": "0",
            }
        ),
        streaming=True,
    )
    asks = lookup.Lookup(parsed)
    with pytest.raises(KafkaException, match="_TRANSPORT"):
        asks.at(parsed.starting)
    asks.close()
    assert (deaf.asked, deaf.closed) == (3, 1)


def test_an_admin_client_connects_as_the_consumers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_id, "AdminClient", dict)
    settings = {
        "bootstrap.servers": "localhost:9092",
        "enable.ssl.certificate.verification": "false",
        "sasl.username": "u",
    }
    mine = {"enable.auto.commit": "false", "fetch.min.bytes": "1", "isolation.level": "x"}
    config = topic_id.admin_client(settings | mine)
    assert config == settings | {"log_level": 4, "allow.auto.create.topics": False}
