"""Segments and plain messages of a registry's schemas, landed by processes that are killed.

The registry is killed too, while a producer and an ingesting process go on.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from ingesting import POINTS, Job
from lakes import DeltaLake, IcebergLake
from support import by_profile

from columnar_kafka import Producer, RegistryError
from columnar_kafka.ingest import Decoding, verify_topic

if TYPE_CHECKING:
    from apicurio import Apicurio

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = 2
ROWS = by_profile(3_000, 60_000)
VERSIONS = 5


def schema(version: int) -> dict[str, Any]:
    """Return the schema whose records have so many more fields than the first."""
    more = [
        {"name": f"f{number}", "type": ["null", "string"], "default": None}
        for number in range(version)
    ]
    return {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}, *more]}


def row(number: int, version: int) -> dict[str, Any]:
    return {"n": number} | {f"f{field}": f"{field} of {number}" for field in range(version)}


def version_of(number: int) -> int:
    """Return the version that a record has: the newest of its time, or an older one."""
    newest = VERSIONS * number // ROWS
    return random.Random(number).choice([newest, newest, max(0, newest - 1)])


def send(kafka: LocalKafka, apicurio: Apicurio, topic: str) -> None:
    """Send records, half of them as segments; the registry is away for some of the time."""
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    settings = {"columnar.encoding": "parquet", "columnar.segment.rows": 7}
    context = SerializationContext(topic, MessageField.VALUE)
    with (
        SchemaRegistryClient({"url": apicurio.url, "max.retries": 0}) as client,
        Producer(servers | settings) as columnar,
        confluent_kafka.Producer(servers) as plain,
    ):
        writers = [AvroSerializer(client, json.dumps(schema(number))) for number in range(VERSIONS)]
        for number in range(ROWS):
            version, partition = version_of(number), number % PARTITIONS
            newest = VERSIONS * number // ROWS
            if number * VERSIONS % ROWS == 0:
                columnar.set_schema(topic, schema(newest), registry=client)
                for writer in writers[: newest + 1]:
                    writer({"n": 0}, context)  # which registers it
                apicurio.kill()
                with pytest.raises(RegistryError):
                    columnar.set_schema(f"{topic}-new", schema(0), registry=client)
            elif number * VERSIONS % ROWS == ROWS // 2:
                apicurio.mend()
            if number // 10 % 2:
                columnar.flush()
                value = writers[version](row(number, version), context)
                plain.produce(topic, value, partition=partition)
                plain.flush()
            else:
                columnar.produce(topic, row(number, newest), partition=partition)


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_each_record_lands_once_whatever_is_killed(kafka, apicurio, tmp_path, kind: Any) -> None:
    topic = f"registry-{kind.__name__}"
    kafka.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
    send(kafka, apicurio, topic)
    lake = kind(tmp_path / "lake")
    settings = {"url": apicurio.url, "max.retries": 0}
    job = Job(
        lake=lake,
        servers=kafka.bootstrap_servers,
        topic=topic,
        partitions=tuple(range(PARTITIONS)),
        roll_bytes=by_profile(20_000, 400_000),
        decoding=Decoding(registry=settings),
    )
    for number, point in enumerate(random.Random(3).sample(POINTS, 5)):
        job.be_killed(point, 2, tmp_path / f"{number}")
        apicurio.kill()
        process = job.started()
        process.join()
        apicurio.mend()
        assert process.exitcode == 1
    job.run()
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    report = verify_topic(config, topic, lake.table(), decoding=job.decoding)
    assert (report.findings, report.decoded + report.rows) == ([], ROWS)
    assert report.decoded == ROWS // 2
    found = sorted(lake.read().drop_columns("_kafka").to_pylist(), key=lambda one: one["n"])
    missing = dict.fromkeys(f"f{field}" for field in range(VERSIONS - 1))
    assert found == [
        missing | row(number, version_of(number) if number // 10 % 2 else VERSIONS * number // ROWS)
        for number in range(ROWS)
    ]
