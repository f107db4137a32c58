"""Service → Kafka: every record through the drop-in producer, one delivery report each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka.demo import records
from columnar_kafka.demo.sending import send
from columnar_kafka.demo.sending.formats import COLUMNAR

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


def produce(
    bootstrap_servers: str, topic: str, table: pa.Table, *, advance: Callable[[int], None]
) -> int:
    """Produce the records of `table`, block until all are acknowledged; the bytes on the wire.

    Raises:
        DeliveryError: a record failed, or was not reported.
    """
    reports, wire = send.Reports(), send.Wire()
    encode = COLUMNAR.encoder()
    with COLUMNAR.producer({"bootstrap.servers": bootstrap_servers} | wire.config) as producer:
        producer.set_schema(topic, records.avro_schema())
        for part in records.iterate(table):
            advance(send.send(producer, topic, part, encode=encode, reports=reports))
        send.flush(producer)
        sent, _ = wire.settle(producer)
    reports.check(table.num_rows)
    return sent
