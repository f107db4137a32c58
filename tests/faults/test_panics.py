"""A native core that panics, at each of its entries: nothing is lost, and the process lives."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from columnar_kafka import native

if TYPE_CHECKING:
    from columnar_kafka.local import LocalKafka

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "native"
PROGRAM = Path(__file__).with_name("panicking.py")

pytestmark = pytest.mark.skipif(
    shutil.which("cargo") is None or not native.enabled, reason="it needs cargo, and the core"
)


def entries() -> list[str]:
    """Return the names of the core's entries, as its sources have them."""
    sources = "".join(path.read_text() for path in (CRATE / "src").rglob("*.rs"))
    guards = r'\b(?:entry|caught|guarded|detached)\(\s*(?:[\w.]+\(\),|py,)?\s*"([\w.]+)"'
    return sorted(set(re.findall(guards, sources)))


RARE = {"undo", "Block.callback"}
"""They are called after a panic, or where a partition is gone, only."""


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose core panics when it is told to."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--features", "panics"]
    fast = ["--config", "profile.release.lto=false", "--config", "profile.release.codegen-units=16"]
    subprocess.run(
        [*command, *fast, "--target-dir", "target/panics"],
        cwd=CRATE,
        env=os.environ | {"PYO3_PYTHON": sys.executable, "PYO3_BUILD_EXTENSION_MODULE": "1"},
        check=True,
    )
    folder = tmp_path_factory.mktemp("panics")
    shutil.copytree(ROOT / "columnar_kafka", folder / "columnar_kafka")
    module = Path(native.core.__file__).name
    shutil.copy(
        CRATE / "target/panics/release/lib_core.so", folder / "columnar_kafka/native" / module
    )
    return folder


@pytest.fixture
def topics(kafka: LocalKafka, topic) -> str:
    """Create the topics that the program produces to: records that wait for one become Arrow's."""
    name: str = topic(2)
    kafka.create_topic(f"{name}-values", 1)
    kafka.create_topic(f"{name}-datums", 1)
    return name


def run(package: Path, servers: str, topic: str, lake: Path, *arguments: str) -> dict[str, Any]:
    """Run the program; return what it found."""
    done = subprocess.run(
        [sys.executable, PROGRAM, servers, topic, str(lake), *arguments],
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome


CHECKED = ("reported", "stored", "rows", "values", "datums", "landed", "decoded")


def check(outcome: dict[str, Any]) -> None:
    """Each accepted record is reported once, and what is reported as stored is there once."""
    right = [outcome[name] for name in CHECKED]
    assert right == [True] * len(CHECKED), outcome


def test_without_a_panic_every_entry_is_called(
    package: Path, kafka: LocalKafka, topics: str, tmp_path
) -> None:
    outcome = run(package, kafka.bootstrap_servers, topics, tmp_path / "lake")
    check(outcome)
    assert (outcome["failed"], outcome["raised"], outcome["log"]) == (0, 0, [])
    assert set(entries()) - set(outcome["called"]) == RARE


@pytest.mark.parametrize("entry", sorted({*entries()} - RARE))
def test_a_core_that_panics_once(
    package: Path, entry: str, kafka: LocalKafka, topics: str, tmp_path
) -> None:
    outcome = run(package, kafka.bootstrap_servers, topics, tmp_path / "lake", entry)
    check(outcome)
    assert outcome["panicked"]
    [line] = outcome["log"]
    assert "Please report it" in line
    assert outcome["failed"] <= 1500
    assert outcome["raised"] <= 1


PRODUCING = ("produce", "Batch.append", "finish", "Encoder.encode", "Block.values", "Reports.run")


@pytest.mark.parametrize("entry", PRODUCING)
def test_a_core_that_panics_in_front_of_a_kafka_in_memory(
    package: Path, entry: str, tmp_path: Path
) -> None:
    outcome = run(package, "fake", "t", tmp_path / "lake", entry)
    check(outcome)
    assert outcome["panicked"]


def test_a_core_that_panics_on_a_value_in_json(package: Path, tmp_path: Path) -> None:
    outcome = run(package, "fake", "t", tmp_path / "lake", "produce", "1", "3200")
    check(outcome)
    assert outcome["panicked"]
    assert (outcome["failed"], outcome["raised"]) == (0, 1)


@pytest.mark.parametrize("entry", ["Encoder.encode", "finish", "Batch.seal", "Block.slice"])
def test_a_core_that_panics_again_and_again(package: Path, entry: str, tmp_path: Path) -> None:
    outcome = run(package, "fake", "t", tmp_path / "lake", entry, "20")
    check(outcome)
