"""The permissions that ingestion needs, on a Kafka that grants no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from lakes import DirectoryLake, rows
from secured import secured_kafka
from support import require_java

from columnar_kafka import Producer
from columnar_kafka.ingest import Ingestor, IngestSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_lander="secret" user_other="secret";'
    ),
}
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[LocalKafka, str]]:
    """A Kafka with a second listener for users, and that listener's address."""
    require_java()
    with secured_kafka(AUTHORIZER) as servers:
        yield servers


def allow(kafka: LocalKafka, topic: str, *, user: str, group: bool = True) -> None:
    """Grant a user what docs/service.md says."""
    granted = [(ResourceType.TOPIC, topic)] + [(ResourceType.GROUP, topic)] * group
    bindings = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for kind, name in granted
    ]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for acl in admin.create_acls(bindings).values():
        acl.result(120)


def land(address: str, topic: str, lake: DirectoryLake, user: str, **settings: Any) -> int:
    """Land what is in the topic, as that user; return the number of rows."""
    config = {
        "bootstrap.servers": address,
        "group.id": topic,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "secret",
    }
    chosen = IngestSettings(stop_at_end=True, **settings)
    return Ingestor(config, topic, lake.table(), chosen).run().rows


def send(kafka: LocalKafka, topic: str) -> None:
    kafka.create_topic(topic)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in range(3):
            producer.produce(topic, {"n": n})


@pytest.mark.parametrize("partitions", [None, (0,)])
def test_reading_the_topic_and_the_group_is_all_it_needs(secured, tmp_path, partitions) -> None:
    kafka, address = secured
    topic = f"allowed-{partitions is None}"
    send(kafka, topic)
    allow(kafka, topic, user="lander")
    lake = DirectoryLake(tmp_path / "lake")
    assert land(address, topic, lake, "lander", partitions=partitions) == 3
    assert rows(lake) == [0, 1, 2]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    group = ConsumerGroupTopicPartitions(topic)
    [future] = admin.list_consumer_group_offsets([group]).values()
    [committed] = future.result(120).topic_partitions
    assert committed.offset == 1


def test_without_the_topic_nothing_lands(secured, tmp_path) -> None:
    kafka, address = secured
    send(kafka, "denied")
    with pytest.raises(KafkaException, match="uthoriz"):
        land(address, "denied", DirectoryLake(tmp_path / "lake"), "other")


@pytest.mark.parametrize("partitions", [None, (0,)])
def test_without_the_group_nothing_lands(secured, tmp_path, partitions) -> None:
    kafka, address = secured
    topic = f"no-group-{partitions is None}"
    send(kafka, topic)
    allow(kafka, topic, user="other", group=False)
    with pytest.raises(KafkaException, match="Group authorization failed"):
        land(address, topic, DirectoryLake(tmp_path / "lake"), "other", partitions=partitions)
