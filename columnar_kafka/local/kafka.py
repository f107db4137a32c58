"""A real Apache Kafka for tests, demo and benchmarks: one KRaft node or several, on 127.0.0.1."""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic  # where confluent-kafka's type stubs have it

from columnar_kafka.local.base import KafkaServers
from columnar_kafka.local.broker import (
    HOST,
    BrokerRuntime,
    LocalKafkaError,
    kafka_uuid,
    node_properties,
    write_properties,
)
from columnar_kafka.local.process import GuardedProcess, tail

if TYPE_CHECKING:
    from collections.abc import Mapping

START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_PORT_TRIES = 3
_REPLICAS = 3
_POLL_SECONDS = 0.02
# With SO_REUSEADDR on both sides Linux lets a broker listen on a port that we keep bound, and gives
# that port to nobody else; other systems need it released first, and the race with it.
_CAN_HOLD_PORTS = sys.platform == "linux"

_SMALL = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "log.index.size.max.bytes": "1048576",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",  # so long a killed node stays leader, or unwelcome back
}


class AddressInUseError(LocalKafkaError):
    """Another process took the port after it was chosen."""


class Port:
    """A free port of 127.0.0.1, kept from others for as long as the system allows."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, 0))
        self.number: int = self._socket.getsockname()[1]

    def lend(self) -> None:
        """Let a broker listen on it."""
        if not _CAN_HOLD_PORTS:
            self.release()

    def release(self) -> None:
        """Let others listen on it."""
        self._socket.close()


class Node:
    """One broker-and-controller of a `LocalKafka`; it keeps its ports and data when restarted."""

    def __init__(
        self,
        node_id: int,
        *,
        runtime: BrokerRuntime,
        directory: Path,
        ports: tuple[Port, Port],
        remove: Path | None,
    ) -> None:
        self.id = node_id
        self.log = directory / "server.log"
        self.bootstrap_servers = f"{HOST}:{ports[0].number}"
        self.controller_port = ports[1].number
        self._ports = ports
        self._runtime = runtime
        self.directory = directory
        self._remove = remove
        self._process: GuardedProcess | None = None

    @property
    def pid(self) -> int:
        """The process id of its Java, also after that has ended.

        Raises:
            RuntimeError: it was never started.
        """
        if self._process is None:
            raise RuntimeError(f"node {self.id} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process exists (a suspended one does)."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start it and block until clients find it in its own metadata; nothing if it runs.

        Raises:
            LocalKafkaError: not ready within 60 s, or it ended; with the end of its log.
        """
        if not self.running:
            self.launch()
            self.wait_ready({self.id}, deadline=time.monotonic() + START_SECONDS)

    def stop(self) -> None:
        """TERM, and block until it has ended: a controlled shutdown, or KILL after 30 s."""
        if self._process is not None:
            self._process.signal(signal.SIGTERM)
            with suppress(TimeoutError):
                self._process.wait(_STOP_SECONDS)
            self._process.close()

    def kill(self) -> None:
        """KILL, and block until it is gone: what a crash looks like. Also ends a suspended one."""
        if self._process is not None:
            self._process.close()

    def suspend(self) -> None:
        """Freeze it (SIGSTOP), and block until it is: connections stay open, nothing answers."""
        if self._process is not None:
            self._process.suspend()

    def resume(self) -> None:
        """Let a suspended node go on."""
        if self._process is not None:
            self._process.signal(signal.SIGCONT)

    def format(
        self, cluster_id: str, voters: list[tuple[int, int]], config: dict[str, str]
    ) -> None:
        """Write its configuration and empty storage."""
        data = self.directory / "data"
        port = self._ports[0].number
        required = node_properties(self.id, data=data, port=port, voters=voters)
        self.directory.mkdir(parents=True)
        write_properties(self.directory / "server.properties", required | config)
        self._runtime.format(data, cluster_id=cluster_id, node_id=self.id)

    def launch(self) -> None:
        """Start its process and return at once."""
        for port in self._ports:
            port.lend()
        self._process = self._runtime.start(
            self.directory / "server.properties", log=self.log, remove=self._remove
        )

    def wait_ready(self, node_ids: set[int], *, deadline: float) -> None:
        """Block until it answers and knows all of `node_ids`; raises like `start`."""
        admin: AdminClient | None = None
        while admin is None or not node_ids <= _known_brokers(admin):
            if admin is None and _listens(self._ports[0].number):
                admin = _admin(self.bootstrap_servers)  # earlier it would only wait and retry
            if not self.running:
                self._raise_ended()
            if time.monotonic() > deadline:
                raise LocalKafkaError(f"node {self.id} is not ready in time:\n{tail(self.log)}")
            time.sleep(_POLL_SECONDS)

    def _raise_ended(self) -> None:
        # Only its log says why a broker ended.
        taken = "Address already in use" in self.log.read_text(errors="replace")
        kind = AddressInUseError if taken else LocalKafkaError
        raise kind(f"node {self.id} ended while starting:\n{tail(self.log)}")


