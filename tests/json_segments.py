"""Segments of records that were JSON, and what is made of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from segments import segment

from columnar_kafka.columns import older_arrow
from columnar_kafka.consuming.feed.value_forms import VALUE_FORMS
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.segment import Segment, record_slices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from columnar_kafka.config import ReadOptions
    from columnar_kafka.lake.model import SourceMessage
    from columnar_kafka.segment.decoder import Decoder


def json_segment(
    table: pa.Table, said: bytes | dict[str, Any] | None = None, **place: Any
) -> SourceMessage:
    """Return a segment whose footer says this of JSON; None: nothing."""
    text = json.dumps(said).encode() if isinstance(said, dict) else said
    return segment(table, footer={} if text is None else {"columnar.json": text}, **place)


def json_rows(
    fields: Sequence[tuple[str, pa.DataType]],
    rows: Sequence[Sequence[Any]],
    said: bytes | dict[str, Any] | None = None,
    **place: Any,
) -> SourceMessage:
    """Return a segment of rows, whose values are in the order of the fields."""
    schema = pa.schema(fields)
    columns = [
        older_arrow.array([row[number] for row in rows], field.type)
        for number, field in enumerate(schema)
    ]
    return json_segment(pa.table(columns, schema=schema), said, **place)


def slices(
    message: SourceMessage, decoder: Decoder, start: int = 0, wanted: int = 0, form: str = "json"
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the values of a segment's records as JSON or Avro, slice by slice."""
    opened = Segment(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        headers=message.headers,
        value=message.value,
        decoder=decoder,
    )
    for row, columns in record_slices(opened, start, wanted, VALUE_FORMS[form]):
        assert {len(part) for part in columns} == {len(columns.values)}
        yield row, columns.values


def values(
    message: SourceMessage, decoder: Decoder, start: int = 0, form: str = "json"
) -> list[bytes]:
    """Return the values of a segment's records as JSON or Avro."""
    return [value for _, some in slices(message, decoder, start, form=form) for value in some]


class WithoutCore(InlineDecoder):
    """Reads tables only."""

    def read_records(self, *_: Any) -> None: ...


class WithCore(InlineDecoder):
    """Remembers what the core gave of each segment: None, or its records."""

    def __init__(self, options: ReadOptions | None = None) -> None:
        super().__init__(options)
        self.read: list[Any] = []

    def read_records(self, *arguments: Any) -> Any:
        self.read.append(super().read_records(*arguments))
        return self.read[-1]

    @property
    def has_done_all(self) -> bool:
        """Whether the core has made all records."""
        return all(records is not None and not len(records) for records in self.read)
