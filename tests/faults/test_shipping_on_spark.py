"""The package reaches executors that do not have it, as docs/spark.md says; and Spark Connect."""

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
from sending import send
from support import spark_home

from columnar_kafka.local.java import once

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("shipped_package.py")
SITE = Path(sysconfig.get_path("purelib"))
PYTHON: str = sys._base_executable  # type: ignore[attr-defined]  # noqa: SLF001 - it has no other name
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


@pytest.mark.parametrize("way", ["--py-files", "addPyFile"])
def test_the_wheel_as_a_zip_is_all_that_executors_lack(
    kafka: LocalKafka, topic: TopicFactory, package: Path, tmp_path: Path, way: str
) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    command: list[str | Path] = [SITE / "pyspark" / "bin" / "spark-submit"]
    command += ["--master", "local-cluster[2,1,1024]"]
    command += ["--conf", f"spark.executorEnv.PYTHONPATH={SITE}"]
    command += ["--py-files", package] if way == "--py-files" else []
    command += [PROGRAM, kafka.bootstrap_servers, name, tmp_path / "lake"]
    command += [] if way == "--py-files" else [package]
    places = run(command, tmp_path, path=[package])
    ends = [Path(place).parts[-3:] for place in places]
    assert ends == [("columnar_kafka.zip", "spark_sink", "__init__.py")] * 2
    assert not [place for place in places if Path(place).is_relative_to(package)]
    assert landed(tmp_path, name) == list(range(20))


def test_spark_connect_lands_where_its_server_has_the_package(
    kafka: LocalKafka, topic: TopicFactory, package: Path, tmp_path: Path
) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    command = [PYTHON, PROGRAM, kafka.bootstrap_servers, name, tmp_path / "lake"]
    places = run(command, tmp_path, path=[package, connect()], SPARK_REMOTE="local[2]")
    assert [Path(place).is_relative_to(package) for place in places] == [True] * 2
    assert landed(tmp_path, name) == list(range(20))


def run(command: list[str | Path], folder: Path, path: list[Path], **variables: str) -> list[str]:
    """Run the program, and return the last line it prints.

    Its interpreter has the environment's packages on its path, and so not this one: what makes an
    editable install is read only where Python looks by itself. `path` is there too.
    """
    variables |= {
        "PYTHONPATH": os.pathsep.join(map(str, [*path, SITE])),
        "SPARK_HOME": str(spark_home(folder / "spark", SITE / "pyspark")),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": PYTHON,
        "PYSPARK_DRIVER_PYTHON": PYTHON,
    }
    environment = os.environ | variables
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    said = [line for line in ended.stderr.splitlines() if not line.startswith("\tat ")]
    assert ended.returncode == 0, "\n".join(said[-100:])
    places: list[str] = ast.literal_eval(ended.stdout.splitlines()[-1])
    return places


def landed(folder: Path, topic: str) -> list[int]:
    return sorted(polars.read_parquet(folder / "lake" / topic / "*.parquet")["n"])
