"""The clients for asyncio, with the methods of `confluent_kafka.aio`.

>>> from columnar_kafka.aio import AIOConsumer, AIOProducer
"""

from columnar_kafka.aio.consumer import AIOConsumer
from columnar_kafka.aio.producer import AIOProducer

__all__ = ["AIOConsumer", "AIOProducer"]