class LocalKafka(KafkaServers):
    """A Kafka cluster of `nodes` brokers (each a controller too), gone when it is closed.

    `config` is added to every node's server.properties. Without `directory` all data is in a
    temporary folder, removed by `close()` and also when this process is killed; a given directory
    must be empty or missing and is kept. Topics get min(3, nodes) replicas; with three or more,
    `min.insync.replicas` is 2. Not thread-safe.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes must be at least 1, not {nodes}")
        self.nodes: list[Node] = []
        self._count = nodes
        self._config = _SMALL | _replication(nodes) | dict(config or {})
        self._given_directory = directory
        self._temporary: Path | None = None
        self._ports: list[Port] = []

    @property
    def bootstrap_servers(self) -> str:
        """All nodes, the stopped ones too. Raises RuntimeError when not started."""
        if not self.nodes:
            raise RuntimeError("this LocalKafka is not started")
        return ",".join(node.bootstrap_servers for node in self.nodes)

    @property
    def directory(self) -> Path:
        """Where the nodes keep data and logs. Raises RuntimeError when there is none yet."""
        directory = self._given_directory or self._temporary
        if directory is None:
            raise RuntimeError("this LocalKafka is not started")
        return directory

    def start(self) -> None:
        """Start all nodes and block until each knows all others.

        About 1.5 s for one node and 4 s for three, on 2 cores. The very first start on a machine
        fetches Kafka, for about a minute.

        Raises:
            JavaMissingError: no usable Java.
            JarsMissingError: Kafka could not be fetched.
            LocalKafkaError: a node ended or was not ready within 60 s; with the end of its log.
        """
        if self.nodes:
            raise RuntimeError("this LocalKafka was started before")
        runtime = BrokerRuntime.find()
        for tries_left in reversed(range(_PORT_TRIES)):
            try:
                self._start_nodes(runtime)
            except AddressInUseError:
                self._give_up_ports()
                if not tries_left:
                    raise
            except BaseException:
                self.close()
                raise
            else:
                return

    def close(self) -> None:
        """KILL every node, wait until it is gone, remove the temporary folder. Idempotent."""
        for node in self.nodes:
            node.kill()
        self.nodes = []
        for port in self._ports:
            port.release()
        self._ports = []
        if self._temporary is not None:
            shutil.rmtree(self._temporary)
            self._temporary = None

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic and block until the leaders of all its partitions answer.

        Raises:
            KafkaException: the cluster refused it, or did not answer.
            LocalKafkaError: they did not within 60 s.
        """
        admin = _admin(self.bootstrap_servers)
        factor = -1 if replication_factor is None else replication_factor
        topic = NewTopic(name, partitions, factor, config=dict(config or {}))
        admin.create_topics([topic])[name].result(START_SECONDS)
        deadline = time.monotonic() + START_SECONDS
        while not _answers(admin, name, partitions):
            if time.monotonic() > deadline:
                raise LocalKafkaError(f"topic {name} was created, and its leaders do not answer")
            time.sleep(_POLL_SECONDS)

    def _start_nodes(self, runtime: BrokerRuntime) -> None:
        deadline = time.monotonic() + START_SECONDS
        directory = self._make_directory()
        pairs = [(Port(), Port()) for _ in range(self._count)]
        self._ports = [port for pair in pairs for port in pair]
        self.nodes = [
            Node(
                number,
                runtime=runtime,
                directory=directory / f"node-{number}",
                ports=ports,
                remove=self._temporary,
            )
            for number, ports in enumerate(pairs, start=1)
        ]
        cluster_id, voters = kafka_uuid(), [(node.id, node.controller_port) for node in self.nodes]
        for node in self.nodes:
            node.format(cluster_id, voters, self._config)
            node.launch()
        for node in self.nodes:
            node.wait_ready({node.id for node in self.nodes}, deadline=deadline)

    def _give_up_ports(self) -> None:
        formatted = [node.directory for node in self.nodes]
        self.close()
        for directory in formatted:
            shutil.rmtree(directory, ignore_errors=True)

    def _make_directory(self) -> Path:
        if self._given_directory is not None:
            return self._given_directory
        self._temporary = Path(tempfile.mkdtemp(prefix="columnar-kafka-"))
        return self._temporary


def _replication(nodes: int) -> dict[str, str]:
    replicas, in_sync = str(min(_REPLICAS, nodes)), "2" if nodes >= _REPLICAS else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": bootstrap_servers,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 50,
            "log_level": 0,  # refused connections are expected while a node starts
        }
    )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _known_brokers(admin: AdminClient) -> set[int]:
    try:
        return set(admin.list_topics(timeout=1.0).brokers)
    except KafkaException:
        return set()


def _answers(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Say whether each leader knows of its leadership; metadata tells of it before."""
    wanted: dict[TopicPartition, OffsetSpec] = {
        TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
        for number in range(partitions)
    }
    try:
        for asked in admin.list_offsets(wanted, request_timeout=START_SECONDS).values():
            asked.result(START_SECONDS)
    except KafkaException:
        return False
    return True
