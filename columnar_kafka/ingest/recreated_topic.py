"""Notices that a topic was deleted and created again while it lands.

It has another id then, and its offsets mean other messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.ingest.topic_id import generation
from columnar_kafka.lake.model import TopicGeneration

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

__all__ = ["TopicIdentity"]


class TopicIdentity:
    """A topic's `generation` when this was made, and whether that has changed. For one thread."""

    def __init__(self, admin: AdminClient, topic: str, name: str | None) -> None:
        """Ask Kafka, unless the user gives the generation a `name`.

        Raises:
            KafkaException: as `generations`.
            ConfigError: Kafka does not report the topic's id.
        """
        self._admin = admin
        self._topic = topic
        self._name = name
        self.generation = self._ask()

    def check(self) -> None:
        """Check that the topic was not deleted and created again. Blocks for requests to Kafka.

        Raises:
            LakeError: it was.
            KafkaException, ConfigError: as when this was made.
        """
        if self._ask() != self.generation:
            raise LakeError(
                f"topic {self._topic!r} was deleted and created again: land it in another table"
            )

    def _ask(self) -> TopicGeneration:
        if self._name is not None:
            return TopicGeneration.named(self._name, self._topic)
        cluster, topic_id = generation(self._admin, self._topic)
        if topic_id is None:
            raise ConfigError(
                f"topic {self._topic!r}: Kafka does not report its id. Set topic_generation to a "
                "text that you change when the topic is created again"
            )
        return TopicGeneration(cluster, topic_id)
