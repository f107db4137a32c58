"""A small cluster of Spark's lands in an object store; it learns the keys in three ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from lakes import DeltaLake, DirectoryLake, IcebergLake
from sending import send
from support import spark_home

if TYPE_CHECKING:
    from iceberg_rest import IcebergRest
    from minio import Minio
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).with_name("storing.py")
ROWS = 30


class Tables:
    """A table of each kind, and the cluster that lands in them."""

    def __init__(self, minio: Minio, rest: IcebergRest | None, folder: Path) -> None:
        self._folder = folder
        self.bucket = minio.place(uuid.uuid4().hex)
        kinds = {"directory": DirectoryLake, "delta": DeltaLake, "iceberg": IcebergLake}
        self.lakes = {name: kind(folder / name, self.bucket / name) for name, kind in kinds.items()}
        if rest is not None:
            self.lakes["rest"] = IcebergLake(folder / "rest", rest.place(uuid.uuid4().hex))

    def land(
        self, kafka: LocalKafka, topic: str, *, config: Any = None, env: Any = None, **more: str
    ) -> None:
        """Land a topic in all of them, with these options more."""
        home = spark_home(self._folder / "spark", Path(pyspark.__file__).parent)
        variables = {key: value for key, value in os.environ.items() if "AWS_" not in key}
        variables |= {
            "SPARK_HOME": str(home),
            "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[1]), *sys.path]),
        }
        tables = json.dumps([lake.spark_options() | more for lake in self.lakes.values()])
        subprocess.run(
            [
                *(sys.executable, SCRIPT, kafka.bootstrap_servers, topic, tables),
                *(json.dumps(config or {}), self._folder / "checkpoints"),
            ],
            env=variables | (env or {}),
            check=True,
        )

    def numbers(self) -> dict[str, list[int]]:
        """Return what each table has."""
        return {name: sorted(lake.read()["n"].to_pylist()) for name, lake in self.lakes.items()}


@pytest.fixture
def filled(kafka: LocalKafka, topic: TopicFactory) -> str:
    """Return the name of a topic with rows in two partitions."""
    name = topic(2)
    send(kafka, name, range(ROWS))
    return name


def test_keys_are_options(
    kafka: LocalKafka, filled: str, minio: Minio, iceberg_rest: IcebergRest, tmp_path: Path
) -> None:
    tables = Tables(minio, iceberg_rest, tmp_path)
    keys = {f"table.storage.{key}": value for key, value in tables.bucket.storage.items()}
    tables.land(kafka, filled, **keys)
    assert tables.numbers() == {name: list(range(ROWS)) for name in tables.lakes}


def test_keys_are_in_the_environment(
    kafka: LocalKafka, filled: str, minio: Minio, tmp_path: Path
) -> None:
    tables = Tables(minio, None, tmp_path)
    env = {key.upper(): value for key, value in tables.bucket.storage.items()}
    tables.land(kafka, filled, env=env)
    assert tables.numbers() == {name: list(range(ROWS)) for name in tables.lakes}


def test_keys_are_those_of_spark_for_its_own_files(
    kafka: LocalKafka, filled: str, minio: Minio, tmp_path: Path
) -> None:
    tables = Tables(minio, None, tmp_path)
    storage = tables.bucket.storage
    s3a = {
        "access.key": storage["aws_access_key_id"],
        "secret.key": storage["aws_secret_access_key"],
        "endpoint": storage["aws_endpoint_url"].removeprefix("http://"),
        "endpoint.region": storage["aws_region"],
        "connection.ssl.enabled": "false",
        "path.style.access": "true",
    }
    config = {f"spark.hadoop.fs.s3a.{key}": value for key, value in s3a.items()}
    tables.land(kafka, filled, config=config, **{"of spark": "yes"})
    assert tables.numbers() == {name: list(range(ROWS)) for name in tables.lakes}
