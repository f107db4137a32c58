"""The sender's thread: sealed batches become segments and go to librdkafka, in order.

Converting and encoding are done here, with no lock held.
"""

from __future__ import annotations

# pyarrow imports it with the first conversion (where pandas is installed), and at interpreter exit,
# when the last records are flushed, that is too late: every record would be refused.
import concurrent.futures.thread  # noqa: F401
import logging
import math
import secrets
import threading
import time
from collections import deque
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.accumulator import Accumulator, Work, give_up
from columnar_kafka.batch import Batch, Block, Chunk, InFlight, OneRow, Plain, Refused
from columnar_kafka.wire import SegmentHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.budget import Budget
    from columnar_kafka.delivery import Delivery

__all__ = ["Sender"]

_log = logging.getLogger(__name__)

_FULL_WAIT: Final = 0.02
"""How soon librdkafka is asked again after its queue was full; a poll of the user makes room."""
_LOOKUP_TIMEOUT: Final = 1.0


class Sender:
    """Owns what is sealed until librdkafka has it. One thread runs it; `wake` may come from any."""

    def __init__(
        self,
        *,
        accumulator: Accumulator,
        broker: ProducerBroker,
        delivery: Delivery,
        budget: Budget,
        message_timeout: float,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._accumulator = accumulator
        self._broker = broker
        self._delivery = delivery
        self._budget = budget
        self._message_timeout = message_timeout
        self._clock = clock
        self._wall_ms = wall_ms
        self._ids = _ids()
        self._sealed: deque[Batch | Plain] = deque()
        self._outbox: deque[InFlight | Plain] = deque()
        self._wakeup = threading.Event()
        self._progress = threading.Condition()
        self._stopping = False
        self._purging = False
        self._thread = threading.Thread(target=self._run, name="columnar-kafka-sender", daemon=True)

    def __repr__(self) -> str:
        return f"<Sender {len(self._sealed)} sealed, {len(self._outbox)} encoded>"

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Make the thread look at the accumulator soon. Never blocks."""
        self._wakeup.set()

    def stop(self) -> None:
        """End the thread after what it is doing now; what is left stays where it is."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def purge(self) -> None:
        """Give up everything that librdkafka does not have; return when that is done."""
        with self._progress:
            self._purging = True
            self.wake()
            self._progress.wait_for(lambda: not self._purging or self._stopping)

    def wait_progress(self, timeout: float) -> None:
        """Wait until the thread has handed something over, at most `timeout` seconds."""
        with self._progress:
            self._progress.wait(timeout)

    def _run(self) -> None:
        while not self._stopping:
            self._wakeup.clear()
            try:
                wait = self.run_once(self._clock())
            except Exception:  # noqa: BLE001 - the thread must outlive whatever one batch did to it
                _log.exception("columnar-kafka's sender failed; it goes on")
                wait = _FULL_WAIT
            with self._progress:
                self._progress.notify_all()
            if not self._stopping:
                self._wakeup.wait(min(wait, threading.TIMEOUT_MAX))

    def run_once(self, now: float) -> float:
        """Do what is to be done at `now`; return the seconds until there may be more."""
        self._look_up(now)
        if self._purging:
            self._purge()
        work = self._accumulator.drain(now)
        self._expire(work, KafkaError(KafkaError._MSG_TIMED_OUT))
        self._sealed.extend(work.sealed)
        for chunk in work.chunks:
            self._convert(chunk)
        return self._send_all(now)

    def _expire(self, work: Work, error: KafkaError) -> None:
        for each in work.expired:
            charge = each.charge if isinstance(each, Plain) else each.nbytes
            self._delivery.refused(give_up(each, error), charge=charge)

    def _purge(self) -> None:
        """Fail what is here: encoded, sealed, open, or waiting for its partition."""
        error = KafkaError(KafkaError._PURGE_QUEUE)
        work = self._accumulator.take_all()
        self._expire(work, error)
        self._sealed.extend(work.sealed)
        while self._outbox or self._sealed:
            if not self._outbox:
                self._take_next()
                continue
            self._fail(self._outbox.popleft(), error)
        self._purging = False

    def _look_up(self, now: float) -> None:
        for topic in self._accumulator.to_look_up(now):
            partitions = self._broker.partitions(topic, _LOOKUP_TIMEOUT)
            if partitions is not None:
                self._accumulator.set_partitions(topic, partitions, now)

    # --- converting and encoding ----------------------------------------------------------------

    def _convert(self, chunk: Chunk) -> None:
        """Turn a chunk into columns and charge what they hold instead of what was guessed."""
        bad = chunk.convert()
        held = 0 if chunk.block is None else chunk.block.nbytes
        # A refused row is kept as it was given until it is reported.
        kept = 0 if chunk.block is None else len(chunk.block)
        share = chunk.charge // max(1, kept + len(bad)) if bad else 0
        self._budget.adjust(held + share * len(bad) - chunk.charge)
        chunk.charge = held
        for each in bad:
            self._delivery.refused(each, charge=share)

    def _encode(self, batch: Batch) -> None:
        """Put a sealed batch's segments into the outbox."""
        for chunk in batch.chunks:
            self._convert(chunk)
        blocks = [chunk.block for chunk in batch.chunks if chunk.block is not None and chunk.block]
        charge = sum(chunk.charge for chunk in batch.chunks)
        try:
            block = Block.concat(blocks) if blocks else None
        except Exception:  # noqa: BLE001 - what cannot be one segment may be several
            for each in blocks:
                self._outbox.extend(self._cut(batch, each, each.nbytes))
        else:
            if block is not None:
                self._outbox.extend(self._cut(batch, block, charge))

    def _cut(self, batch: Batch, block: Block, charge: int) -> Iterator[InFlight]:
        """Yield the segments of `block`, each below what client and topic accept."""
        try:
            segment = self._to_segment(batch, block, charge)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must take no other along
            if len(block) > 1:
                yield from self._cut_into(2, batch, block, charge)
            else:
                self._unencodable(batch, block, charge, error)
            return
        size, limit = len(segment.data), batch.form.limit_bytes
        taken = batch.taken_bytes * len(block) // max(1, batch.rows)
        self._accumulator.learn(batch.form.topic, taken_bytes=taken, encoded_bytes=size)
        if size <= limit:
            self._budget.adjust(size)
            yield segment
        elif len(block) > 1:
            pieces = min(len(block), math.ceil(size / limit) + 1)
            yield from self._cut_into(pieces, batch, block, charge)
        else:
            # A broker that refuses it would refuse all that librdkafka sends along with it.
            reason = f"the record takes {size} bytes, and {limit} is the most: message.max.bytes"
            reason += " of the client, or max.message.bytes of the topic"
            self._fail_one(batch, block, charge, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, reason))

    def _cut_into(self, pieces: int, batch: Batch, block: Block, charge: int) -> Iterator[InFlight]:
        bounds = [len(block) * i // pieces for i in range(pieces + 1)]
        for start, stop in pairwise(bounds):
            share = charge * stop // len(block) - charge * start // len(block)
            yield from self._cut(batch, block.slice(start, stop), share)

    def _unencodable(self, batch: Batch, block: Block, charge: int, error: Exception) -> None:
        """Report a record that fits its schema and yet cannot be written."""
        reason = f"the record cannot be written as Parquet: {type(error).__name__}: {error}"
        code = KafkaError._VALUE_SERIALIZATION
        self._fail_one(batch, block, charge, KafkaError(code, reason))

    def _fail_one(self, batch: Batch, block: Block, charge: int, error: KafkaError) -> None:
        row = OneRow((block.value(0), block.key(0), block.timestamp(0), block.headers(0)))
        refusal = Refused(batch.form.topic, batch.partition, row, error, block.callbacks[0])
        self._delivery.refused(refusal, charge=charge)

    def _to_segment(self, batch: Batch, block: Block, charge: int) -> InFlight:
        form = batch.form
        bounds = pc.min_max(block.timestamps.cast("int64")).as_py()
        header = SegmentHeader(
            rows=len(block),
            segment=next(self._ids),
            schema=form.fingerprint,
            timestamp_min=bounds["min"],
            timestamp_max=bounds["max"],
        )
        columns = form.kafka.append_to(
            block.columns,
            segment=header.segment,
            timestamps=block.timestamps,
            keys=block.keys,
            headers=block.header_column,
        )
        data = form.encoder.encode(columns, header.footer())
        return InFlight(
            topic=form.topic,
            partition=batch.partition,
            block=block,
            header=header,
            data=data,
            since=batch.created,
            charge=charge + len(data),
        )

    # --- handing over ---------------------------------------------------------------------------

    def _send_all(self, now: float) -> float:
        """Hand over all that librdkafka takes, oldest first; return when to look again."""
        while self._outbox or self._sealed:
            if not self._outbox:
                self._take_next()
                continue
            if not self._try_send(self._outbox[0], now):
                return _FULL_WAIT
            self._outbox.popleft()
            with self._progress:
                self._progress.notify_all()
        return self._accumulator.next_look(now)

    def _take_next(self) -> None:
        item = self._sealed.popleft()
        if isinstance(item, Plain):
            self._outbox.append(item)
        else:
            self._encode(item)

    def _try_send(self, item: InFlight | Plain, now: float) -> bool:
        """Hand one item over, or fail it for good; False when librdkafka's queue is full."""
        if item.since + self._message_timeout <= now:
            self._fail(item, KafkaError(KafkaError._MSG_TIMED_OUT))
            return True
        self._delivery.handed_over()
        try:
            self._hand_over(item)
        except BufferError:
            self._delivery.handed_over(-1)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not block the others
            self._delivery.handed_over(-1)
            known = isinstance(error, KafkaException)
            self._fail(item, error.args[0] if known else KafkaError(KafkaError._FAIL, repr(error)))
        return True

    def _hand_over(self, item: InFlight | Plain) -> None:
        if isinstance(item, Plain):
            self._broker.send(
                item.topic,
                item.partition,
                item.value,
                key=item.key,
                headers=item.headers,
                timestamp=item.timestamp,
                acknowledge=partial(self._delivery.plain_acknowledged, item),
            )
            return
        item.sent()
        self._broker.send(
            item.topic,
            item.partition,
            item.data,
            key=None,
            headers=item.header.headers(item.data),
            # Retention works on it; a record from the future must not get its neighbours refused.
            timestamp=max(1, min(item.header.timestamp_max, self._wall_ms())),
            acknowledge=partial(self._delivery.acknowledged, item),
        )

    def _fail(self, item: InFlight | Plain, error: KafkaError) -> None:
        if isinstance(item, Plain):
            self._delivery.refused(give_up(item, error), charge=item.charge)
        else:
            self._delivery.segment_done(item, error)


def _ids() -> Iterator[str]:
    """Yield segment ids: a producer's random 80 bits and a sequence number."""
    producer = secrets.token_hex(10)
    sequence = 0
    while True:
        yield f"{producer}-{sequence}"
        sequence += 1
