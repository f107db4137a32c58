"""One Kafka broker as a process: its command line, and the files that make its start fast.

They are prepared once for each Kafka and Java version and kept in the cache: formatted metadata
(Kafka's own StorageTool takes 1.2 s) and an archive of the classes that a broker loads (a start
then takes 1.1 s instead of 2.4 s, and half the CPU, measured on 2 cores).
"""

from __future__ import annotations

import base64
import shutil
import signal
import socket
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from columnar_kafka.local.java import KAFKA_VERSION, Java, find_java, kafka_jars, once
from columnar_kafka.local.process import GuardedProcess, tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOST = "127.0.0.1"
_PREPARE_SECONDS = 120.0
_POLL_SECONDS = 0.02
_ARCHIVE = "classes.jsa"
_BOOTSTRAP = "bootstrap.checkpoint"

_FLAGS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # half the CPU of a start, at the price of a slower busy broker
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",  # so that a log ends with what went wrong
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


class LocalKafkaError(RuntimeError):
    """A local server did not start; the message ends with its log."""


@dataclass(frozen=True)
class BrokerRuntime:
    """The Java, classpath and prepared files that each broker on this machine starts with."""

    java: Java
    classpath: str
    prepared: Path

    @classmethod
    def find(cls) -> BrokerRuntime:
        """Find or make everything; the very first call fetches jars, for about a minute.

        Raises:
            JavaMissingError: no usable Java.
            JarsMissingError: the jars could not be fetched.
            LocalKafkaError: the trial run of a broker failed.
        """
        java = find_java()
        classpath = ":".join(map(str, sorted(kafka_jars().glob("*.jar"))))
        name = f"kafka-{KAFKA_VERSION}-start-java-{java.version}"
        return cls(java, classpath, once(name, lambda folder: _prepare(java, classpath, folder)))

    def start(self, properties: Path, *, log: Path, remove: Path | None) -> GuardedProcess:
        """Start a broker on formatted storage; does not wait until it is ready."""
        archive = f"-XX:SharedArchiveFile={self.prepared / _ARCHIVE}"
        command = _command(self.java, self.classpath, archive, "kafka.Kafka", str(properties))
        grace = 10.0 if remove is None else 0.0  # data that is removed need not be flushed
        return GuardedProcess(command, log=log, grace_seconds=grace, remove=remove)

    def format(self, data: Path, *, cluster_id: str, node_id: int) -> None:
        """Make the folder `data` what StorageTool would have made it."""
        data.mkdir(parents=True)
        shutil.copy(self.prepared / _BOOTSTRAP, data)
        Path(data, "meta.properties").write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={kafka_uuid()}\n"
        )


def kafka_uuid() -> str:
    """A random id as Kafka writes them; never one with a leading dash, which tools misread."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]).startswith("-"):
        pass
    return text


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a server.properties; values must not need escaping."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def node_properties(
    node_id: int, *, data: Path, port: int, voters: Sequence[tuple[int, int]]
) -> dict[str, str]:
    """The properties without which a broker-and-controller does not run.

    `voters` are the (node id, controller port) of all nodes, this one included.
    """
    controller = dict(voters)[node_id]
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(f"{id_}@{HOST}:{at}" for id_, at in voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(data),
    }


def _command(java: Java, classpath: str, *arguments: str) -> list[str]:
    return [str(java.executable), *_FLAGS, "-cp", classpath, *arguments]


def _prepare(java: Java, classpath: str, folder: Path) -> None:
    """Format one storage and run one broker on it, keeping what later starts reuse."""
    with tempfile.TemporaryDirectory(prefix="columnar-kafka-") as name:
        scratch = Path(name)
        data, properties, log = scratch / "data", scratch / "server.properties", scratch / "log"
        port, controller = _two_free_ports()
        voters = [(1, controller)]
        write_properties(properties, node_properties(1, data=data, port=port, voters=voters))
        tool = ["kafka.tools.StorageTool", "format", "-t", kafka_uuid(), "-c", str(properties)]
        _finish(_command(java, classpath, *tool), log, "format its storage")
        shutil.copy(data / _BOOTSTRAP, folder)
        dump = f"-XX:ArchiveClassesAtExit={folder / _ARCHIVE}"
        broker = GuardedProcess(
            _command(java, classpath, dump, "kafka.Kafka", str(properties)), log=log
        )
        try:
            _wait_for_port(broker, port, log)
            broker.signal(signal.SIGTERM)
            broker.wait(_PREPARE_SECONDS)
        finally:
            broker.close()


def _finish(command: list[str], log: Path, what: str) -> None:
    process = GuardedProcess(command, log=log)
    try:
        code = process.wait(_PREPARE_SECONDS)
    finally:
        process.close()
    if code != 0:
        raise LocalKafkaError(f"Kafka could not {what} (exit code {code}):\n{tail(log)}")


def _two_free_ports() -> tuple[int, int]:
    with socket.create_server((HOST, 0)) as one, socket.create_server((HOST, 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for_port(broker: GuardedProcess, port: int, log: Path) -> None:
    deadline = time.monotonic() + _PREPARE_SECONDS
    while time.monotonic() < deadline and broker.running:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(_POLL_SECONDS)
    raise LocalKafkaError(f"Kafka's trial run failed:\n{tail(log)}")
