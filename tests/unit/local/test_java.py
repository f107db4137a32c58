"""Java is found or its absence explained; what the cache holds is whole."""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import sys
from typing import TYPE_CHECKING

import pytest

from columnar_kafka.local import JarsMissingError, JavaMissingError, find_java, java, kafka_jars
from columnar_kafka.local.java import cache_directory, once

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_java_and_an_empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("COLUMNAR_KAFKA_CACHE", str(tmp_path / "cache"))


def fake_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    executable.chmod(0o755)
    return executable


def test_no_java_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME .* PATH .* Install a JDK or JRE 17\+"):
        find_java()


def test_an_old_java_is_named_with_its_version(tmp_path: Path) -> None:
    old = fake_java(tmp_path, "11.0.2")
    with pytest.raises(JavaMissingError, match=f"PATH: {old} is 11.0.2"):
        find_java()


def test_java_8_counted_as_1_8_is_too_old(tmp_path: Path) -> None:
    fake_java(tmp_path, "1.8.0_402")
    with pytest.raises(JavaMissingError, match=r"is 1\.8\.0_402"):
        find_java()


def test_java_home_goes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    at_home = fake_java(tmp_path / "home", "21-ea")
    assert find_java().executable == at_home
    assert find_java().version == "21-ea"


def test_path_is_used_where_java_home_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    fake_java(tmp_path / "home", "11.0.2")
    assert find_java().executable == on_path


@pytest.mark.parametrize(
    ("package", "cache"), [("platformdirs", ""), ("pyspark", "cache")], ids=["folder", "Ivy"]
)
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, cache: str
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("COLUMNAR_KAFKA_CACHE", cache and str(tmp_path / cache))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        JarsMissingError, match=rf"^{package}, .*: pip install 'columnar-kafka\[local\]'$"
    ):
        kafka_jars()


def test_a_failed_making_leaves_nothing_and_is_tried_again() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("the network went away")

    with pytest.raises(OSError, match="went away"):
        once("jars", fail)
    assert not (cache_directory() / "jars").exists()
    made = once("jars", lambda folder: (folder / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]


def test_what_a_killed_maker_left_is_never_taken_for_whole() -> None:
    pipe, theirs = multiprocessing.Pipe()
    maker = multiprocessing.get_context("spawn").Process(target=_make_half, args=(theirs,))
    maker.start()
    assert pipe.recv() == "half"
    maker.kill()
    maker.join()
    assert not (cache_directory() / "jars").exists()
    made = once("jars", lambda folder: (folder / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]
    assert [path.name for path in made.parent.iterdir() if path.is_dir()] == ["jars"]


def test_of_two_processes_one_makes_it_and_the_other_waits() -> None:
    pipe, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    makers = [context.Process(target=_make_whole, args=(theirs,)) for _ in range(2)]
    for maker in makers:
        maker.start()
    assert pipe.recv() == "making"
    pipe.send("go on")
    for maker in makers:
        maker.join(30)
    assert [maker.exitcode for maker in makers] == [0, 0]
    assert not pipe.poll()


def _make_half(pipe: Connection) -> None:
    def make(folder: Path) -> None:
        (folder / "half").touch()
        pipe.send("half")
        pipe.recv()

    once("jars", make)


def _make_whole(pipe: Connection) -> None:
    def make(folder: Path) -> None:
        pipe.send("making")
        pipe.recv()
        (folder / "whole").touch()

    assert (once("jars", make) / "whole").exists()


@pytest.mark.parametrize(
    ("pyspark", "source"), [("4.0.1", "4.0.1"), ("4.1.1", "4.1.1"), ("4.3.0", "4.2.0")]
)
def test_sparks_source_is_of_its_release_as_far_as_the_registry_has_it(
    pyspark: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def jars(name: str, dependencies: str) -> Path:
        asked.extend([name, dependencies])
        return tmp_path

    monkeypatch.setattr(java, "jars", jars)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: pyspark)
    assert java.spark_kafka_jars() == []
    assert asked[0] == f"spark-kafka-{source}"
    assert f'name="spark-sql-kafka-0-10_2.13" rev="{source}"' in asked[1]
