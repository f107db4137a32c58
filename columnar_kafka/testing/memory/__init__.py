"""A Kafka in memory: topics, groups, transactions and faults on request, without a server.

`MemoryKafka` is the cluster; any number of `MemoryProducer` and `MemoryConsumer` are its clients.
Nothing here has a thread: what librdkafka does in the background is done inside the client's own
calls, and acknowledgements are served by `poll` and `flush` alone, as librdkafka serves them.
"""

from columnar_kafka.testing.memory.cluster import MemoryKafka
from columnar_kafka.testing.memory.consumer import MemoryConsumer
from columnar_kafka.testing.memory.producer import MemoryProducer

__all__ = ["MemoryConsumer", "MemoryKafka", "MemoryProducer"]
