"""confluent-kafka with fastavro: Avro, one datum a message, without a registry's five bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import fastavro

from benchmarks.competitors.base import Stock

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.data import Dataset, Row


class Fastavro(Stock):
    """Schemaless datums, with a schema that is parsed once."""

    def __init__(self, data: Dataset) -> None:
        super().__init__(data)
        self.encode, self.decode = schemaless(fastavro.parse_schema(data.avro))


def schemaless(schema: Any) -> tuple[Callable[[Row], bytes], Callable[[bytes], Any]]:
    """Return the functions that write and read a row by a parsed schema."""

    def encode(row: Row) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return out.getvalue()

    def decode(value: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(value), schema, None)

    return encode, decode
