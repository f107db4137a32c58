"""Tokens that a function makes, on a Kafka that asks for them: commands, and Spark's both sides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakes import DirectoryLake, rows
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from secured import LOGIN_BY_TOKEN, TOKENS, secured_kafka
from sending import send
from spark_tasks import Query, close_kept_clients
from support import require_java

import spark_sink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[LocalKafka, str]]:
    """A Kafka, and the address where it wants tokens."""
    require_java()
    with secured_kafka(TOKENS) as servers:
        yield servers


@pytest.fixture
def tokens(secured: tuple[LocalKafka, str]) -> dict[str, str]:
    """What a client needs to log in; the function is in a module of this folder's tests."""
    return {"bootstrap.servers": secured[1], **LOGIN_BY_TOKEN, "oauth_cb": "tokens_made:token"}


def command(name: str, *arguments: str, config: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    servers = config["bootstrap.servers"]
    keys = [f"-X{key}={value}" for key, value in config.items() if key != "bootstrap.servers"]
    line = [sys.executable, "-m", "columnar_kafka.cli", name, *arguments]
    line += ["--bootstrap-servers", servers, *keys]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    return subprocess.run(
        line, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_the_commands_log_in(secured, tokens, tmp_path) -> None:
    kafka, _ = secured
    kafka.create_topic("commands", 2, {"retention.ms": "-1"})
    send(kafka, "commands", range(40))
    lake = DirectoryLake(tmp_path / "lake")
    place, topic = str(lake.root), ("--topic", "commands")
    landed = command("ingest", "--to", place, *topic, "--stop-at-end", config=tokens)
    assert (landed.returncode, landed.stdout) == (0, "commands: 40 rows landed in 2 files\n")
    assert rows(lake) == list(range(40))
    verified = command("verify", place, *topic, "--json", config=tokens)
    assert (verified.returncode, json.loads(verified.stdout)["rows"]) == (0, 40)


def test_what_is_no_function_is_a_usage_error(tokens, tmp_path) -> None:
    config = tokens | {"oauth_cb": "token"}
    ended = command("ingest", "--to", str(tmp_path), "--topic", "t", config=config)
    assert ended.returncode == 2
    said = " ".join(ended.stderr.replace("│", "").split())
    assert "oauth_cb is 'token': it must be MODULE:FUNCTION" in said


def test_sparks_source_and_sink_log_in(secured, tokens, tmp_path) -> None:
    """In mode `ranges` its tasks read with the sink's options; the pickled function goes along."""
    kafka, _ = secured
    kafka.create_topic("ranges", 2, {"retention.ms": "-1"})
    send(kafka, "ranges", range(40))
    lake = DirectoryLake(tmp_path / "lake")
    options = {f"kafka.{key}": value for key, value in tokens.items()}
    query = Query(kafka, "ranges", str(lake.root), **options)
    query.servers = options
    query.land(query.ranges())
    assert rows(lake) == list(range(40))
    close_kept_clients()


def test_sparks_writer_logs_in(secured, tokens) -> None:
    """It asks for the topic's newest segments too."""
    kafka, _ = secured
    kafka.create_topic("written", 2, {"retention.ms": "-1"})
    send(kafka, "written", range(4))
    options = {f"kafka.{key}": value for key, value in tokens.items()}
    named = CaseInsensitiveDict({**options, "topic": "written"})
    source = spark_sink.KafkaSource(
        CaseInsensitiveDict({**options, "subscribe": "written"} | {"mode": "records"})
    )
    schema = source.schema()
    columns = type(schema)([field for field in schema if field.name != "_kafka"])
    writer = spark_sink.KafkaSource(named).writer(columns, overwrite=False)
    reader = source.reader(schema)
    batches = [b for partition in reader.partitions() for b in reader.read(partition)]
    arrow = to_arrow_schema(columns, timezone="UTC")
    writer.write(iter([batch.select(arrow.names) for batch in batches]))
    again = source.reader(schema)
    numbers = [
        row["n"]
        for partition in again.partitions()
        for b in again.read(partition)
        for row in b.to_pylist()
    ]
    assert sorted(numbers) == sorted([*range(4), *range(4)])
    close_kept_clients()
