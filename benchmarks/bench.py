"""What a question is given: a Kafka of its own process, rounds, sizes and topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from columnar_kafka.local import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

_SHORTER = 50


class Bench:
    """The place and the settings of one run. A context manager; Kafka starts when it is needed."""

    def __init__(
        self, *, rounds: int, short: bool, say: Callable[[str], None], against: str = ""
    ) -> None:
        """Set up a run.

        Args:
            rounds: how often each competitor is measured.
            short: tiny sizes, to see that everything works.
            against: an earlier revision of this project, to compare with.
            say: told what is being measured.
        """
        self.rounds, self.short, self.say, self.against = rounds, short, say, against
        self._kafka: LocalKafka | None = None
        self._topics = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._kafka is not None:
            self._kafka.close()

    @property
    def kafka(self) -> LocalKafka:
        """A real Kafka: one broker, with its defaults for topics."""
        if self._kafka is None:
            self._kafka = LocalKafka(config={"auto.create.topics.enable": "false"})
            self._kafka.start()
        return self._kafka

    @property
    def servers(self) -> str:
        """The `bootstrap.servers` of every client."""
        return self.kafka.bootstrap_servers

    def rows(self, count: int, least: int = 100) -> int:
        """Return how many rows to send: `count`, or few in a short run."""
        return max(least, count // _SHORTER) if self.short else count

    def seconds(self, count: float) -> float:
        """Return how long to measure what takes its time."""
        return count / 10 if self.short else count

    def topic(self, partitions: int = 1) -> str:
        """Create a topic."""
        self._topics += 1
        name = f"topic-{self._topics}"
        self.kafka.create_topic(name, partitions, {"retention.ms": "-1"})
        return name

    def drop(self, *topics: str) -> None:
        """Delete topics, so that the page cache has the next ones."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        for deleted in admin.delete_topics(list(topics)).values():
            deleted.result(60)

    def log_bytes(self, topic: str) -> int:
        """Return how many bytes the broker's logs of a topic's partitions have."""
        data = Path(self.kafka.directory, "node-1", "data")
        return sum(path.stat().st_size for path in data.glob(f"{topic}-*/*.log"))
