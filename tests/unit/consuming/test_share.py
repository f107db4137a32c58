"""`ShareConsumer`: confluent-kafka's, and no records of segments."""

from __future__ import annotations

import confluent_kafka
import pytest

from columnar_kafka import ConfigError, ShareConsumer
from columnar_kafka.consuming import share

since_2_15 = pytest.mark.skipif(
    not hasattr(confluent_kafka, "ShareConsumer"), reason="confluent-kafka before 2.15 has none"
)
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}


@since_2_15
def test_records_of_segments_are_refused_and_it_says_why_and_what_to_do() -> None:
    with pytest.raises(ConfigError) as raised:
        ShareConsumer(NOWHERE | {"columnar.encoding": "parquet"})
    assert "columnar.encoding=parquet: not possible with a ShareConsumer" in str(raised.value)
    assert "acknowledges whole Kafka messages" in str(raised.value)
    assert "fetch.raw.bytes=true" in str(raised.value)


@since_2_15
@pytest.mark.parametrize(
    "own",
    [
        {},
        {"columnar.encoding": "none"},
        {"columnar.encoding": "parquet", "fetch.raw.bytes": True},
    ],
)
def test_otherwise_it_is_confluent_kafkas(own: dict[str, object]) -> None:
    with ShareConsumer({**NOWHERE, **own}) as consumer:
        assert isinstance(consumer, confluent_kafka.ShareConsumer)
        consumer.subscribe(["t"])
        assert consumer.subscription() == ["t"]


@since_2_15
def test_a_key_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="no such key"):
        ShareConsumer(NOWHERE | {"columnar.encodin": "none"})
    with pytest.raises(TypeError, match="expected configuration dict"):
        ShareConsumer()


def test_where_confluent_kafka_has_none_its_version_is_named(monkeypatch) -> None:
    monkeypatch.setattr(share, "StockShareConsumer", object)
    with pytest.raises(NotImplementedError) as raised:
        ShareConsumer(NOWHERE)
    assert str(raised.value) == (
        "ShareConsumer needs confluent-kafka 2.15 or later; "
        f"{confluent_kafka.__version__} is installed"
    )
