"""Sealed batches become segments, each below what client, topic and consumers accept."""

from __future__ import annotations

# pyarrow imports it with the first conversion, if pandas is installed. At interpreter exit, when
# the last records are flushed, that is too late: every record would fail.
import concurrent.futures.thread  # noqa: F401
import logging
import math
import os
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaError

from columnar_kafka.producing.segment_limits import MOST_BYTES
from columnar_kafka.producing.sending.messages import EncodedSegment
from columnar_kafka.producing.sending.moved import MovedRecords
from columnar_kafka.segment.headers import SegmentHeader, with_checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from columnar_kafka.producing.accepting.record_queue import RecordQueue
    from columnar_kafka.producing.engine.base import Batch, TopicFormat
    from columnar_kafka.producing.engine.pure import Chunk
    from columnar_kafka.producing.engine.record_block import Block
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall
    from columnar_kafka.producing.reporting.delivery import Delivery
    from columnar_kafka.producing.sending.arrow_batch import ArrowBatch

__all__ = ["Segmenter"]

_log = logging.getLogger(__name__)

_FIRST_DENSITY: Final = 1.0
"""Encoded bytes per byte of Arrow data, until the first segment of a topic is measured."""
_SMALL_ROWS: Final = 30
_SMALL_BYTES: Final = 50_000
_SMALL_SEGMENTS: Final = 50
"""After so many small segments in a row, a warning says that they do not pay."""


class _Origin(NamedTuple):
    """The properties that all segments of one batch share."""

    topic_format: TopicFormat
    partition: int
    accepted_at: float
    call: ArrowCall | None = None
    taken_per_row: float | None = None  # bytes, as `RowColumns.take` measured them
    held_per_row: float = 1.0  # those of Arrow data

    @classmethod
    def of(cls, batch: Batch | MovedRecords) -> _Origin:
        """Return those of a batch."""
        return cls(
            batch.topic_format,
            batch.partition,
            batch.accepted_at,
            batch.call,
            batch.taken_per_row,
        )


