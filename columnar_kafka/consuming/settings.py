"""A consumer's settings, parsed from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.config import (
    ENCODINGS,
    READ_FORMATS,
    Config,
    ConfigReader,
    ReadOptions,
    boolean,
    c_integer,
    choice,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from columnar_kafka.errors import ConfigError

__all__ = ["ClientSettings", "ConsumerConfig"]

DECODES: Final = ("inline", "isolated")

_CONSUMER_KEYS: Final = (
    "columnar.encoding",
    "columnar.decode",
    "columnar.value.format",
    "columnar.max.rows",
    "columnar.max.values",
    "columnar.max.decoded.bytes",
    "columnar.max.footer.bytes",
    "columnar.max.decode.ms",
    "fetch.raw.bytes",
)


class ConsumerConfig(NamedTuple):
    """A consumer's settings; durations in seconds."""

    encoding: str
    raw: bool
    isolated: bool
    value_format: str
    read_options: ReadOptions
    auto_commit: bool
    auto_commit_interval: float
    auto_store: bool
    on_commit: Callable[..., Any] | None
    deferred_error: ConfigError | None = None
    """The fault of a setting that librdkafka accepts and this package cannot use."""

    @property
    def unwraps(self) -> bool:
        """Whether segments are unwrapped into records."""
        return self.encoding != "none" and not self.raw

    @classmethod
    def parse(cls, config: Config) -> tuple[ConsumerConfig, dict[str, Any]]:
        """Return the settings, and the configuration for librdkafka.

        When segments are unwrapped, this package stores and commits offsets: librdkafka commits a
        stored offset only when the *offset* grows, so it cannot commit rows.

        Raises:
            ConfigError: an unknown ``columnar.`` key, or a value that is not allowed.
        """
        read = ConfigReader(config)
        parsed = cls(
            encoding=read.own("columnar.encoding", "none", choice(*ENCODINGS)),
            raw=read.own("fetch.raw.bytes", False, boolean),
            isolated=read.own("columnar.decode", "inline", choice(*DECODES)) == "isolated",
            value_format=read.own("columnar.value.format", "rows", choice(*READ_FORMATS)),
            read_options=ReadOptions.parse(read),
            auto_commit=read.shared(("enable.auto.commit",), True, boolean),
            auto_commit_interval=read.shared(
                ("auto.commit.interval.ms",), 5_000, c_integer(0, 86_400_000)
            )
            / 1000,
            auto_store=read.shared(("enable.auto.offset.store",), True, boolean),
            on_commit=config.get("on_commit"),
            deferred_error=read.deferred_error,
        )
        rest = read.rest(_CONSUMER_KEYS)
        if parsed.unwraps:
            rest |= {"enable.auto.commit": False, "enable.auto.offset.store": False}
            # About 64 segments fill librdkafka's fetch queue. They can be read in 0.1 s, and by
            # default it waits a second before it fetches again.
            rest.setdefault("fetch.queue.backoff.ms", 50)
        return parsed, rest


class ClientSettings(NamedTuple):
    """librdkafka's settings that matter here too; durations in seconds."""

    is_cooperative: bool
    """The group assigns and revokes partitions incrementally."""
    is_static: bool
    """The consumer stays a member of its group when it is closed."""
    partition_eof: bool
    """The end of a partition is an event."""
    max_poll_interval: float

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> ClientSettings:
        """Return the settings in a configuration that librdkafka has accepted."""
        read = ConfigReader(config)
        strategy = str(config.get("partition.assignment.strategy"))
        is_new_protocol = str(config.get("group.protocol")).lower() == "consumer"
        return cls(
            is_cooperative="cooperative" in strategy or is_new_protocol,
            is_static="group.instance.id" in config,
            partition_eof=read.shared(("enable.partition.eof",), False, boolean),
            max_poll_interval=read.shared(
                ("max.poll.interval.ms",), 300_000, c_integer(1, 86_400_000)
            )
            / 1000,
        )
