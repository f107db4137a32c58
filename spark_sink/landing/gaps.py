"""Messages that a stream has left out: asked from Kafka, since rows say nothing about others.

Transaction markers, aborted messages and compaction leave offsets without a committed message.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.config import Hidden
from columnar_kafka.lake.model import NotLandedError
from spark_sink.shared_options import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.lake.model import Fence, StageResult

__all__ = ["refuse_gaps"]

_TIMEOUT: Final = 30.0


def refuse_gaps(
    config: Mapping[str, Any], fences: Mapping[str, Fence], staged: Iterable[StageResult]
) -> None:
    """Check that no committed message lies between a fence and the first one that was staged.

    Asks Kafka, and blocks, only where offsets are missing there.

    Raises:
        NotLandedError: there is one, or there may have been, or Kafka cannot tell.
    """
    firsts: dict[str, int] = {}
    for result in staged:
        starts = [(file.fence, file.first) for file in result.files]
        starts += [(aside.source.fence, aside.first) for aside in result.set_aside]
        for name, first in starts:
            firsts[name] = min(first, firsts.get(name, first))
    for name, first in firsts.items():
        fence = fences.get(name)
        if fence is not None and first > fence.next:
            _refuse_messages(config, fence, first)


def _refuse_messages(config: Mapping[str, Any], fence: Fence, first: int) -> None:
    place = fence.partition_address
    between = f"between the table's next offset {fence.next} and the stream's first {first}"
    remedy = (
        "Go on with the checkpoint that belongs to this table, or start a new one; or give them up "
        'with option "table.gap" = "allow"'
    )
    try:
        low, next_offset = _offsets(config, fence)
    except KafkaException as error:
        raise NotLandedError(
            f"{place}: it is not known whether messages lie {between}: {error}"
        ) from error
    if low > fence.next:
        raise NotLandedError(
            f"{place}: Kafka has deleted the messages before offset {low}, and some may have "
            f"been {between}. {remedy}"
        )
    if next_offset < first:
        raise NotLandedError(
            f"{place}: there are messages from offset {next_offset} on, {between}. {remedy}"
        )


def _offsets(config: Mapping[str, Any], fence: Fence) -> tuple[int, int]:
    """Return the first offset that Kafka has of a partition, and the next one from its fence on.

    Raises:
        KafkaException: Kafka cannot tell.
    """
    client = Hidden(
        {
            "group.id": GROUP,
            "isolation.level": "read_committed",
            **config,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    with closing(StockConsumer(client)) as consumer:
        partition = TopicPartition(fence.topic, fence.partition, fence.next)
        low, _ = consumer.get_watermark_offsets(partition, _TIMEOUT)
        if low > fence.next:
            return low, low
        consumer.assign([partition])
        return low, _next_offset(consumer)


def _next_offset(consumer: StockConsumer) -> int:
    """Return the offset of the next committed message, or of the partition's end."""
    message = consumer.poll(_TIMEOUT)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no message for {_TIMEOUT} s"))
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return int(message.offset() or 0)
