"""librdkafka's mock cluster in a process of its own: Kafka enough for a demo without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from columnar_kafka.local.base import KafkaServers

_MOCK = Path(__file__).with_name("mock.py")
_END_SECONDS = 10.0


class EmbeddedKafka(KafkaServers):
    """A mock of `nodes` brokers with real TCP listeners, in a child process; up in about 0.2 s.

    Its limits: 5 MiB and 100,000 messages a partition are kept, older ones vanish without a word.
    Clients cannot create topics (use `create_topic`) or describe configurations: both fail at once
    as unsupported. Topics that nobody created appear with 4 partitions. Delivery reports carry the
    time stamp 1234, `offsets_for_times` finds nothing, read_committed sees aborted records, nothing
    fences a zombie producer, size limits are not enforced. A test of any of those needs
    `LocalKafka`. Cluster id and topic ids are there. Not thread-safe.
    """

    def __init__(self, nodes: int = 1) -> None:
        self._count = nodes
        self._process: subprocess.Popen[str] | None = None
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers. Raises RuntimeError when not started."""
        self._running()
        return self._bootstrap_servers

    @property
    def pid(self) -> int:
        """The process id of the mock. Raises RuntimeError when not started."""
        return self._running().pid

    def start(self) -> None:
        """Start the mock; blocks until it listens.

        Raises:
            RuntimeError: it was started before, or its process ended.
        """
        if self._process is not None:
            raise RuntimeError("this EmbeddedKafka was started before")
        # The child ends at the end of its stdin, so it needs no guard: see mock.py.
        self._process = subprocess.Popen(
            [sys.executable, str(_MOCK), str(self._count)],
            env=os.environ | {"PYTHONSAFEPATH": "1"},  # do not import its neighbours
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self._bootstrap_servers = self._read_line()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process and wait for it; idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # closes the pipes too
            self._process = None

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; clients see it at once.

        Raises:
            RuntimeError: it exists already, or the mock is not running.
        """
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(f"{name} {partitions}\n")
        stdin.flush()
        if (answer := self._read_line()) != "ok":
            raise RuntimeError(f"the mock cluster did not create {name!r}: {answer}")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("this EmbeddedKafka is not started")
        return self._process

    def _read_line(self) -> str:
        stdout = self._running().stdout
        line = stdout.readline() if stdout is not None else ""
        if not line:
            raise RuntimeError("the mock cluster's process ended")
        return line.rstrip("\n")