class Segmenter:
    """Converts and encodes. Used by the sender's thread alone, with no lock held."""

    def __init__(
        self,
        *,
        delivery: Delivery,
        queue: RecordQueue,
        tell: Callable[[Callable[[], object]], None],
    ) -> None:
        """Call `tell` with what is to be logged, when that is possible."""
        self.done = 0
        """How many blocks have been converted and encoded; grows. For any thread."""
        self._tell = tell
        self.delivery = delivery
        self.queue = queue
        self._ids = _ids()
        self._density: dict[str, float] = {}  # by topic
        self._small: dict[str, int] = {}  # by topic: small segments in a row

    def convert(self, chunk: Chunk) -> None:
        """Convert a chunk to columns, and charge their size instead of the estimate."""
        bad = chunk.convert()
        held = 0 if chunk.block is None else chunk.block.nbytes
        # A row that failed is kept as it was accepted until it is reported.
        kept = 0 if chunk.block is None else len(chunk.block)
        share = chunk.charged_bytes // max(1, kept + len(bad)) if bad else 0
        self.queue.charge(held + share * len(bad) - chunk.charged_bytes)
        chunk.charged_bytes = held
        self.done += 1
        for failed in bad:
            self.delivery.record_failed(failed, share)

    def encode(self, batch: Batch | MovedRecords) -> Iterator[EncodedSegment]:
        """Yield the segments of a sealed batch; report what cannot be encoded."""
        origin = _Origin.of(batch)
        for block, charged_bytes in batch.blocks(self):
            yield from self._cut(origin, block, charged_bytes)

    def encode_some(self, arrow_batch: ArrowBatch) -> Iterator[EncodedSegment]:
        """Take as many rows out of `arrow_batch` as should make one segment; yield its segments."""
        per_row = max(1.0, arrow_batch.rows.columns.nbytes / len(arrow_batch))
        origin = _Origin(
            arrow_batch.topic_format,
            arrow_batch.partition,
            arrow_batch.accepted_at,
            arrow_batch.call,
            held_per_row=per_row,
        )
        density = self._density.get(arrow_batch.topic, _FIRST_DENSITY)
        fitting = int(min(arrow_batch.topic_format.limits.target / density, MOST_BYTES) / per_row)
        block, charged_bytes = arrow_batch.pop(
            max(1, min(fitting, arrow_batch.topic_format.limits.rows))
        )
        yield from self._cut(origin, block, charged_bytes)

    def halve(self, rejected: EncodedSegment) -> Iterator[EncodedSegment]:
        """Yield smaller segments of the records, at least two, of one that Kafka rejected."""
        topic_format = rejected.topic_format
        origin = _Origin(topic_format, rejected.partition, rejected.accepted_at, rejected.call)
        self.queue.release_encoded(rejected)
        pieces = max(2, math.ceil(len(rejected.data) / topic_format.limits.most))
        yield from self._cut_into(pieces, origin, rejected.block, rejected.charged_bytes)

    def moved(self, refused: EncodedSegment, error: KafkaError) -> MovedRecords | None:
        """Return the records of a segment that may go to another partition; fail the others."""
        self.queue.release_encoded(refused)
        try:
            movable, pinned = MovedRecords.of(refused).unpinned()
        except Exception as mistake:  # noqa: BLE001 - the records must not go without a report
            self.tell_error("a segment of a partition that is gone could not be read", mistake)
            self.delivery.message_failed(refused, error)
            return None
        if pinned is not None:
            self.delivery.message_failed(pinned.unencoded(), error)
        return movable

    def unsent(self, batch: Batch) -> Iterator[EncodedSegment]:
        """Yield the records of a sealed batch that is given up, not encoded."""
        origin = _Origin.of(batch)
        for block, charged_bytes in batch.blocks(self):
            yield _unencoded(origin, block, charged_bytes)

    def tell_error(self, text: str, error: Exception) -> None:
        """Have an error logged that does no record harm, or only those it names."""
        self._tell(partial(_log.error, text, exc_info=error))

    def _cut(self, origin: _Origin, block: Block, charged_bytes: int) -> Iterator[EncodedSegment]:
        """Yield the segments of `block`, each below what client, topic and consumers accept."""
        try:
            segment = self._to_segment(origin, block, charged_bytes)
            size, most = len(segment.data), origin.topic_format.limits.most
            self._learn(origin, block, size)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must take no other along
            if len(block) > 1:
                yield from self._cut_into(2, origin, block, charged_bytes)
            else:
                self._unencodable(origin, block, charged_bytes, error)
            return
        if size <= most:
            self.queue.charge_encoded(segment.encoded_bytes)
            yield segment
        elif len(block) > 1:
            pieces = min(len(block), math.ceil(size / most) + 1)
            yield from self._cut_into(pieces, origin, block, charged_bytes)
        else:
            # A broker would reject it, and all that librdkafka sends in the same batch.
            reason = f"the record takes {size} bytes, and {most} is the most: message.max.bytes"
            reason += " or a quarter of queue.buffering.max.kbytes of the client, or"
            reason += " max.message.bytes of the topic"
            too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, reason)
            self._fail_one(origin, block, charged_bytes, too_large)

    def _cut_into(
        self, pieces: int, origin: _Origin, block: Block, charged_bytes: int
    ) -> Iterator[EncodedSegment]:
        bounds = [len(block) * i // pieces for i in range(pieces + 1)]
        try:
            blocks = [block.slice(start, stop) for start, stop in pairwise(bounds)]
        except Exception as error:  # noqa: BLE001 - as in `_cut`
            self._unencodable(origin, block, charged_bytes, error)
            return
        for piece, (start, stop) in zip(blocks, pairwise(bounds), strict=True):
            share = charged_bytes * stop // len(block) - charged_bytes * start // len(block)
            if piece:
                yield from self._cut(origin, piece, share)

    def _learn(self, origin: _Origin, block: Block, size: int) -> None:
        """Learn how well this topic's records compress; warn once when segments are too small."""
        topic, rows = origin.topic_format.topic, len(block)
        if origin.taken_per_row is not None:
            taken = int(origin.taken_per_row * rows)
            origin.topic_format.limits.learn(taken_bytes=taken, encoded_bytes=size)
        elif origin.call is not None:
            seen = size / (origin.held_per_row * rows)
            self._density[topic] = 0.5 * (self._density.get(topic, seen) + seen)
        small = rows < _SMALL_ROWS and size < _SMALL_BYTES
        count = self._small.get(topic, 0)
        if count < _SMALL_SEGMENTS:
            self._small[topic] = count = count + 1 if small else 0
            if count == _SMALL_SEGMENTS:
                text = (
                    "topic %r: the last %d segments had fewer than %d records each, and plain "
                    "messages would be smaller: raise columnar.linger.ms, flush less often, or "
                    "send fewer partitions' records from one producer"
                )
                self._tell(partial(_log.warning, text, topic, _SMALL_SEGMENTS, _SMALL_ROWS))

    def _unencodable(
        self, origin: _Origin, block: Block, charged_bytes: int, error: Exception
    ) -> None:
        """Report records that fit their schema and yet cannot be written."""
        reason = f"the record cannot be written as Parquet: {type(error).__name__}: {error}"
        code = KafkaError._VALUE_SERIALIZATION
        self._fail_one(origin, block, charged_bytes, KafkaError(code, reason))

    def _fail_one(
        self, origin: _Origin, block: Block, charged_bytes: int, error: KafkaError
    ) -> None:
        self.delivery.message_failed(_unencoded(origin, block, charged_bytes), error)

    def _to_segment(self, origin: _Origin, block: Block, charged_bytes: int) -> EncodedSegment:
        """Encode a block; raises, besides what encoding does, where it is to be cut in any case."""
        rows = len(block)
        if rows > 1 and not block.is_decodable():
            raise OverflowError("its columns take more than consumers decode by default")
        topic_format = origin.topic_format
        earliest, latest = block.time_bounds()
        segment = next(self._ids)
        footer = SegmentHeader(rows, segment, topic_format.fingerprint, earliest, latest).footer()
        data = block.encode(topic_format.kafka, topic_format.encoder, segment, footer)
        self.done += 1
        return EncodedSegment(
            topic_format=topic_format,
            partition=origin.partition,
            block=block,
            headers=with_checksum(footer, data),
            latest=latest,
            data=data,
            accepted_at=origin.accepted_at,
            charged_bytes=charged_bytes,
            encoded_bytes=2 * len(data),  # librdkafka copies the data
            call=origin.call,
        )


def _unencoded(origin: _Origin, block: Block, charged_bytes: int) -> EncodedSegment:
    """Return records that are reported without having been encoded."""
    return EncodedSegment(
        topic_format=origin.topic_format,
        partition=origin.partition,
        block=block,
        accepted_at=origin.accepted_at,
        charged_bytes=charged_bytes,
        call=origin.call,
    )


def _ids() -> Iterator[str]:
    """Yield segment ids: a producer's random 80 bits and a sequence number."""
    producer = os.urandom(10).hex()
    sequence = 0
    while True:
        yield f"{producer}-{sequence}"
        sequence += 1
