"""Takes orders from its input, and bills them; values are Avro with a schema registry."""

import json
import os
import signal
import sys
import threading

from confluent_kafka import DeserializingConsumer, SerializingProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

CONFIG = json.loads(os.environ["CONFIG"])
TOPIC = os.environ["TOPIC"]
REGISTRY = SchemaRegistryClient({"url": os.environ["REGISTRY"]})
SCHEMA = os.environ["SCHEMA"]


def take_orders() -> None:
    """Produce each line of the input."""
    failed = []

    def report(error, message) -> None:
        if error is not None:
            failed.append((error, message.value()))

    producer = SerializingProducer(
        {
            **CONFIG,
            "key.serializer": lambda key, _: key.encode(),
            "value.serializer": AvroSerializer(REGISTRY, SCHEMA),
        }
    )
    for line in sys.stdin:
        order = json.loads(line)
        producer.produce(TOPIC, key=str(order["id"]), value=order, on_delivery=report)
        producer.poll(0)
    producer.flush()
    assert not failed, failed


def bill() -> None:
    """Print each order and commit it, until SIGTERM."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    consumer = DeserializingConsumer(
        {
            **CONFIG,
            "key.deserializer": lambda key, _: key and key.decode(),
            "value.deserializer": AvroDeserializer(REGISTRY, SCHEMA),
        }
    )
    consumer.subscribe([TOPIC])
    while not stopped.is_set():
        message = consumer.poll(0.1)
        if message is not None:
            print(json.dumps([message.key(), message.value()]), flush=True)
            consumer.commit(message=message, asynchronous=False)
    consumer.close()


{"take_orders": take_orders, "bill": bill}[sys.argv[1]]()
