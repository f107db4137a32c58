"""The three ways a record is sent: in columns by this package, row by row as Avro or as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import confluent_kafka
import fastavro
import orjson

from columnar_kafka import Producer
from columnar_kafka.demo import records

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Format:
    """A name to show, how a value is encoded by the caller, and the producer's own settings."""

    name: str
    encoder: Callable[[], Callable[[dict[str, Any]], Any]]
    columnar: bool
    config: dict[str, Any]

    def producer(self, config: dict[str, Any]) -> confluent_kafka.Producer:
        """A producer with these settings and this format's own."""
        kind = Producer if self.columnar else confluent_kafka.Producer
        return kind(self.config | config)


def _avro() -> Callable[[dict[str, Any]], bytes]:
    schema = fastavro.parse_schema(json.loads(records.avro_schema()))
    write = fastavro.schemaless_writer

    def encode(value: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        write(buffer, schema, value)
        return buffer.getvalue()

    return encode


def _as_it_is(value: dict[str, Any]) -> dict[str, Any]:
    return value


# All three may wait a second for more rows: the same freshness, and row batches at their best.
_ROWS = {"compression.type": "zstd", "linger.ms": 1000}
_COLUMNS = {"columnar.encoding": "parquet", "columnar.linger.ms": 1000}

COLUMNAR = Format("Parquet segments", lambda: _as_it_is, columnar=True, config=_COLUMNS)
AVRO = Format("Avro rows", _avro, columnar=False, config=_ROWS)
JSON = Format("JSON rows", lambda: orjson.dumps, columnar=False, config=_ROWS)
ALL = (COLUMNAR, AVRO, JSON)
