"""The schema that a topic's newest segments have, so that producers which infer one agree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema
from columnar_kafka.schema.leading import led_by, nullable, number_of_columns
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment, json_layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

__all__ = ["newest_schema"]


def newest_schema(messages: Iterable[Message], max_columns: int) -> RecordSchema | None:
    """Return the columns of the newest segment of values in JSON, and those that others add to it.

    None if no message is such a segment. Columns are not added where there would be more than
    `max_columns`. Of each partition the last segment counts. Messages may be anything.
    """
    newest: dict[int | None, tuple[int, RecordSchema]] = {}
    for message in messages:
        if (schema := _schema_of(message)) is not None:
            newest[message.partition()] = (message.timestamp()[1], schema)
    leading: RecordSchema | None = None
    for _, schema in sorted(newest.values(), key=lambda pair: pair[0], reverse=True):
        wider = schema if leading is None else led_by(schema, leading)
        if leading is None or number_of_columns(wider.arrow) <= max_columns:
            leading = wider
    return leading


def _schema_of(message: Message) -> RecordSchema | None:
    """Return the columns of a segment of values in JSON, each of which may be null."""
    headers = message.headers()
    if not is_segment(headers):
        return None
    try:
        segment = Segment(
            topic=message.topic() or "",
            partition=message.partition() or 0,
            offset=message.offset() or 0,
            headers=headers,
            value=message.value(),
        )
        layout = json_layout(segment)
        if layout is None:
            return None
        own = KAFKA_COLUMN, layout.rest
        columns = pa.schema([field for field in segment.schema if field.name not in own])
        records = RecordSchema.parse(nullable(columns))
    except (SegmentError, SchemaError):
        return None
    texts, uuids = frozenset(layout.texts), frozenset(layout.uuids)
    return replace(records, json_texts=texts, uuids=uuids)
