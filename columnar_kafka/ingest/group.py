"""A consumer group: who is a fixed member of it, and what it does, asked from Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaException

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka.admin import AdminClient

__all__ = ["GroupMember", "cluster_key", "is_rebalancing"]

_TIMEOUT: Final = 5.0
_REBALANCING: Final = (
    ConsumerGroupState.PREPARING_REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING,
)
_SERVERS: Final = ("bootstrap.servers", "metadata.broker.list")  # two names of one key


class GroupMember(NamedTuple):
    """A member that a group knows by its `group.instance.id`, of which it admits one."""

    cluster: frozenset[str]
    """See `cluster_key`."""

    group: str
    instance: str


def cluster_key(config: Mapping[str, Any]) -> frozenset[str]:
    """Return what is equal only for configurations of one cluster: its bootstrap servers.

    One cluster may be named in several ways, so it may also differ for them.
    """
    given = [config[key] for key in config if key in _SERVERS]
    return frozenset(map(str.strip, str(given[-1]).split(","))) if given else frozenset()


def is_rebalancing(admin: AdminClient, group: str) -> bool:
    """Return whether a group shares out its partitions; False if Kafka does not say so within 5 s.

    Blocks for a request to Kafka.
    """
    [asked] = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT).values()
    try:
        return asked.result().state in _REBALANCING
    except KafkaException:  # there is no such group yet, say
        return False
