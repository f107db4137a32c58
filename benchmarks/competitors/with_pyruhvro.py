"""confluent-kafka with pyruhvro: Avro messages into Arrow, in Rust."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyruhvro

from benchmarks.competitors.base import consume
from benchmarks.competitors.with_fastavro import Fastavro

if TYPE_CHECKING:
    from collections.abc import Iterator


class Pyruhvro(Fastavro):
    """Reads what fastavro wrote."""

    def tables(self, consumer: Any, count: int) -> Iterator[pa.Table]:
        """Yield a table of each list of messages."""
        schema = json.dumps(self.data.avro)
        for messages in consume(consumer, count):
            values = [message.value() for message in messages]
            yield pa.Table.from_batches([pyruhvro.deserialize_array(values, schema)])
