"""The floor: confluent-kafka sends bytes that were serialized before the clock started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from benchmarks.competitors.base import when_room
from benchmarks.competitors.with_orjson import Orjson
from benchmarks.data import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Ready(Orjson):
    """JSON that orjson has made before."""

    def prepare(self, rows: list[Any]) -> list[Any]:
        """Serialize rows, or the values of records."""
        return [
            row._replace(value=orjson.dumps(row.value))
            if isinstance(row, Record)
            else orjson.dumps(row)
            for row in rows
        ]

    def send(self, producer: Any, topic: str, rows: Iterable[Any]) -> None:
        """Produce the bytes."""
        produce = producer.produce
        for data in rows:
            try:
                produce(topic, data)
            except BufferError:
                when_room(producer, topic, data)

    def send_full(
        self, producer: Any, topic: str, records: Iterable[Record], report: Callable[..., Any]
    ) -> None:
        """Produce the bytes with key, headers, time and a callback each."""
        produce = producer.produce
        for data, key, headers, timestamp in records:
            try:
                produce(
                    topic, data, key=key, headers=headers, timestamp=timestamp, on_delivery=report
                )
            except BufferError:
                when_room(producer, topic, data, key, headers, timestamp, report)
