"""`columnar-kafka ingest` as a process, from a real Kafka into tables of every kind."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import confluent_kafka
import duckdb
import fastavro
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows
from sending import send, send_in_transactions
from support import eventually, running

from columnar_kafka import LakeError
from columnar_kafka.ingest import (
    Decoding,
    Ingestor,
    IngestSettings,
    Rules,
    group,
    ingestor,
    verify_topic,
)

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake], ids=["parquet", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


def ingest(kafka: LocalKafka, topic: str, lake: Any, **settings: Any) -> int:
    """Land what is in the topic now; return the number of rows."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic}
    chosen = IngestSettings(stop_at_end=True, **settings)
    return Ingestor(config, topic, lake.table(), chosen).run().rows


def test_every_row_lands_once_and_the_next_run_goes_on(kafka, topic, lake) -> None:
    name = topic(2)
    send(kafka, name, range(50))
    assert ingest(kafka, name, lake) == 50
    send(kafka, name, range(50, 60))
    assert ingest(kafka, name, lake) == 10
    assert rows(lake) == list(range(60))


def test_a_partition_that_is_added_while_it_runs_lands_from_its_beginning(
    kafka, topic, tmp_path
) -> None:
    """Though it started at the end, and notices the partition when that has messages."""
    name, lake = topic(1), DirectoryLake(tmp_path / "lake")
    send(kafka, name, range(8))
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        "topic.metadata.refresh.interval.ms": 100,
    }
    settings = IngestSettings(start="latest", roll_seconds=0.1)
    service = Ingestor(config, name, lake.table(), settings)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        eventually(lambda: service.is_assigned)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_partitions([NewPartitions(name, 3)])[name].result(60)
        eventually(lambda: len(admin.list_topics(name, 60).topics[name].partitions) == 3)
        send(kafka, name, range(8, 48))
        eventually(lambda: service.stats.rows >= 40)
    finally:
        service.stop()
        thread.join()
    assert rows(lake) == list(range(8, 48))
    assert {fence.partition for fence in lake.table().fences().values()} == {0, 1, 2}


def test_it_joins_its_group_when_others_have_shared_out_the_partitions(
    kafka, topic, tmp_path, monkeypatch
) -> None:
    """If it was killed before, they might wait for its session, and for the next one's."""
    name, lake, asked = topic(2), DirectoryLake(tmp_path / "lake"), []

    def is_rebalancing(*arguments: Any) -> bool:
        asked.append(group.is_rebalancing(*arguments))
        return asked[-1]

    monkeypatch.setattr(ingestor, "is_rebalancing", is_rebalancing)
    monkeypatch.setattr(ingestor, "_REBALANCE_SECONDS", 600.0)
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        "session.timeout.ms": 45_000,
        "heartbeat.interval.ms": 100,
    }
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def members() -> int:
        return len(admin.describe_consumer_groups([name])[name].result(60).members)

    first, second = (confluent_kafka.Consumer(config) for _ in range(2))
    first.subscribe([name])
    eventually(lambda: first.poll(0.1) or first.assignment())  # and polls no more
    second.subscribe([name])
    eventually(lambda: second.poll(0.1) or group.is_rebalancing(admin, name))
    service = Ingestor(config, name, lake.table(), IngestSettings(roll_seconds=0.1))
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        eventually(lambda: len(asked) >= 2)
        assert (members(), {*asked}) == (2, {True})
        eventually(lambda: (first.poll(0.1), second.poll(0.1)) and service.is_assigned)
        assert asked[-1] is False
        for member in first, second:
            member.close()
        send(kafka, name, range(40))
        eventually(lambda: service.stats.rows == 40)
    finally:
        service.stop()
        thread.join()
    assert rows(lake) == list(range(40))


PLAIN = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "n", "type": "long"}, {"name": "text", "type": ["null", "string"]}],
}


def encoded(form: str, n: int) -> bytes:
    """Return a row of {n, text} as producers of that format send it."""
    row = {"n": n, "text": f"text {n}"}
    if form == "json":
        return json.dumps(row).encode()
    out = io.BytesIO(b"\0\0\0\0\7")
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(PLAIN), row)
    return out.getvalue()


