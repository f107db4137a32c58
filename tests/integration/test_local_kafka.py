"""LocalKafka and EmbeddedKafka serve stock clients and leave nothing behind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from stock_clients import receive, send
from support import eventually, has_ended

from columnar_kafka.local import EmbeddedKafka, LocalKafka, LocalKafkaError
from columnar_kafka.local import kafka as local_kafka

if TYPE_CHECKING:
    from support import TopicFactory


HOLD_BOTH = """
import json, sys
sys.path.insert(0, {root!r})
from columnar_kafka.local import EmbeddedKafka, LocalKafka
with LocalKafka() as kafka, EmbeddedKafka() as embedded:
    pids = [kafka.nodes[0].pid, embedded.pid]
    print(json.dumps([pids, str(kafka.directory)]), flush=True)
    sys.stdin.read()
"""


@pytest.mark.kafka
def test_stock_clients_produce_and_consume(kafka: LocalKafka, topic: TopicFactory) -> None:
    name = topic()
    send(kafka, name, b"hello")
    assert receive(kafka, name, 1) == [b"hello"]


@pytest.mark.kafka
def test_a_topic_has_the_partitions_and_configuration_asked_for(kafka: LocalKafka) -> None:
    kafka.create_topic("configured", 3, {"retention.ms": "77"})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, "configured")
    config = admin.describe_configs([resource])[resource].result(60)
    assert config["retention.ms"].value == "77"
    assert len(admin.list_topics("configured", timeout=60).topics["configured"].partitions) == 3


@pytest.mark.kafka
def test_nothing_is_left_after_kill_9_of_the_process_that_started_them() -> None:
    program = HOLD_BOTH.format(root=str(Path(local_kafka.__file__).parents[2]))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        pids, directory = json.loads(starter.stdout.readline())
        assert not any(has_ended(pid) for pid in pids)
        starter.kill()
    eventually(lambda: all(has_ended(pid) for pid in pids))
    eventually(lambda: not Path(directory).exists())


@pytest.mark.kafka
def test_a_suspended_node_answers_nothing_until_it_is_resumed_and_can_be_closed() -> None:
    with LocalKafka() as kafka:
        node, directory = kafka.nodes[0], kafka.directory
        node.suspend()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.3)
        node.resume()
        assert admin.list_topics(timeout=60).brokers
        node.suspend()
    assert has_ended(node.pid)
    assert not directory.exists()


@pytest.mark.kafka
def test_a_stopped_node_has_shut_down_by_itself() -> None:
    with LocalKafka() as kafka:
        node = kafka.nodes[0]
        node.stop()
        assert not node.running
        assert (node.directory / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.kafka
def test_a_broker_that_cannot_start_is_an_error_with_its_log() -> None:
    kafka = LocalKafka(config={"num.io.threads": "many"})
    with pytest.raises(LocalKafkaError, match=r"Invalid value many for configuration num\.io"):
        kafka.start()
    assert kafka.nodes == []


@pytest.mark.kafka
def test_a_taken_port_is_replaced_by_another_and_nothing_is_left_after_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        numbers = [taken.getsockname()[1]]

        class Unlucky(local_kafka.Port):
            def __init__(self) -> None:
                super().__init__()
                self.number = numbers.pop() if numbers else self.number

        monkeypatch.setattr(local_kafka, "Port", Unlucky)
        with LocalKafka() as kafka:
            assert not numbers
            assert str(taken.getsockname()[1]) not in kafka.bootstrap_servers
            pid, directory = kafka.nodes[0].pid, kafka.directory
            assert not has_ended(pid)
            assert directory.exists()
    assert has_ended(pid)
    assert not directory.exists()
    kafka.close()


@pytest.mark.kafka
def test_a_given_directory_is_kept(tmp_path: Path) -> None:
    kafka = LocalKafka(directory=tmp_path / "kafka", config={"num.io.threads": "many"})
    with pytest.raises(LocalKafkaError), kafka:
        pass
    assert (tmp_path / "kafka" / "node-1" / "data" / "meta.properties").exists()


def test_the_embedded_kafka_serves_stock_clients(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("embedded")
    send(embedded, "embedded", b"hello")
    assert receive(embedded, "embedded", 1) == [b"hello"]


def test_the_embedded_kafka_has_the_partitions_and_brokers_asked_for() -> None:
    with EmbeddedKafka(nodes=3) as embedded:
        embedded.create_topic("five", 5)
        admin = AdminClient({"bootstrap.servers": embedded.bootstrap_servers, "log_level": 0})
        metadata = admin.list_topics("five", timeout=60)
        assert len(metadata.topics["five"].partitions) == 5
        assert len(metadata.brokers) == 3


def test_the_embedded_kafka_says_why_it_made_no_topic(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("twice")
    with pytest.raises(RuntimeError, match="'twice': Broker: Topic already exists"):
        embedded.create_topic("twice")


def test_the_embedded_kafka_is_gone_after_close() -> None:
    with EmbeddedKafka() as embedded:
        pid = embedded.pid
    assert has_ended(pid)
    embedded.close()
    with pytest.raises(RuntimeError, match="not started"):
        _ = embedded.bootstrap_servers
