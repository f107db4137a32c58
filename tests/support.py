"""Helpers that many tests use."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psutil
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from hypothesis import settings

from columnar_kafka.errors import ConfigError
from columnar_kafka.local import JavaMissingError, find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")


SPARK_TESTS = ("/test_spark.py", "/test_local_spark.py", "/test_demo_runs.py", "_on_spark")
"""What the ids of tests have in which a Spark runs."""

WITHOUT_PANDAS = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
"""
"""The beginning of a program in a test: pyarrow imports pandas where it can, for half a second."""


def spark_home(folder: Path, pyspark: Path) -> Path:
    """Make a folder that is PySpark's home by links: a local cluster leaves its work there."""
    folder.mkdir()
    for path in pyspark.iterdir():
        if path.name != "work":
            folder.joinpath(path.name).symlink_to(path)
    return folder


def is_long() -> bool:
    """Whether tests try all they can: `make faults` has ``--hypothesis-profile long``."""
    return settings.get_current_profile_name() == "long"


def by_profile(short: T, long: T) -> T:
    """Return `long` with ``--hypothesis-profile long``, as in `make faults`; otherwise `short`."""
    return long if is_long() else short


def examples(count: int) -> int:
    """Return how many examples a test tries: `count`, or in `make test` a quarter of them."""
    return by_profile(max(5, count // 4), count)


def places(count: int) -> range:
    """Return at which of `count` places a test does harm: all, or in `make test` every fourth."""
    return range(0, count, by_profile(4, 1))


class Reports(list[Any]):
    """A callback that collects what it gets, and is false until then."""

    def __call__(self, *report: Any) -> None:
        self.append(report)


def eventually(condition: Callable[[], T], *, seconds: float = 120.0) -> T:
    """Ask until the answer is true, and return it; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.02)
    return answer


@contextmanager
def running(line: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; where the block fails it is killed, where `Popen` would wait for it."""
    with subprocess.Popen(line, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def interpreter_bytes() -> int:
    """Return the resident bytes of a Python that has imported nothing."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        size: int = psutil.Process(process.pid).memory_info().rss
        process.communicate(b"\n")
    return size


def set_config(
    servers: str, of: str, name: str, value: str, *, kind: ResourceType = ResourceType.TOPIC
) -> AdminClient:
    """Change a setting of a topic, or a group; return the client. Brokers apply it later."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, of, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.incremental_alter_configs([resource])[resource].result(120)
    return admin


def run_coroutine(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function to its end; calls of the loop's exception handler fail the test."""
    errors: list[Any] = []

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        return await asyncio.wait_for(main(), 240)

    result = asyncio.run(watched())
    assert errors == []
    return result


def require_java() -> None:
    """Without Java a test fails in CI, and is visibly skipped elsewhere."""
    if (why := _without_java()) is not None:
        missing(why)


@cache
def _without_java() -> str | None:
    """Return why there is no Java that can be used; None if there is one."""
    try:
        find_java()
    except JavaMissingError as error:
        return str(error)
    return None


def missing(what: str) -> None:
    """Fail in CI, and skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def has_ended(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def command_lines(pid: int) -> dict[int, str]:
    """Return the command lines of what a process has started, by process id, where it still runs.

    What has ended has none, waited for or not: psutil raises for it.
    """
    commands: dict[int, str] = {}
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # nor has a zombie
                commands[child.pid] = " ".join(child.cmdline())
    return commands


class TopicFactory(Protocol):
    """The `topic` fixture: creates a topic and returns its name."""

    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str: ...


class OnSpark(Protocol):
    """The `on_spark` fixture: calls a function that uses Spark, and returns its result."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


def setting_error(settings: Any, key: str, value: Any) -> ConfigError:
    """Return the error of a wrong value.

    `parse` raises it for our own keys. For librdkafka's it defers the error: librdkafka should
    refuse the value itself.

    Args:
        settings: `ProducerConfig` or `ConsumerConfig`.
        key: the key with the wrong value.
        value: the value.
    """
    if key.startswith(("columnar.", "fetch.")):
        with pytest.raises(ConfigError) as raised:
            settings.parse({key: value})
        return raised.value
    parsed, rest = settings.parse({key: value})
    assert rest == {key: value}
    assert isinstance(parsed.deferred_error, ConfigError)
    return parsed.deferred_error
