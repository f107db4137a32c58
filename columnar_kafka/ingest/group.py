"""What a consumer group does, asked from Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupState, KafkaException

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

__all__ = ["is_rebalancing"]

_TIMEOUT: Final = 5.0
_REBALANCING: Final = (
    ConsumerGroupState.PREPARING_REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING,
)


def is_rebalancing(admin: AdminClient, group: str) -> bool:
    """Return whether a group shares out its partitions; False if Kafka does not say so within 5 s.

    Blocks for a request to Kafka.
    """
    [asked] = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT).values()
    try:
        return asked.result().state in _REBALANCING
    except KafkaException:  # there is no such group yet, say
        return False
