"""What a producer has sent and holds, as one snapshot."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ProducerStats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStats:
    """Counts of the topics with a schema.

    Now: `records` are accepted and not yet reported, and take `nbytes` of memory, of at most
    `max_nbytes`; librdkafka has `in_flight` messages. Since the producer was made: `segments` were
    stored, with `segment_records` in `segment_nbytes`, and `failed_records` were not; `misfits` are
    values that did not fit their topic's schema and were sent as plain messages.
    """

    records: int
    nbytes: int
    max_nbytes: int
    in_flight: int
    segments: int
    segment_records: int
    segment_nbytes: int
    failed_records: int
    misfits: int
