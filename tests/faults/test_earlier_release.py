"""The package as it was before it had a native core, beside the one that is tested."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from earlier import SCHEMAS, record, row

from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import SourceMessage, TopicGeneration
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.segment.headers import is_segment

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
EARLIER = "30227a037269f8ebdaa93bc66ed964f787f1955e"
"""Without a native core; every file has an Arrow schema."""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of the packages."""
    folder = tmp_path_factory.mktemp("earlier")
    command = ["git", "-C", str(ROOT), "archive", EARLIER, "columnar_kafka", "schemas"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return {"earlier": folder, "now": ROOT}


@pytest.fixture
def run(releases: dict[str, Path], kafka: LocalKafka) -> Any:
    """Calls a function of `earlier.py` in a process with one of the packages."""

    def run(release: str, do: str, **job: Any) -> Any:
        text = json.dumps({"do": do, "servers": kafka.bootstrap_servers, **job})
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/earlier.py")],
            input=text,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(releases[release])},
            text=True,
            check=True,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        assert Path(answer["package"]).parents[1] == releases[release]
        return answer["result"]

    return run


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize(("writer", "reader"), [("earlier", "now"), ("now", "earlier")])
def test_each_reads_what_the_other_has_sent(
    run: Any, topic: TopicFactory, kind: str, writer: str, reader: str
) -> None:
    name = topic()
    run(writer, "produce", topic=name, kind=kind, numbers=list(range(30)))
    records = run(reader, "consume", topic=name, group=f"{name}-group", count=30)
    assert records == [record(kind, n) for n in range(30)]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_group_goes_on_inside_a_segment_whoever_reads(
    run: Any, topic: TopicFactory, kind: str
) -> None:
    name, records = topic(), []
    run("earlier", "produce", topic=name, kind=kind, numbers=list(range(10)))
    run("now", "produce", topic=name, kind=kind, numbers=list(range(10, 20)))
    for reader, count in (("earlier", 5), ("now", 2), ("earlier", 7), ("now", 6)):
        records += run(reader, "consume", topic=name, group=f"{name}-group", count=count)
    assert records == [record(kind, n) for n in range(20)]


def test_segments_with_and_without_an_arrow_schema_share_a_file(
    run: Any, kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    for at, release in ((0, "earlier"), (8, "now"), (16, "earlier")):
        numbers = list(range(at, at + 8))
        run(release, "produce", topic=name, kind="plain", numbers=numbers)
    messages = list(sent(kafka, name, 6))
    footers = [pq.read_metadata(pa.BufferReader(message.value)).metadata for message in messages]
    assert [b"ARROW:schema" in footer for footer in footers] == [True] * 2 + [False] * 2 + [
        True
    ] * 2
    ids = {name: TopicGeneration("cluster", "topic")}
    land(messages, table=ParquetDirectory(str(tmp_path)), generations=ids)
    [file] = (tmp_path / name).glob("*.parquet")
    table = pq.read_table(file)
    assert table.select(SCHEMAS["plain"].names).schema.equals(SCHEMAS["plain"])
    assert table.drop_columns("_kafka").to_pylist() == [row("plain", n) for n in range(24)]


def sent(kafka: LocalKafka, topic: str, count: int) -> Any:
    """Yield the first messages of a topic."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "sent",
        "auto.offset.reset": "earliest",
    }
    with confluent_kafka.Consumer(config) as consumer:
        consumer.subscribe([topic])
        for _ in range(count):
            message = consumer.poll(120)
            assert is_segment(message.headers())
            yield SourceMessage(
                topic=topic,
                partition=message.partition(),
                offset=message.offset(),
                headers=message.headers(),
                value=message.value(),
            )
