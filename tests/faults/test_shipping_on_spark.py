"""The wheel reaches executors that do not have this package, in the ways of docs/spark.md."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import polars
import pytest
from landing import send

from columnar_kafka.local.java import once

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("shipped_package.py")
CLUSTER = "local-cluster[2,1,1024]"
CONNECT = ("grpcio>=1.76", "grpcio-status>=1.76", "googleapis-common-protos>=1.71")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel under a name that Spark puts on Python's path."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*pip, ROOT], env=os.environ | {"COLUMNAR_KAFKA_WHEEL": "pure"}, check=True)
    [wheel] = folder.glob("*-none-any.whl")
    return wheel.rename(folder / "columnar_kafka.zip")


def connect() -> Path:
    """Return a folder with what Spark Connect needs beside PySpark."""

    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        subprocess.run([*pip, *CONNECT], check=True)

    return once("spark-connect", install)


@pytest.mark.parametrize("way", ["--py-files", "addPyFile", "addArtifacts"])
def test_the_wheel_as_a_zip_is_all_that_executors_lack(
    kafka: LocalKafka, topic: TopicFactory, package: Path, tmp_path: Path, way: str
) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    # An interpreter that has the environment's packages on its path, and so not this one: what
    # makes an editable install is read only where Python looks by itself. The driver has the zip.
    site = sysconfig.get_path("purelib")
    spark = Path(site, "pyspark")
    python = sys._base_executable  # type: ignore[attr-defined]
    variables = {
        "PYTHONPATH": os.pathsep.join([str(package), site]),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }
    settings = ["--conf", f"spark.executorEnv.PYTHONPATH={site}"]
    command: list[str | Path] = [spark / "bin" / "spark-submit", "--master", CLUSTER, *settings]
    command += ["--py-files", package] if way == "--py-files" else []
    if way == "addArtifacts":
        command = [python]
        variables["PYTHONPATH"] += f"{os.pathsep}{connect()}"
        variables["SPARK_REMOTE"] = CLUSTER
        variables["PYSPARK_SUBMIT_ARGS"] = " ".join([*settings, "pyspark-shell"])
    command += [PROGRAM, kafka.bootstrap_servers, name, tmp_path / "lake"]
    command += [] if way == "--py-files" else [package]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    places = ast.literal_eval(ended.stdout.splitlines()[-1])
    found = [Path(each).parts[-3:] for each in places]
    assert found == [("columnar_kafka.zip", "spark_sink", "__init__.py")] * 2
    assert not [each for each in places if Path(each).is_relative_to(package)]
    landed = polars.read_parquet(tmp_path / "lake" / name / "*.parquet")
    assert sorted(landed["n"]) == list(range(20))
