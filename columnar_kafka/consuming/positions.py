"""Positions of partitions: of the next record, committed, at either end, of a time, and the lag."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, TopicPartition

from columnar_kafka import position
from columnar_kafka.consuming.lag import Lag, Seen, lag_of
from columnar_kafka.consuming.time_lookup import first_records
from columnar_kafka.offsets import GroupMetadata, Partition, key_of, to_positions
from columnar_kafka.runtime.deadline import deadline_after, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.broker.traced_classes import StockConsumer
    from columnar_kafka.consuming.feed.feed import Feed

__all__ = ["Positions"]


class Positions:
    """Answers confluent-kafka's questions for offsets in positions, and `lag`. Thread-safe.

    It changes nothing. Methods have the contracts of the consumer's methods of the same names, and
    wait for their turn to call librdkafka.
    """

    def __init__(
        self,
        base: StockConsumer,
        broker: ConsumerBroker,
        feed: Feed,
        check_open: Callable[[], None],
    ) -> None:
        """Answer for what `feed` hands out; `base` has the consumer's own stock methods."""
        self._check_open = check_open
        self._base = base
        self._broker = broker
        self._feed = feed

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """See `Consumer.position`."""
        return self._feed.run_alone(partial(self._position, partitions))

    def _position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        positions = self._base.position(partitions)
        with self._feed.lock:
            self._feed.skip_gaps(map(key_of, positions))
            delivered = self._feed.offsets.delivered
            for partition in positions:
                partition.offset = delivered.get(key_of(partition), OFFSET_INVALID)
        return positions

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """See `Consumer.committed`."""
        ask = partial(self._base.committed, partitions, timeout)
        return to_positions(self._feed.run_alone(ask))

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """See `Consumer.get_watermark_offsets`."""
        ask = partial(self._base.get_watermark_offsets, partition, timeout, cached)
        ends: Any = self._feed.run_alone(ask)
        return ends and (position.start(ends[0]), position.start(ends[1]))  # or None

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """See `Consumer.offsets_for_times`."""
        deadline = deadline_after(timeout)
        ask = partial(self._base.offsets_for_times, partitions, timeout)
        offsets = self._feed.run_alone(ask)
        times = {key_of(partition): partition.offset for partition in partitions}
        first_records(self._broker, offsets, times, self._feed.read, deadline)
        return offsets

    def consumer_group_metadata(self) -> GroupMetadata:
        """See `Consumer.consumer_group_metadata`."""
        inner = self._feed.run_alone(self._base.consumer_group_metadata)
        with self._feed.lock:
            return GroupMetadata(inner, self._feed.offsets.committables)

    def lag(self, partitions: list[TopicPartition] | None = None, timeout: float = -1) -> list[Lag]:
        """See `Consumer.lag`."""
        deadline = deadline_after(timeout)
        self._check_open()
        seen = self._feed.run_alone(partial(self._seen, partitions, deadline))
        if not seen:
            return []
        asked = [TopicPartition(*key) for key in seen]
        ends = self._broker.watermarks(asked, seconds_left(deadline))  # others may poll meanwhile
        keys = seen if partitions is None else map(key_of, partitions)  # some may be there twice
        return [lag_of(key, seen[key], *ends[key]) for key in keys]

    def _seen(
        self, partitions: list[TopicPartition] | None, deadline: float
    ) -> dict[Partition, Seen]:
        keys = list(map(key_of, self._broker.assignment() if partitions is None else partitions))
        with self._feed.lock:
            self._feed.skip_gaps(keys)
            starts = {key: at for key in keys if (at := self._feed.next_position(key)) is not None}
        if unknown := [TopicPartition(*key) for key in keys if key not in starts]:
            committed = to_positions(self._broker.committed(unknown, seconds_left(deadline)))
            starts |= {
                key_of(partition): partition.offset
                for partition in committed
                if partition.offset >= 0
            }
        with self._feed.lock:
            fetched = self._feed.fetched()
            offsets = self._feed.offsets
            return {
                key: Seen(
                    at=(at := starts.get(key, 0)),
                    is_known=at == offsets.delivered.get(key),
                    fetched=fetched.get(key, ((), -1)),
                    ratio=offsets.rows_per_offset(*key),
                )
                for key in keys
            }
