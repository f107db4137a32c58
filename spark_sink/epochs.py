"""What a task has sent with a transaction: the transaction itself commits which epoch it was.

The mark is the metadata of a committed offset, in a group with the transaction's own id. So it is
there if and only if the epoch's rows are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.errors import ColumnarError
from columnar_kafka.ingest.topic_id import admin_client

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka import Producer

__all__ = ["Epoch", "EpochMarks"]

_TIMEOUT: Final = 60.0


@dataclass(frozen=True, slots=True)
class Epoch:
    """A batch of a query. `query` is the same after a restart, and that of no other query."""

    query: str
    number: int

    def __str__(self) -> str:
        return f"{self.query}:{self.number}"

    def is_sent(self, marks: Iterable[str]) -> bool:
        """Return whether these marks of a task say that it has sent this epoch.

        Raises:
            ColumnarError: it has sent a later one of this query.
        """
        parts = [mark.rpartition(":") for mark in marks]
        last = max((int(number) for query, _, number in parts if query == self.query), default=-1)
        if last > self.number:
            raise ColumnarError(
                f"this query has already sent epoch {last}, and this is epoch {self.number}. If "
                "the checkpoint was restored, set another kafka.transactional.id: rows that were "
                "sent after that checkpoint are then sent again"
            )
        return last == self.number


class EpochMarks:
    """The marks of one transactional id, a task's. Blocks for Kafka; close it."""

    def __init__(self, config: Mapping[str, Any], transactional_id: str) -> None:
        """Create a client; `config` is what a consumer needs to connect."""
        self._config = config
        self._group = transactional_id
        self._consumer = StockConsumer(
            {
                **config,
                "group.id": transactional_id,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self.close = self._consumer.close

    def last(self, topic: str) -> list[str]:
        """Return the last mark at each topic; a transaction's is at the topic of its first row.

        That at `topic` is certain: the consumer asks until no transaction is completing it. The
        others are listed as they are; they only tell that a checkpoint was restored.

        Raises:
            KafkaException: they cannot be known.
        """
        committed = self._consumer.committed([TopicPartition(topic, 0)], _TIMEOUT)
        with admin_client(self._config) as admin:
            [listed] = admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._group)], request_timeout=_TIMEOUT
            ).values()
            committed += listed.result(_TIMEOUT).topic_partitions
        for partition in committed:
            if partition.error is not None:
                raise KafkaException(partition.error)
        return [partition.metadata or "" for partition in committed]

    def add(self, producer: Producer, topic: str, epoch: Epoch) -> None:
        """Make a mark part of the producer's transaction. Raises KafkaException if it cannot be."""
        mark = TopicPartition(topic, 0, 0, str(epoch))
        group = self._consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([mark], group, _TIMEOUT)
