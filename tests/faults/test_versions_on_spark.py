"""The tests on Spark once more: on the oldest releases that can run them, and on a small cluster.

They run in a pytest of their own, which finds that release first. The cache keeps it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

import pytest
from support import require_java, spark_home

from columnar_kafka.local.java import once

pytestmark = pytest.mark.timeout(3600)

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/integration/test_spark.py",
    "tests/faults/test_source_on_spark.py",
    "tests/faults/test_landing_on_spark.py",
)
# PySpark 4.0 and 4.1 do not close every socket of theirs.
QUIET = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def pyspark(release: str, folder: Path) -> dict[str, str]:
    """Return the variables with which a process has a release of PySpark; "": that of all tests."""

    def install(place: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place)]
        subprocess.run([*pip, f"pyspark=={release}"], check=True)

    packages = once(f"pyspark-{release}", install) if release else Path(get_path("purelib"))
    home = spark_home(folder / "spark", packages / "pyspark")
    return {"SPARK_HOME": str(home), **({"PYTHONPATH": str(packages)} if release else {})}


@pytest.mark.parametrize(
    ("release", "master"),
    [("4.0.1", "local[2]"), ("4.1.1", "local[2]"), ("", "local-cluster[2,1,1024]")],
)
def test_the_same_tests_pass_with_another_spark_and_on_a_cluster(
    tmp_path: Path, release: str, master: str
) -> None:
    require_java()
    variables = pyspark(release, tmp_path)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *TESTS]
    ended = subprocess.run(
        [*command, *(f"-W{warning}" for warning in QUIET)],
        cwd=ROOT,
        env=os.environ | variables | {"COLUMNAR_KAFKA_TEST_MASTER": master},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-20_000:]
    assert "skipped" not in ended.stdout
