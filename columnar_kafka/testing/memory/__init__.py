"""A Kafka in memory: topics, groups, transactions and faults on request, without a server.

`MemoryKafka` is the cluster; any number of `MemoryProducer` and `MemoryConsumer` are its clients.
There is no thread: librdkafka's background work is done inside the client's own calls. `poll` and
`flush` serve acknowledgements, as in librdkafka.
"""

from columnar_kafka.testing.memory.cluster import MemoryKafka
from columnar_kafka.testing.memory.consumer import MemoryConsumer
from columnar_kafka.testing.memory.producer import MemoryProducer

__all__ = ["MemoryConsumer", "MemoryKafka", "MemoryProducer"]
