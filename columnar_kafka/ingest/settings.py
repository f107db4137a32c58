"""What an `Ingestor` is told, checked once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.plan import Layout

if TYPE_CHECKING:
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = ["SESSION", "IngestSettings", "Start", "landing_config"]

Start: TypeAlias = Literal["earliest", "latest"] | datetime | Mapping[int, int]
"""An end of the topic, a time, or an offset for each partition."""

_OWN: Final = {
    "enable.auto.commit": False,  # after the table's commit, by hand
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # the table says where to start; nothing is skipped
    "enable.partition.eof": True,  # the only sign that aborted messages at the end were read
}

SESSION: Final = {
    # A process that was killed holds up its group for a session. One that is only slow loses
    # nothing to a short one: the table's fences keep what two have read from landing twice.
    "session.timeout.ms": 6_000,  # brokers allow no less by default
    "heartbeat.interval.ms": 1_000,  # by which the others learn that a session has ended
}
"""The session of a group's member, unless the user names one of these keys."""

_FETCHING: Final = {
    # What a commit is made of waits in the stager; librdkafka need not hold 64 MiB more of it, with
    # half as much again for small messages. It would let a queue that is full be for a second.
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 50,
}

_LIBRDKAFKAS: Final = {"session.timeout.ms": 45_000, "max.poll.interval.ms": 300_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """How to read a topic, and when to commit.

    A commit is due when `roll_bytes` of segments are staged, or `roll_seconds` after the first one.
    `partitions` are fixed; without them a consumer group shares them out. `start` is where a
    partition begins of which the table has nothing; a time means the first message that is not
    older. `end_offsets` is the offset before which each partition ends, `stop_at_end` the end that
    it has at the beginning. `allow_gaps` goes on where Kafka has deleted messages that had not
    landed. `topic_generation` stands for the ids of cluster and topic. `rules` say what may land.

    Raises:
        ConfigError: a value is not allowed.
    """

    partitions: tuple[int, ...] | None = None
    start: Start = "earliest"
    roll_bytes: int = 128 << 20
    roll_seconds: float = 60.0
    stop_at_end: bool = False
    end_offsets: Mapping[int, int] | None = None
    allow_gaps: bool = False
    topic_generation: str | None = None
    layout: Layout = field(default_factory=Layout)
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        if isinstance(self.start, str) and self.start not in ("earliest", "latest"):
            raise ConfigError(f"start is {self.start!r}: it must be earliest or latest")
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            raise ConfigError(f"start is {self.start}: it needs a time zone, as in {self.start}Z")
        if self.stop_at_end and self.end_offsets is not None:
            raise ConfigError("stop_at_end and end_offsets contradict each other: set only one")
        if self.roll_bytes < 1 or self.roll_seconds <= 0:
            raise ConfigError("roll_bytes and roll_seconds must be positive")
        if self.partitions is not None and not self.partitions:
            raise ConfigError("partitions is empty: name some, or leave it out")

    @property
    def ends(self) -> bool:
        """Whether a run ends by itself."""
        return self.stop_at_end or self.end_offsets is not None


def landing_config(config: Mapping[str, Any], topic: str, table: LakeTable) -> Hidden:
    """Return the consumer's configuration, by default with a group of this topic and table.

    In one group for two tables each table would get a part of the topic. A table's `repr` says
    where it is, by the path as it was given, or by its name and its catalog.

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
    session = {} if SESSION.keys() & config.keys() else SESSION
    _check_session(Hidden({**_LIBRDKAFKAS, **session, **config}))
    defaults = {"group.id": group, "isolation.level": "read_committed", **_FETCHING, **session}
    return Hidden({**defaults, **config, **_OWN})


def _check_session(config: Mapping[str, Any]) -> None:
    """Check what librdkafka checks: it names neither value, and the user may have set but one."""
    longest, session = config["max.poll.interval.ms"], config["session.timeout.ms"]
    try:
        is_shorter = int(longest) < int(session)
    except (TypeError, ValueError):
        return  # librdkafka says what is wrong with a value
    if is_shorter:
        raise ConfigError(
            f"max.poll.interval.ms={longest} is less than session.timeout.ms={session}: a commit "
            "may take as long as max.poll.interval.ms, and a session ends before that. Set "
            "max.poll.interval.ms to more, or session.timeout.ms to less"
        )
