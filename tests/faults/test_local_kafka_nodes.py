"""Nodes of a LocalKafka that are killed, and start again."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from stock_clients import receive, send
from support import has_ended

from columnar_kafka.local import LocalKafka


@pytest.mark.kafka
def test_a_killed_node_comes_back_with_its_address_and_data() -> None:
    with LocalKafka() as kafka:
        node, servers = kafka.nodes[0], kafka.bootstrap_servers
        kafka.create_topic("kept")
        send(kafka, "kept", b"before the crash")
        crashed = node.pid
        node.kill()
        assert has_ended(crashed)
        assert not node.running
        node.start()
        assert receive(kafka, "kept", 1) == [b"before the crash"]
        assert kafka.bootstrap_servers == servers


@pytest.mark.kafka
def test_three_nodes_store_with_one_of_them_killed(kafka_cluster: LocalKafka) -> None:
    """Three replicas, two in sync are enough: acks=all works on while a node is down."""
    kafka_cluster.create_topic("replicated")
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers, "log_level": 0})
    partition = admin.list_topics("replicated", timeout=120).topics["replicated"].partitions[0]
    assert sorted(partition.replicas) == [1, 2, 3]
    follower = next(node for node in kafka_cluster.nodes if node.id != partition.leader)
    follower.kill()
    try:
        send(kafka_cluster, "replicated", b"stored by two")
        assert receive(kafka_cluster, "replicated", 1) == [b"stored by two"]
    finally:
        follower.start()
    assert all(node.running for node in kafka_cluster.nodes)
