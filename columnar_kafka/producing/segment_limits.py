"""How large a topic's segments may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from columnar_kafka.segment.headers import HEADER_BYTES

if TYPE_CHECKING:
    from columnar_kafka.producing.settings import ProducerConfig

__all__ = ["KEPT_PARTS", "MOST_BYTES", "SegmentLimits"]

MOST_BYTES: Final = 128 << 20
"""The most a batch may hold, however well it compresses: consumers limit decoded segments."""
KEPT_PARTS: Final = 256
"""A value in JSON may take so many times its bytes as a segment of its own, if hardly any does."""
_FIRST_RATIO: Final = 0.1
"""Encoded bytes per byte in memory, until the first segment of a topic is measured."""


@dataclass(slots=True)
class SegmentLimits:
    """How large a topic's segments may be, in bytes of their value.

    `target` is the size to aim at, `most` the size that client and topic accept, `rows` the largest
    number of records. The messages that librdkafka has of one partition stay below `window`:
    librdkafka sends them in batches, the topic's limit is on the batch, and a rejected batch takes
    all of its messages along. `partitions` is the topic's number of partitions, None while unknown.
    """

    target: int
    most: int
    rows: int
    window: float = float("inf")
    partitions: int | None = None
    ratio: float | None = None
    """The encoded bytes per byte in memory, once a segment is measured."""

    @property
    def batch_bytes(self) -> float:
        """The bytes in memory at which to seal a batch."""
        return min(self.target / (self.ratio or _FIRST_RATIO), MOST_BYTES)

    @property
    def kept_bytes(self) -> int:
        """The bytes from which on a value that was given as bytes may fit no segment."""
        return self.most // KEPT_PARTS

    def learn(self, *, taken_bytes: int, encoded_bytes: int) -> None:
        """Learn from a segment how well the topic's records compress."""
        seen = encoded_bytes / max(1, taken_bytes)
        self.ratio = seen if self.ratio is None else 0.7 * self.ratio + 0.3 * seen

    @classmethod
    def of(
        cls, settings: ProducerConfig, *, max_message_bytes: int | None, partitions: int | None
    ) -> SegmentLimits:
        """Return the limits of a topic with this ``max.message.bytes``, None where unknown."""
        # A segment larger than the quarter of the memory bound for encoded bytes would never fit.
        most = min(settings.message_max_bytes - HEADER_BYTES, settings.queue_bytes // 4)
        limits = cls(
            min(settings.segment_bytes, most), most, settings.segment_rows, partitions=partitions
        )
        # librdkafka's batches are never larger than this, which most topics accept.
        batch_bytes = min(settings.batch_bytes, settings.message_max_bytes)
        if max_message_bytes is not None:
            limits.most = min(most, max_message_bytes - HEADER_BYTES)
            limits.target = min(limits.target, limits.most)
            if max_message_bytes < batch_bytes:
                limits.window = max_message_bytes
        return limits

    def lower(self, most: int) -> None:
        """Accept at most `most` bytes from now on, in a segment and in a batch of librdkafka's."""
        if most < self.most:
            self.most = most
            self.target = min(self.target, most)
            self.window = most + HEADER_BYTES
