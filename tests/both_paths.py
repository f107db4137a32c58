"""What a producer does with records, with the native core and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from columnar_kafka import native
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    import pyarrow as pa

CONFIG = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}


def produced_on_both_paths(schema: pa.Schema, calls: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Return what `_produced` returns with the core, and what without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", False)
        pure = _produced(schema, calls)
    return _produced(schema, calls), pure


def _produced(schema: pa.Schema, calls: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Return what each call raised and each record's report, and what the topic has.

    Where segments begin is not told: a record that only Python can judge ends the native batch.
    """
    kafka = FakeKafka()
    kafka.create_topic("t", 2)
    outcomes: list[tuple[int, Any]] = []
    with kafka.Producer(CONFIG) as producer:
        producer.set_schema("t", schema)
        for n, call in enumerate(calls):

            def report(error: Any, record: Any, n: int = n) -> None:
                parts = record.key(), record.headers(), record.timestamp()
                place = record.partition(), record.offset()
                outcomes.append((n, (str(error), repr(record.value()), parts, place)))

            try:
                producer.produce("t", **call, on_delivery=report)
            except Exception as error:  # noqa: BLE001 - any may be right, if both raise it
                outcomes.append((n, (type(error), str(error))))
    stored: list[Any] = []
    for message in (message for partition in (0, 1) for message in kafka.messages("t", partition)):
        if not is_segment(message.headers()):
            stored.append((message.value(), message.key(), message.headers()))
            continue
        segment = Segment(
            topic="t",
            partition=message.partition(),
            offset=message.offset(),
            headers=message.headers(),
            value=message.value(),
        )
        for row in segment.records():
            parts = row.value, row.key, row.timestamp, row.headers
            stored.append((message.partition(), segment.header.schema, repr(parts)))
    return _with_ranks(sorted(outcomes, key=lambda outcome: outcome[0])), stored


def _with_ranks(outcomes: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Replace the positions of reports by their order in each partition."""
    places = sorted(outcome[-1] for _, outcome in outcomes if _is_stored(outcome))
    ranks = {place: rank for rank, place in enumerate(places)}
    return [(n, (*outcome[:-1], ranks.get(outcome[-1], outcome[-1]))) for n, outcome in outcomes]


def _is_stored(outcome: Any) -> bool:
    return isinstance(outcome[-1], tuple) and outcome[-1][1] is not None
