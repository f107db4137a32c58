"""`columnar-kafka ingest` as a process, from a real Kafka into tables of every kind."""

from __future__ import annotations

import json
import signal
import sys
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows
from sending import send, send_in_transactions
from support import eventually

from columnar_kafka import LakeError
from columnar_kafka.ingest import Ingestor, IngestSettings, verify_topic

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


def test_a_process_that_is_terminated_lands_what_it_has_read(kafka, topic, tmp_path) -> None:
    name, lake = topic(), DirectoryLake(tmp_path / "lake")
    send(kafka, name, range(8))
    line = [
        *(sys.executable, "-m", "columnar_kafka.cli", "ingest"),
        *("--bootstrap-servers", kafka.bootstrap_servers, "--topic", name),
        *("--to", str(lake.root), "--partition", "0", "--json"),
    ]
    with Popen(line, stdout=PIPE) as process:
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
    # Of offsets 0 to 5, only 0 and 4 have committed records.
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