@pytest.mark.parametrize(("form", "schema_id"), [("json", None), ("avro", 7)])
def test_rows_of_old_and_new_producers_land_in_one_table(
    kafka, topic, tmp_path, form: str, schema_id: int | None
) -> None:
    """Segments, and plain messages before, between and after them, in two partitions."""
    name, lake = topic(2), DirectoryLake(tmp_path / "lake")
    decoding = Decoding(form, PLAIN, schema_id)
    old = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for first in range(0, 90, 30):
        for n in range(first, first + 10):
            old.produce(name, encoded(form, n), key=f"{n}", headers=[("h", None), ("h", b"1")])
        old.flush()
        send(kafka, name, range(first + 10, first + 30))
        rules = Rules(plain="decode", decoding=decoding)
        assert ingest(kafka, name, lake, rules=rules) == 30
    expected = sorted((n, f"text {n}", f"{n}".encode(), 2 * (n % 30 < 10)) for n in range(90))
    landed = lake.read().to_pylist()
    assert expected == sorted(
        (row["n"], row["text"], row["_kafka"]["key"], len(row["_kafka"]["headers"] or ()))
        for row in landed
    )
    ids = {(row["_kafka"]["segment"], row["_kafka"]["row"]) for row in landed}
    assert len(ids) == 90
    query = "select n, text, _kafka.key, coalesce(len(_kafka.headers), 0) from read_parquet(?)"
    rows_of = duckdb.connect().execute(query, [f"{lake.root}/{name}/*.parquet"]).fetchall()
    assert sorted(rows_of) == expected
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    report = verify_topic(config, name, lake.table(), decoding=decoding)
    assert (report.findings, report.rows, report.decoded) == ([], 60, 30)
    without = verify_topic(config, name, lake.table())
    assert (without.findings, without.rows, without.plain) == ([], 60, 30)


def test_a_process_that_is_terminated_lands_what_it_has_read(kafka, topic, tmp_path) -> None:
    name, lake = topic(), DirectoryLake(tmp_path / "lake")
    send(kafka, name, range(8))
    line = [
        *(sys.executable, "-m", "columnar_kafka.cli", "ingest"),
        *("--bootstrap-servers", kafka.bootstrap_servers, "--topic", name),
        *("--to", str(lake.root), "--partition", "0", "--json"),
        *("--small-bytes", "0"),  # else what is read waits in memory
    ]
    with running(line, stdout=PIPE) as process:
        eventually(lambda: list(lake.root.glob("_columnar/staged/*")))
        process.send_signal(signal.SIGTERM)
        counts = json.loads(process.communicate()[0])[name]
    assert process.returncode == 0
    assert rows(lake) == list(range(counts["rows"]))
    assert counts["rows"] in (4, 8)


def test_aborted_records_do_not_land_and_the_fence_passes_them(kafka, topic, tmp_path) -> None:
    name, lake = topic(), DirectoryLake(tmp_path / "lake")
    for _ in send_in_transactions(kafka, name, range(4)):
        ingest(kafka, name, lake, partitions=(0,))
    assert rows(lake) == [0, 2]
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    report = verify_topic(config, name, lake.table())
    assert (report.findings, report.messages, report.rows) == ([], 2, 2)
    [fence] = lake.table().fences().values()
    # Only offsets 0 and 4, of 0 to 5, have committed records.
    assert (fence.first, fence.next) == (0, 6)


def test_a_topic_made_again_is_noticed(kafka, topic, tmp_path) -> None:
    name, lake = topic(), DirectoryLake(tmp_path / "lake")
    send(kafka, name, range(8))
    ingest(kafka, name, lake)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_topics([name])[name].result()
    eventually(lambda: name not in admin.list_topics().topics)
    kafka.create_topic(name, 1)
    send(kafka, name, range(8, 20))
    with pytest.raises(LakeError, match="deleted and created again"):
        ingest(kafka, name, lake, partitions=(0,))
    assert rows(lake) == list(range(8))
