"""How long do plain messages take that become a table?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
import fastavro
import orjson
import pyarrow as pa
import pyarrow.json
import pyruhvro
from confluent_kafka import TopicPartition

import columnar_kafka
from benchmarks.answer import WALL, Answer
from benchmarks.child import Child, Children, Clock, Cost
from benchmarks.competitors.base import READ_AGAIN, SECONDS, connection, consume, consumer_config
from benchmarks.competitors.with_fastavro import schemaless
from benchmarks.measured import Digest
from columnar_kafka.plain import Avro, Json

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench

TITLE = "Plain messages to a table, a message"
IS_LONG = False
ABOUT = """100,000 small messages with keys and headers, as `consume_arrow` makes a table of them,
from the assignment on; against `consume` and what the format's library has. Our table has keys,
headers, times and positions too, theirs only the values."""

MESSAGES: Final = 100_000
MOST_MS: Final = 250.0
SCHEMA: Final = {
    "type": "record",
    "name": "Small",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}
JSON, AVRO, BYTES = "JSON", "Avro", "bytes"


def _row(number: int) -> dict[str, Any]:
    return {"id": number, "text": f"text {number}"}


def _ours(value: Any) -> Callable[[Any, int], list[pa.Table]]:
    def read(consumer: Any, count: int) -> list[pa.Table]:
        tables = []
        while count > 0:
            tables.append(consumer.consume_arrow(count, SECONDS, value=value))
            count -= tables[-1].num_rows
        return tables

    return read


def _theirs(decode: Callable[[list[bytes]], pa.Table]) -> Callable[[Any, int], list[pa.Table]]:
    def read(consumer: Any, count: int) -> list[pa.Table]:
        return [
            decode([message.value() for message in messages])
            for messages in consume(consumer, count)
        ]

    return read


READERS: Final[dict[tuple[str, str], Callable[[Any, int], list[pa.Table]]]] = {
    (JSON, "ours"): _ours(Json()),
    (JSON, "orjson"): _theirs(lambda values: pa.Table.from_pylist(list(map(orjson.loads, values)))),
    (JSON, "pyarrow.json"): _theirs(
        lambda values: pyarrow.json.read_json(pa.BufferReader(b"\n".join(values)))
    ),
    (AVRO, "ours"): _ours(Avro(SCHEMA)),
    (AVRO, "pyruhvro"): _theirs(
        lambda values: pa.Table.from_batches(
            [pyruhvro.deserialize_array(values, json.dumps(SCHEMA))]
        )
    ),
    (BYTES, "ours"): _ours(None),
    (BYTES, "pyarrow"): _theirs(lambda values: pa.table({"value": pa.array(values, pa.binary())})),
}


class Tables:
    """Reads all messages into tables; lives in a child."""

    def __init__(self, form: str, who: str, servers: str, topic: str, count: int) -> None:
        is_ours = who == "ours"
        cls: Any = columnar_kafka.Consumer if is_ours else confluent_kafka.Consumer
        own = {"columnar.encoding": "parquet"} if is_ours else {}
        self._consumer = cls(consumer_config(servers) | READ_AGAIN | own)
        self._consumer.list_topics(topic, SECONDS)
        self._form, self._topic, self._count = form, topic, count
        self._read = READERS[form, who]

    def read(self) -> Cost:
        """Measure one round."""
        return self._once()[0]

    def check(self) -> None:
        """Compare the table with what was sent. Raises UnequalError."""
        names = ["value"] if self._form == BYTES else ["id", "text"]
        _, tables = self._once()
        read = Digest(row for table in tables for row in table.select(names).to_pylist())
        rows = map(_row, range(self._count))
        sent = ({"value": orjson.dumps(row)} for row in rows) if self._form == BYTES else rows
        Digest(sent).compare(read, self._topic)

    def _once(self) -> tuple[Cost, list[pa.Table]]:
        clock = Clock()
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        tables = self._read(self._consumer, self._count)
        cost = clock.stop()
        self._consumer.unassign()
        return cost, tables


def answer(bench: Bench) -> Answer:
    """Read JSON, Avro, and bytes that are not decoded."""
    results = Answer()
    count = bench.rows(MESSAGES)
    json_topic, avro_topic = bench.topic(), bench.topic()
    _fill(bench.servers, json_topic, avro_topic, count)
    for form in JSON, AVRO, BYTES:
        bench.say(form)
        topic = avro_topic if form == AVRO else json_topic
        who = [reader for of, reader in READERS if of == form]
        start = {reader: Child(Tables, form, reader, bench.servers, topic, count) for reader in who}
        with Children(start) as children:
            children.together("check")
            results.add_costs(form, children.rounds(bench.rounds, "read"), count)
        for them in who[1:]:
            results.compare(form, them, at_least=1.0)
    took = [value * count / 1e3 for value in results.values(JSON, "ours", WALL)]
    results.limit(f"{count:,} JSON messages, wall", took, MOST_MS, "ms")
    return results


def _fill(servers: str, json_topic: str, avro_topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({**connection(servers), "compression.type": "zstd"})
    encode, _ = schemaless(fastavro.parse_schema(SCHEMA))
    for number in range(count):
        for topic, value in (
            (json_topic, orjson.dumps(_row(number))),
            (avro_topic, encode(_row(number))),
        ):
            headers = [("trace", b"%d" % number)]
            producer.produce(topic, value, key=b"%d" % number, headers=headers)
        if not number % 1_000:
            producer.flush()
    producer.flush()
