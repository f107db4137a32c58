"""Real servers for demo, tests and benchmarks, started by the project itself.

They listen on 127.0.0.1 only and cannot outlive the process that started them.
"""

from columnar_kafka.local.broker import LocalKafkaError
from columnar_kafka.local.embedded import EmbeddedKafka
from columnar_kafka.local.java import (
    JarsMissingError,
    Java,
    JavaMissingError,
    find_java,
    kafka_jars,
    spark_kafka_jars,
)
from columnar_kafka.local.kafka import LocalKafka, Node

__all__ = [
    "EmbeddedKafka",
    "JarsMissingError",
    "Java",
    "JavaMissingError",
    "LocalKafka",
    "LocalKafkaError",
    "Node",
    "find_java",
    "kafka_jars",
    "spark_kafka_jars",
]
