"""Kafka in memory, for the unit tests of services that produce and consume.

>>> from columnar_kafka.testing import FakeKafka
"""

from columnar_kafka.testing.kafka import FakeKafka

__all__ = ["FakeKafka"]
