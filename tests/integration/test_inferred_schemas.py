"""`columnar.schema=infer` with librdkafka's clients: what a topic's segments tell, and at exit."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

from columnar_kafka import Consumer, Producer

if TYPE_CHECKING:
    from columnar_kafka.local import EmbeddedKafka

CONFIG: dict[str, Any] = {"columnar.encoding": "parquet", "columnar.value.format": "json"}
INFERS = {**CONFIG, "columnar.schema": "infer", "columnar.linger.ms": 100}
UNFLUSHED = """
import json, sys
from columnar_kafka import Producer
producer = Producer(json.loads(sys.argv[1]))
for n in range(10):
    producer.produce(sys.argv[2], b'{"n":%d}' % n, partition=0)
"""


def test_a_producer_takes_the_columns_of_the_newest_segments(embedded: EmbeddedKafka) -> None:
    topic = "inferred"
    embedded.create_topic(topic, 2)
    config = {**INFERS, "bootstrap.servers": embedded.bootstrap_servers}
    for value in ({"a": 1}, {"a": "text", "b": 2.5}, {"c": True}):
        with Producer(config) as producer:
            producer.produce(topic, json.dumps(value), partition=0)
            producer.produce(topic, b"plain", partition=1)
    settings = {"bootstrap.servers": embedded.bootstrap_servers, "group.id": "g"}
    columns = []
    with Consumer({**CONFIG, **settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while len(columns) < 3:
            if (table := consumer.consume_arrow(1, 30)) is not None:
                columns.append([name for name in table.column_names if name != "_kafka"])
    assert columns == [["a", "_rest"], ["a", "b", "_rest"], ["a", "b", "c", "_rest"]]


def test_a_program_that_ends_sends_what_waits_for_a_schema(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("inferred-at-exit", 1)
    config = {**INFERS, "columnar.linger.ms": 60_000}
    config["bootstrap.servers"] = embedded.bootstrap_servers
    command = [sys.executable, "-c", UNFLUSHED, json.dumps(config), "inferred-at-exit"]
    subprocess.run(command, check=True, timeout=60)
    settings = {"bootstrap.servers": embedded.bootstrap_servers, "group.id": "g"}
    with Consumer({**CONFIG, **settings}) as consumer:
        consumer.assign([TopicPartition("inferred-at-exit", 0, 0)])
        values = [message.value() for message in consumer.consume(10, 30)]
    assert values == [b'{"n":%d}' % n for n in range(10)]
