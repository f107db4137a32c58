"""Which engine a topic's format can have, and why not the native core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka.columns.native_format import NotNativeError, row_format
from columnar_kafka.producing.engine.native import NativeEngine
from columnar_kafka.producing.engine.pure import PURE
from columnar_kafka.segment import lazy_encoding as lazy

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.columns.kafka_column import KafkaColumn
    from columnar_kafka.producing.engine.base import Engine, ValueColumns
    from columnar_kafka.schema import RecordSchema

__all__ = ["choose_engine"]


def choose_engine(
    records: RecordSchema,
    kafka: KafkaColumn,
    schema: pa.Schema,
    compression: str,
    values: ValueColumns | None,
    *,
    messages_are_compressed: bool,
) -> tuple[Engine, NotNativeError | None]:
    """Return the engine of a format, and why it is not the native core, if it is not.

    Args:
        records: the users' schema.
        kafka: the column `_kafka`, and
        schema: that of the segments, which has it.
        compression: the name of ``columnar.encoding.compression``.
        values: what values that are no rows are read into, if they are.
        messages_are_compressed: whether librdkafka compresses the segments again.
    """
    try:
        columns = row_format(records)
        if values is not None:
            values.read_natively(columns)
        encoder = lazy.native_encoder(
            schema, kafka, compression, messages_are_compressed=messages_are_compressed
        )
        return NativeEngine(columns, encoder), None
    except NotNativeError as error:
        return PURE, error.with_traceback(None)  # whose frames refer to the producer
