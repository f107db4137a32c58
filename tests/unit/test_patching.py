"""`patch_confluent_kafka` gives whoever imports confluent-kafka's classes ours, configured."""

# ruff: noqa: SLF001 - what a client was configured with

from __future__ import annotations

import logging
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest

import columnar_kafka
from columnar_kafka import ConfigError, patch_confluent_kafka
from columnar_kafka.broker import traced_classes
from columnar_kafka.producing import pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("Producer", "SerializingProducer", "Consumer", "DeserializingConsumer")
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
GROUP = {**NOWHERE, "group.id": "g"}
JSON = {"columnar.encoding": "parquet", "columnar.value.format": "json"}
SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture(autouse=True)
def stock(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the test replaces, which is put back after it."""
    found = {name: getattr(confluent_kafka, name) for name in NAMES}
    for name, cls in found.items():
        monkeypatch.setattr(confluent_kafka, name, cls)
    monkeypatch.setattr(traced_classes, "BEFORE_OURS", dict(found))
    monkeypatch.setattr(pipeline, "_TOPIC_CONFIG_TIMEOUT", 0.01)
    return found


@pytest.fixture
def framework() -> Iterator[str]:
    """The name of a module that will import confluent-kafka's classes."""
    yield "a_framework"
    sys.modules.pop("a_framework", None)


def imported(name: str, **members: Any) -> None:
    """Import a module that has these members."""
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


@pytest.mark.parametrize(
    ("given", "replaced"),
    [
        ({"producer": JSON}, {"Producer", "SerializingProducer"}),
        ({"consumer": JSON}, {"Consumer", "DeserializingConsumer"}),
        ({"producer": {}, "consumer": {}}, set(NAMES)),
        ({}, set()),
    ],
)
def test_the_classes_that_are_named_are_replaced(
    stock: dict[str, Any], given: dict[str, Any], replaced: set[str]
) -> None:
    patch_confluent_kafka(**given)
    for name in NAMES:
        found = getattr(confluent_kafka, name)
        assert found.__name__ == name
        assert issubclass(found, getattr(columnar_kafka, name)) == (name in replaced)
        assert (found is stock[name]) == (name not in replaced)


def test_a_producer_has_the_frameworks_keys_and_the_given_ones() -> None:
    patch_confluent_kafka(
        producer={**JSON, "linger.ms": 7, "columnar.schema.topics": {"t": SCHEMA}}
    )
    for made in (
        confluent_kafka.Producer({**NOWHERE, "linger.ms": 0}),
        confluent_kafka.Producer(NOWHERE, logger=logging.getLogger("x")),
        confluent_kafka.SerializingProducer({**NOWHERE, "value.serializer": None}),
    ):
        with made as producer:
            assert isinstance(producer, columnar_kafka.Producer)
            assert producer._settings.linger == pytest.approx(0.993)
            assert producer._pipeline.formats["t"].value_format == "json"


def test_a_consumer_has_the_frameworks_keys_and_the_given_ones() -> None:
    patch_confluent_kafka(consumer=JSON)
    for cls in (confluent_kafka.Consumer, confluent_kafka.DeserializingConsumer):
        with cls(GROUP) as consumer:
            assert isinstance(consumer, columnar_kafka.Consumer)
            assert consumer._settings.unwraps
    with pytest.raises(TypeError, match="expected configuration dict"):
        confluent_kafka.Consumer()


def test_what_cannot_be_is_refused_before_anything_is_replaced(stock: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"columnar\.encodign"):
        patch_confluent_kafka(producer={"columnar.encodign": "parquet"})
    with pytest.raises(ConfigError, match=r"columnar\.linger\.ms"):
        patch_confluent_kafka(producer={}, consumer={"columnar.linger.ms": 5})
    assert {name: getattr(confluent_kafka, name) for name in NAMES} == stock


def test_who_has_imported_a_class_before_is_named(
    framework: str, caplog: pytest.LogCaptureFixture
) -> None:
    imported(framework, Client=confluent_kafka.Producer)
    patch_confluent_kafka(producer=JSON)
    [text] = [text for text in caplog.messages if framework in text]
    assert re.fullmatch(
        r".*\ba_framework\b.* had imported confluent_kafka\.Producer before patch_confluent_kafka "
        "was called, and goes on with it: call it earlier",
        text,
    )


def test_who_imports_a_class_afterwards_is_not_named(
    framework: str, caplog: pytest.LogCaptureFixture
) -> None:
    patch_confluent_kafka(producer=JSON)
    imported(framework, Client=confluent_kafka.Producer)
    assert framework not in caplog.text


def test_a_second_call_takes_the_place_of_the_first(stock: dict[str, Any]) -> None:
    patch_confluent_kafka(producer=JSON)
    first = confluent_kafka.Producer
    patch_confluent_kafka(producer={"columnar.encoding": "none"})
    assert not issubclass(confluent_kafka.Producer, first)
    with confluent_kafka.Producer(NOWHERE) as producer:
        assert producer._settings.encoding == "none"
    assert stock == traced_classes.BEFORE_OURS


def test_a_tracers_class_stays_above_ours(stock: dict[str, Any]) -> None:
    """Also one that came after this package was imported, and is not named as late."""

    class Traced(stock["Producer"]):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.seen = args, kwargs

    confluent_kafka.Producer = Traced  # type: ignore[misc]
    patch_confluent_kafka(producer=JSON)
    with confluent_kafka.Producer(NOWHERE) as producer:
        assert isinstance(producer, Traced)
        assert isinstance(producer, columnar_kafka.Producer)
        assert producer.seen == ((NOWHERE | JSON,), {})
