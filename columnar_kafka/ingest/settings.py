"""What an `Ingestor` is told, checked once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.plan import Layout
from columnar_kafka.lake.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.model import LakeTable

__all__ = ["IngestSettings", "Start", "client_config"]

Start = Literal["earliest", "latest"]

_OWN: Final = {
    "enable.auto.commit": False,  # after the table's commit, by hand
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # the table says where to start; nothing is skipped
    "enable.partition.eof": True,  # the only sign that aborted messages at the end were read
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """How to read a topic, and when to commit.

    A commit is due when `roll_bytes` of segments are staged, or `roll_seconds` after the first one.
    `partitions` are fixed; without them a consumer group shares them out. `start` is where a
    partition begins of which the table has nothing. `allow_gaps` goes on where Kafka has deleted
    messages that had not landed. `topic_generation` stands for the ids of cluster and topic.
    `rules` say what may land.

    Raises:
        ConfigError: a value is not allowed.
    """

    partitions: tuple[int, ...] | None = None
    start: Start = "earliest"
    roll_bytes: int = 128 << 20
    roll_seconds: float = 60.0
    stop_at_end: bool = False
    allow_gaps: bool = False
    topic_generation: str | None = None
    layout: Layout = field(default_factory=Layout)
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        if self.start not in get_args(Start):
            raise ConfigError(f"start is {self.start!r}: it must be earliest or latest")
        if self.roll_bytes < 1 or self.roll_seconds <= 0:
            raise ConfigError("roll_bytes and roll_seconds must be positive")
        if self.partitions is not None and not self.partitions:
            raise ConfigError("partitions is empty: name some, or leave it out")


def client_config(config: Mapping[str, Any], topic: str, table: LakeTable) -> dict[str, Any]:
    """Return the consumer's configuration, by default with a group of this topic and table.

    In one group for two tables each table would get a part of the topic.

    Raises:
        ConfigError: a key contradicts what landing needs.
    """
    for key, value in _OWN.items():
        if key in config and config[key] not in (value, str(value).lower()):
            raise ConfigError(f"{key}={config[key]}: an ingestor needs {str(value).lower()}")
    for key, value in (
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("group.protocol", "consumer"),
    ):
        if config.get(key) == value:
            raise ConfigError(f"{key}={value}: an ingestor needs partitions assigned all at once")
    digest = hashlib.sha256(repr(table).encode()).hexdigest()[:8]
    group = f"columnar-kafka-ingest-{topic}-{digest}"
    return {"group.id": group, "isolation.level": "read_committed", **config, **_OWN}
