"""Avro that fastavro has made before, with a registry's five bytes: bytes in, bytes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import fastavro

from benchmarks.competitors.base import Direct, Stock
from benchmarks.competitors.ours import Ours
from benchmarks.competitors.with_fastavro import schemaless
from benchmarks.data import Record

if TYPE_CHECKING:
    from benchmarks.data import Dataset, Row

_HEADER = b"\0\0\0\0\7"


class ReadyAvro(Direct, Stock):
    """confluent-kafka, which sends it as it is."""

    def __init__(self, data: Dataset) -> None:
        super().__init__(data)
        self._write, self._read = schemaless(fastavro.parse_schema(data.avro))

    def encode(self, row: Row) -> bytes:
        """Return a row's datum, as `AvroSerializer` would."""
        return _HEADER + self._write(row)

    def decode(self, value: bytes) -> Any:
        """Return a datum's row, as `AvroDeserializer` would."""
        return self._read(value[len(_HEADER) :])

    def prepare(self, rows: list[Any]) -> list[Any]:
        """Serialize rows, or the values of records."""
        return [
            row._replace(value=self.encode(row.value))
            if isinstance(row, Record)
            else self.encode(row)
            for row in rows
        ]


class OursAvro(ReadyAvro, Ours):
    """columnar-kafka: into columns, and the same bytes of these again."""

    settings: ClassVar[dict[str, Any]] = {"columnar.value.format": "avro"}
    producer = Ours.producer
    assign = Ours.assign
    rows_by_poll = Stock.rows_by_poll
    rows_by_consume = Stock.rows_by_consume

    def consumer(self, servers: str, config: dict[str, Any] | None = None) -> Any:
        """Return a consumer without an assignment."""
        return Ours.consumer(self, servers, {**self.settings, **(config or {})})
