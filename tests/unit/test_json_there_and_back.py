"""Bytes in, bytes out: JSON that is produced comes back equal, with the native core and without."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from drifting import ODD, Drifting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_leaves import LEAVES, NUMBERS, TEXTS
from support import examples

from columnar_kafka import native
from columnar_kafka.producing import inferring
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = {"columnar.encoding": "parquet", "columnar.value.format": "json"}
WAYS = [True, False] if native.enabled else [False]


def there_and_back(
    schema: Any, values: Sequence[Any], *, produced: bool, consumed: bool, **config: Any
) -> tuple[list[bytes], int]:
    """Return what is consumed of values, and how many segments there were in between.

    `produced` and `consumed` say where the core is on.
    """
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", produced)
        with kafka.Producer({**CONFIG, "columnar.linger.ms": 60_000, **config}) as producer:
            producer.set_schema("t", schema)
            for value in values:
                producer.produce("t", value)
        patch.setattr(native, "enabled", consumed)
        consumer = kafka.Consumer({**CONFIG, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        messages = consumer.consume(len(values) + 1, 0)
    assert all(message.error() is None for message in messages)
    segments = sum(is_segment(message.headers()) for message in kafka.messages("t"))
    return [message.value() for message in messages], segments


def assert_same(given: Any, found: bytes) -> None:
    """Compare JSON values, or bytes that are none; true is not 1, and absent is not null."""
    try:
        expected = json.loads(given)
    except ValueError:
        assert found == given
        return
    assert told_apart(json.loads(found)) == told_apart(expected), (given, found)


def told_apart(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: told_apart(part) for name, part in value.items()}
    if isinstance(value, list):
        return [told_apart(part) for part in value]
    return str(value) if isinstance(value, bool) else (value,)


@pytest.mark.parametrize("produced", WAYS)
@pytest.mark.parametrize("consumed", WAYS)
@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64))
def test_random_objects(seed: int, produced: bool, consumed: bool) -> None:
    rng = random.Random(seed)
    drifting = Drifting(rng)
    values = [drifting.message().encode() for _ in range(40)]
    for index in range(len(values)):
        if rng.random() < 0.05:
            values[index] = rng.choice([b"", b"[]", values[index][:-1], b"1", b"\xff"])
    fields = {"columnar.value.fields": rng.choice(["lenient", "lenient", "exact"])}
    found, _ = there_and_back(
        drifting.schema, values, produced=produced, consumed=consumed, **fields
    )
    assert len(found) == len(values)
    for value, other in zip(values, found, strict=True):
        assert_same(value, other)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64))
def test_random_objects_without_a_schema(seed: int, way: bool) -> None:
    """Of producers that begin one after the other, whose objects differ; columns grow meanwhile."""
    rng = random.Random(seed)
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    values: list[bytes] = []
    config = {**CONFIG, "columnar.schema": "infer", "columnar.linger.ms": 60_000}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", way)
        patch.setattr(inferring, "_BETWEEN_CHANGES", 0.0)
        patch.setattr(inferring, "_BETWEEN_LOOKS", 0.0)
        for _ in range(2):
            with kafka.Producer({**config, "columnar.schema.max.columns": 9}) as producer:
                for _ in range(3):
                    drifting = Drifting(rng)
                    for _ in range(8):
                        values.append(drifting.message().encode())
                        producer.produce("t", values[-1])
                    producer.flush()
        consumer = kafka.Consumer({**CONFIG, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        messages = consumer.consume(len(values) + 1, 0)
    assert all(message.error() is None for message in messages)
    for value, message in zip(values, messages, strict=True):
        assert_same(value, message.value())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("arrow", LEAVES, ids=str)
def test_each_leaf(arrow: pa.DataType, way: bool) -> None:
    """Nothing is lost, whether the column holds it or the rest does."""
    texts = [*ODD, *NUMBERS, *(f"-{number}" for number in NUMBERS), *(f'"{t}"' for t in TEXTS)]
    values = [b'{"f":%s}' % text.encode() for text in texts]
    found, segments = there_and_back(pa.schema([("f", arrow)]), values, produced=way, consumed=way)
    assert segments >= 1
    for value, other in zip(values, found, strict=True):
        assert_same(value, other)


@pytest.mark.parametrize("way", WAYS)
def test_absent_and_null(way: bool) -> None:
    schema = pa.schema([("a", pa.int64()), ("o", pa.struct([("x", pa.int64())]))])
    values = [b"{}", b'{"a":null}', b'{"o":null}', b'{"o":{}}', b'{"o":{"x":null}}', b'{"b":null}']
    values += [b'{"a":1,"o":{"x":2}}', *reversed(values)]
    found, segments = there_and_back(schema, values, produced=way, consumed=way)
    assert segments == 1
    assert found == values


@pytest.mark.parametrize("way", WAYS)
def test_rows_among_values(way: bool) -> None:
    schema = pa.schema([("a", pa.int64()), ("o", pa.struct([("x", pa.int64())]))])
    values = [b"{}", {"a": None, "o": {"x": None}}, b'{"a":null}', {"a": 1, "o": None}]
    found, _ = there_and_back(schema, values, produced=way, consumed=way)
    assert found == [b"{}", b'{"a":null,"o":{"x":null}}', b'{"a":null}', b'{"a":1,"o":null}']


UUID = {"type": {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, "name": "id"}


@pytest.mark.parametrize("way", WAYS)
def test_uuids_and_json_texts(way: bool) -> None:
    text = {"name": "p", "type": ["null", {"type": "string", "logicalType": "json"}]}
    schema = json.dumps({"type": "record", "name": "R", "fields": [UUID, text]})
    value = b'{"id":"00112233-4455-6677-8899-aabbccddeeff","p":{"x":[1.50,null]}}'
    found, segments = there_and_back(schema, [value, value], produced=way, consumed=way)
    assert segments == 1
    assert found == [value, value]
