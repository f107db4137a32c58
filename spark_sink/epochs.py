"""What a task has sent with a transaction: the transaction itself commits which epoch it was.

The mark is the metadata of a committed offset, in a group with the transaction's own id. So it is
there if and only if the epoch's rows are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, TopicPartition

from columnar_kafka.broker.client_classes import StockConsumer
from columnar_kafka.errors import ColumnarError

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def is_sent(self, last: str) -> bool:
        """Return whether the task that `last` is the mark of was this epoch's.

        Raises:
            ColumnarError: it was a later one's.
        """
        query, _, number = last.rpartition(":")
        if query != self.query or int(number) < self.number:
            return False
        if int(number) > self.number:
            raise ColumnarError(
                f"this query has already sent epoch {number}, and this is epoch {self.number}. If "
                "the checkpoint was restored, set another kafka.transactional.id: rows that were "
                "sent after that checkpoint are then sent again"
            )
        return True


class EpochMarks:
    """The marks of one transactional id, a task's. Blocks for Kafka; close it."""

    def __init__(self, config: Mapping[str, Any], transactional_id: str) -> None:
        """Create a client; `config` is what a consumer needs to connect."""
        self._consumer = StockConsumer(
            {
                **config,
                "group.id": transactional_id,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self.close = self._consumer.close

    def last(self, topic: str) -> str:
        """Return the mark of the last transaction that began with a row for `topic`; "" if none.

        Raises:
            KafkaException: it cannot be known.
        """
        [found] = self._consumer.committed([TopicPartition(topic, 0)], _TIMEOUT)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.metadata or ""

    def add(self, producer: Producer, topic: str, epoch: Epoch) -> None:
        """Make a mark part of the producer's transaction. Raises KafkaException if it cannot be."""
        mark = TopicPartition(topic, 0, 0, str(epoch))
        group = self._consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([mark], group, _TIMEOUT)
