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
from typing import TYPE_CHECKING, Final, Protocol

from confluent_kafka import KafkaError

from columnar_kafka.producing.segment_limits import MOST_BYTES
from columnar_kafka.producing.sending.messages import EncodedSegment, Outgoing, PlainMessage
from columnar_kafka.producing.sending.moved import MovedRecords
from columnar_kafka.segment.headers import SegmentHeader, with_checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from columnar_kafka.producing.accepting.record_queue import RecordQueue
    from columnar_kafka.producing.engine.base import Batch, TopicFormat
    from columnar_kafka.producing.engine.pure import Chunk
    from columnar_kafka.producing.engine.record_block import Block
    from columnar_kafka.producing.inferring import Inferring
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


class _Origin(Protocol):
    """What records come from: the properties that all their segments share."""

    @property
    def topic_format(self) -> TopicFormat: ...
    @property
    def partition(self) -> int: ...
    @property
    def accepted_at(self) -> float: ...
    @property
    def call(self) -> ArrowCall | None: ...
    @property
    def taken_per_row(self) -> float | None: ...


class Segmenter:
    """Converts and encodes. Used by the sender's thread alone, with no lock held."""

    def __init__(
        self,
        *,
        delivery: Delivery,
        queue: RecordQueue,
        tell: Callable[[Callable[[], object]], None],
        inferring: Inferring | None = None,
    ) -> None:
        """Call `tell` with what is to be logged, when that is possible.

        `inferring` has schemas grow by the segments.
        """
        self.done = 0
        """How many blocks have been converted and encoded; grows. For any thread."""
        self._tell = tell
        self._inferring = inferring
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
        self.queue.usage.charge(held + share * len(bad) - chunk.charged_bytes)
        chunk.charged_bytes = held
        self.done += 1
        for failed in bad:
            self.delivery.record_failed(failed, share)

    def encode(self, batch: Batch | MovedRecords) -> list[Outgoing]:
        """Return the segments of a sealed batch; report what cannot be encoded.

        A value in JSON that fits no segment is a plain message among them.
        """
        segments: list[Outgoing] = []
        for block, charged_bytes in batch.blocks(self):
            segments += self._cut(batch, block, charged_bytes)
        return segments

    def encode_some(self, arrow_batch: ArrowBatch) -> list[Outgoing]:
        """Take out of `arrow_batch` the rows that should make one segment; return its segments."""
        topic, limits = arrow_batch.topic, arrow_batch.topic_format.limits
        per_row = max(1.0, arrow_batch.rows.columns.nbytes / len(arrow_batch))
        density = self._density.get(topic, _FIRST_DENSITY)
        fitting = int(min(limits.target / density, MOST_BYTES) / per_row)
        block, charged_bytes = arrow_batch.pop(max(1, min(fitting, limits.rows)))
        segments = self._cut(arrow_batch, block, charged_bytes)
        if segments:
            seen = sum(segment.stored[2] for segment in segments) / (per_row * len(block))
            self._density[topic] = 0.5 * (self._density.get(topic, seen) + seen)
        return segments

    def halve(self, rejected: EncodedSegment) -> list[Outgoing]:
        """Return smaller segments of the records, at least two, of one that Kafka rejected."""
        self.queue.usage.release_encoded(rejected)
        pieces = max(2, math.ceil(len(rejected.data) / rejected.limits.most))
        return self._cut_into(pieces, rejected, rejected.block, rejected.charged_bytes)

    def moved(self, refused: EncodedSegment, error: KafkaError) -> MovedRecords | None:
        """Return the records of a segment that may go to another partition; fail the others."""
        self.queue.usage.release_encoded(refused)
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
        for block, charged_bytes in batch.blocks(self):
            yield _unencoded(batch, block, charged_bytes)

    def tell_error(self, text: str, error: Exception) -> None:
        """Have an error logged that does no record harm, or only those it names."""
        self._tell(partial(_log.error, text, exc_info=error))

    def _cut(self, origin: _Origin, block: Block, charged_bytes: int) -> list[Outgoing]:
        """Return the segments of `block`, each below what client, topic and consumers accept."""
        rows, most = len(block), origin.topic_format.limits.most
        try:
            segment = self._to_segment(origin, block, rows, charged_bytes)
            size = len(segment.data)
            self._learn(origin, rows, size)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must take no other along
            if rows > 1:
                return self._cut_into(2, origin, block, charged_bytes)
            return self._unencodable(origin, block, charged_bytes, error)
        if size <= most:
            self.queue.usage.encode(segment.encoded_bytes)
            if origin.topic_format.is_inferred:
                self._grow(segment)
            return [segment]
        if rows > 1:
            pieces = min(rows, math.ceil(size / most) + 1)
            return self._cut_into(pieces, origin, block, charged_bytes)
        # A broker would reject it, and all that librdkafka sends in the same batch.
        reason = f"the record takes {size} bytes, and {most} is the most: message.max.bytes"
        reason += " or a quarter of queue.buffering.max.kbytes of the client, or"
        reason += " max.message.bytes of the topic"
        too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, reason)
        return self._refuse(origin, block, charged_bytes, too_large)

    def _grow(self, segment: EncodedSegment) -> None:
        """Have the topic's schema grow, if the segment tells how."""
        assert self._inferring is not None
        try:
            self._inferring.look_at(segment, self._tell)
        except Exception as error:  # noqa: BLE001 - it does its records no harm
            self.tell_error("the rest of a segment could not be read for new columns", error)

    def _cut_into(
        self, pieces: int, origin: _Origin, block: Block, charged_bytes: int
    ) -> list[Outgoing]:
        bounds = [len(block) * i // pieces for i in range(pieces + 1)]
        try:
            blocks = [block.slice(start, stop) for start, stop in pairwise(bounds)]
        except Exception as error:  # noqa: BLE001 - as in `_cut`
            return self._unencodable(origin, block, charged_bytes, error)
        segments: list[Outgoing] = []
        for piece, (start, stop) in zip(blocks, pairwise(bounds), strict=True):
            share = charged_bytes * stop // len(block) - charged_bytes * start // len(block)
            if piece:
                segments += self._cut(origin, piece, share)
        return segments

    def _learn(self, origin: _Origin, rows: int, size: int) -> None:
        """Learn how well this topic's records compress; warn once when segments are too small."""
        topic, per_row = origin.topic_format.topic, origin.taken_per_row
        if per_row is not None:
            taken_bytes = int(per_row * rows)
            origin.topic_format.limits.learn(taken_bytes=taken_bytes, encoded_bytes=size)
        count = self._small.get(topic, 0)
        if count < _SMALL_SEGMENTS:
            is_small = rows < _SMALL_ROWS and size < _SMALL_BYTES
            self._small[topic] = count = count + 1 if is_small else 0
            if count == _SMALL_SEGMENTS:
                text = (
                    "topic %r: the last %d segments had fewer than %d records each, and plain "
                    "messages would be smaller: raise columnar.linger.ms, flush less often, or "
                    "send fewer partitions' records from one producer"
                )
                self._tell(partial(_log.warning, text, topic, _SMALL_SEGMENTS, _SMALL_ROWS))

    def _unencodable(
        self, origin: _Origin, block: Block, charged_bytes: int, error: Exception
    ) -> list[Outgoing]:
        """Return or report records that fit their schema and yet cannot be written."""
        reason = f"the record cannot be written as Parquet: {type(error).__name__}: {error}"
        code = KafkaError._VALUE_SERIALIZATION
        return self._refuse(origin, block, charged_bytes, KafkaError(code, reason))

    def _refuse(
        self, origin: _Origin, block: Block, charged_bytes: int, error: KafkaError
    ) -> list[Outgoing]:
        """Return a record that fits no segment as the plain message it was; report others."""
        misfits, messages = origin.topic_format.misfits, list[Outgoing]()
        try:
            if len(block) == 1 and misfits is not None and misfits.are_sent:
                messages = self._as_given(origin, block, charged_bytes)
        except Exception as mistake:  # noqa: BLE001 - the record must not go without a report
            self.tell_error("a value could not be sent as it was given", mistake)
        if misfits is None or not messages:
            self.delivery.message_failed(_unencoded(origin, block, charged_bytes), error)
        elif (log := misfits.add(origin.topic_format.topic, error.str())) is not None:
            self._tell(log)
        return messages

    def _as_given(self, origin: _Origin, block: Block, charged_bytes: int) -> list[Outgoing]:
        """Return the only record as a message of the bytes that were given, if they are kept."""
        value, messages = block.given(0), list[Outgoing]()
        if value is not None:
            PlainMessage(
                topic_format=origin.topic_format,
                partition=origin.partition,
                value=value,
                key=block.key(0),
                timestamp=block.timestamp(0),
                headers=block.headers(0),
                callback=block.callback(0),
                accepted_at=origin.accepted_at,
                charged_bytes=charged_bytes,
                pinned=block.is_pinned(0),
            ).encode(self, messages)
        return messages

    def _to_segment(
        self, origin: _Origin, block: Block, rows: int, charged_bytes: int
    ) -> EncodedSegment:
        """Encode a block; raises, besides what encoding does, where it is to be cut in any case."""
        if rows > 1 and not block.is_decodable():
            raise OverflowError("its columns take more than consumers decode by default")
        topic_format = origin.topic_format
        earliest, latest = block.time_bounds()
        segment = next(self._ids)
        schema, schema_id = topic_format.fingerprint, topic_format.schema_id
        header = SegmentHeader(rows, segment, schema, earliest, latest, schema_id).footer()
        footer = header | topic_format.footer(of_rows=origin.call is not None)
        data = block.encode(topic_format.kafka, topic_format.encoder, segment, footer)
        self.done += 1
        return EncodedSegment(
            topic_format=topic_format,
            partition=origin.partition,
            block=block,
            headers=with_checksum(header, data),
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
