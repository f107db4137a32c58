"""The native core's encoder of a topic, made from what pyarrow writes for the same schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.native_format import NotNativeError
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.schema.type_families import family
from columnar_kafka.segment import pyarrow_parquet as pq
from columnar_kafka.segment.encoder import leaf_columns, needs_arrow_schema
from columnar_kafka.segment.parquet.field_ids import FileMetaDataField
from columnar_kafka.segment.parquet.page_checks import footer_bytes
from columnar_kafka.segment.parquet.thrift import LIST, Cursor

if TYPE_CHECKING:
    from columnar_kafka.columns.kafka_column import KafkaColumn
    from columnar_kafka.native._core import Encoder

__all__ = ["leaf_plans", "native_encoder"]

_ORDERS: Final = {"boolean": "unsigned", "float": "float", "string": "text", "binary": "bytes"}
_COMPRESSIONS: Final = ("none", "snappy", "lz4", "zstd")


def native_encoder(
    schema: pa.Schema,
    kafka: KafkaColumn,
    compression: str,
    *,
    messages_are_compressed: bool = False,
) -> Encoder:
    """Return an encoder of segments with this schema.

    Args:
        schema: the segments', with the column `_kafka`.
        kafka: that column.
        compression: the name of ``columnar.encoding.compression``.
        messages_are_compressed: whether librdkafka compresses the files again; the encoder leaves
            small columns to it.

    Raises:
        NotNativeError: the core does not have that compression.
    """
    if compression not in _COMPRESSIONS:
        raise NotNativeError(f"columnar.encoding.compression={compression}")
    empty = pa.BufferOutputStream()
    with pq.ParquetWriter(empty, schema, store_schema=needs_arrow_schema(schema)):
        pass
    footer = footer_bytes(empty.getvalue().to_pybytes())
    file = pq.read_metadata(pa.BufferReader(empty.getvalue()))
    return native.core.Encoder(
        leaf_plans(schema),
        _schema_elements(footer),
        list((file.metadata or {}).items()),
        file.created_by,
        compression,
        messages_are_compressed,
        kafka.members,
    )


def leaf_plans(schema: pa.Schema) -> list[tuple[list[str], str, bool]]:
    """Return each leaf's path, the order of its statistics, and whether it has any."""
    return [
        _plan(path, arrow) for field in schema for path, arrow in leaf_columns(field, (field.name,))
    ]


def _schema_elements(footer: bytes) -> bytes:
    """Return a footer's list of schema elements, as it stands there."""
    cursor = Cursor(footer)
    for field, kind in cursor.fields({FileMetaDataField.SCHEMA: LIST}):
        value = cursor.span(kind)
        if field == FileMetaDataField.SCHEMA:
            return value
    raise ValueError("the footer has no schema")


def _plan(path: tuple[str, ...], arrow: pa.DataType) -> tuple[list[str], str, bool]:
    order = _ORDERS.get(family(arrow) or "", "signed")
    if pa.types.is_unsigned_integer(arrow):
        order = "unsigned"
    elif pa.types.is_float16(arrow):
        order = "undefined"
    in_kafka = path[0] == KAFKA_COLUMN and path != (KAFKA_COLUMN, "timestamp")
    return list(path), order, not in_kafka
