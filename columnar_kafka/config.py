"""Configuration: this package's keys parsed once, all others handed to librdkafka untouched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from columnar_kafka.errors import ConfigError
from columnar_kafka.partitioner import PARTITIONERS
from columnar_kafka.position import MAX_ROWS

__all__ = ["METADATA_MEMBERS", "ConsumerConfig", "Limits", "ProducerConfig", "merge"]

METADATA_MEMBERS: Final = ("id", "key", "timestamp", "headers")
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ENCODINGS: Final = ("none", "parquet")
DECODES: Final = ("inline", "isolated")

T = TypeVar("T")
Config = Mapping[str, Any]

# librdkafka's own defaults and aliases, for the keys that also steer the buffer in front of it.
_MESSAGE_TIMEOUT: Final = ("message.timeout.ms", "delivery.timeout.ms")
_LINGER: Final = ("linger.ms", "queue.buffering.max.ms")
_IN_FLIGHT: Final = ("max.in.flight.requests.per.connection", "max.in.flight")
_ERRORS_ONLY: Final = "delivery.report.only.error"


def merge(args: Sequence[Any], kwargs: Config) -> dict[str, Any]:
    """Return the one configuration that confluent-kafka's constructor arguments amount to.

    Raises:
        TypeError: as confluent-kafka: nothing at all, more than one, or not a dict.
    """
    if len(args) > 1:
        raise TypeError("expected tuple containing single dict")
    if not (args or kwargs) or (args and not isinstance(args[0], dict)):
        raise TypeError("expected configuration dict")
    return {**(args[0] if args else {}), **kwargs}


def _integer(low: int, high: int) -> Callable[[str, Any], int]:
    def parse(key: str, value: Any) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = low - 1
        if isinstance(value, bool) or not low <= number <= high:
            raise ConfigError(f"{key}={value!r}: must be a whole number from {low} to {high}")
        return number

    return parse


def _number(low: float, high: float) -> Callable[[str, Any], float]:
    def parse(key: str, value: Any) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = low - 1
        if isinstance(value, bool) or not low <= number <= high:
            raise ConfigError(f"{key}={value!r}: must be a number from {low:g} to {high:g}")
        return number

    return parse


def _choice(*allowed: str) -> Callable[[str, Any], str]:
    def parse(key: str, value: Any) -> str:
        if value not in allowed:
            raise ConfigError(f"{key}={value!r}: must be one of {', '.join(allowed)}")
        return str(value)

    return parse


def _boolean(key: str, value: Any) -> bool:
    found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
    if found is None:
        raise ConfigError(f"{key}={value!r}: must be true or false")
    return found


def _members(key: str, value: Any) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else []
    if names == ["none"]:
        return ()
    if not names or len(set(names)) < len(names) or not set(names) <= set(METADATA_MEMBERS):
        allowed = ",".join(METADATA_MEMBERS)
        raise ConfigError(f"{key}={value!r}: must be none, or some of {allowed}, each once")
    return tuple(name for name in METADATA_MEMBERS if name in names)


class _Reader:
    """Reads keys out of one configuration; what is left over goes to librdkafka."""

    def __init__(self, config: Config) -> None:
        self._rest = dict(config)
        self.unread: ConfigError | None = None

    def own(self, key: str, default: Any, parse: Callable[[str, Any], T]) -> T:
        """Take one of this package's keys out."""
        return parse(key, self._rest.pop(key, default))

    def shared(self, keys: tuple[str, ...], default: Any, parse: Callable[[str, Any], T]) -> T:
        """Read one of librdkafka's keys, by any of its names, and leave it in.

        A value that is not allowed is for librdkafka to refuse; `unread` says so if it does not.
        """
        nested = self._rest.get("default.topic.config")
        for source in (self._rest, nested if isinstance(nested, Mapping) else {}):
            for key in keys:
                if source.get(key) is not None:
                    try:
                        return parse(key, source[key])
                    except ConfigError as error:
                        self.unread = error
        return parse(keys[0], default)

    def rest(self, own_keys: tuple[str, ...]) -> dict[str, Any]:
        """Return librdkafka's part.

        Raises:
            ConfigError: a ``columnar.`` key that does not exist.
        """
        for key in self._rest:
            if str(key).startswith("columnar."):
                raise ConfigError(f"{key}: no such key; there are {', '.join(own_keys)}")
        return self._rest


_PRODUCER_KEYS: Final = (
    "columnar.encoding",
    "columnar.encoding.compression",
    "columnar.segment.bytes",
    "columnar.segment.rows",
    "columnar.linger.ms",
    "columnar.metadata",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """A producer's settings; durations in seconds, sizes in bytes."""

    encoding: str
    compression: str
    segment_bytes: int
    segment_rows: int
    linger: float
    metadata: tuple[str, ...]
    partitioner: str
    message_timeout: float
    message_max_bytes: int
    batch_bytes: int
    queue_bytes: int
    queue_records: int | None
    metadata_refresh: float
    metadata_propagation: float
    transactional: bool
    on_delivery: Callable[..., Any] | None
    errors_only: bool
    unread: ConfigError | None = None
    """Why one of librdkafka's settings means nothing here, to be raised unless librdkafka does."""

    @classmethod
    def parse(cls, config: Config) -> tuple[ProducerConfig, dict[str, Any]]:
        """Return the settings, and the configuration for librdkafka.

        Raises:
            ConfigError: an unknown ``columnar.`` key, or a value that is not allowed.
        """
        read = _Reader(config)
        encoding = read.own("columnar.encoding", "none", _choice(*ENCODINGS))
        linger_ms = read.own("columnar.linger.ms", 1000, _number(0, 900_000))
        # librdkafka's own linger must not add to ours, nor leave so little that nothing fills.
        inner_linger_ms = read.shared(_LINGER, 5, _number(0, 900_000))
        parsed = cls(
            encoding=encoding,
            compression=read.own("columnar.encoding.compression", "zstd", _choice(*COMPRESSIONS)),
            segment_bytes=read.own(
                "columnar.segment.bytes", 900_000, _integer(1_000, 1_000_000_000)
            ),
            segment_rows=read.own("columnar.segment.rows", 100_000, _integer(1, MAX_ROWS)),
            linger=max(linger_ms - inner_linger_ms, linger_ms / 2) / 1000,
            metadata=read.own("columnar.metadata", ",".join(METADATA_MEMBERS), _members),
            partitioner=read.shared(
                ("partitioner",), "consistent_random", _choice(*sorted(PARTITIONERS))
            ),
            message_timeout=_timeout(read),
            message_max_bytes=read.shared(
                ("message.max.bytes",), 1_000_000, _integer(1_000, 1_000_000_000)
            ),
            batch_bytes=read.shared(("batch.size",), 1_000_000, _integer(1, 2_147_483_647)),
            queue_bytes=1024
            * read.shared(("queue.buffering.max.kbytes",), 1 << 20, _integer(1, 2_147_483_647)),
            queue_records=read.shared(
                ("queue.buffering.max.messages",), 0, _integer(0, 2_147_483_647)
            )
            or None,
            metadata_refresh=read.shared(
                ("topic.metadata.refresh.interval.ms",), 300_000, _integer(-1, 3_600_000)
            )
            / 1000,
            metadata_propagation=read.shared(
                ("topic.metadata.propagation.max.ms",), 30_000, _integer(0, 3_600_000)
            )
            / 1000,
            transactional=bool(config.get("transactional.id")),
            on_delivery=config.get("on_delivery"),
            errors_only=config.get(_ERRORS_ONLY) is True,  # confluent-kafka takes nothing else
            unread=read.unread,
        )
        rest = read.rest(_PRODUCER_KEYS)
        if encoding != "none" and parsed.message_timeout <= linger_ms / 1000:
            raise ConfigError(
                f"message.timeout.ms={parsed.message_timeout * 1000:g} must be longer than "
                f"columnar.linger.ms={linger_ms:g}: records would time out while they wait for "
                "their segment to fill"
            )
        idempotent = parsed.transactional or read.shared(("enable.idempotence",), False, _boolean)
        if encoding != "none" and idempotent and not set(_IN_FLIGHT) & set(rest):
            # A broker that knows nothing of a producer takes its second request although it has
            # refused the first, which librdkafka then reports as delivered: its records are lost.
            rest[_IN_FLIGHT[0]] = 1
        if encoding != "none" and parsed.errors_only:
            # A record's success is learned from its segment's report; who is told is ours to say.
            rest[_ERRORS_ONLY] = False
        return parsed, rest


def _timeout(read: _Reader) -> float:
    """Return message.timeout.ms in seconds; 0 means for ever, as in librdkafka."""
    ms = read.shared(_MESSAGE_TIMEOUT, 300_000, _integer(0, 2_147_483_647))
    return ms / 1000 if ms else float("inf")


_CONSUMER_KEYS: Final = (
    "columnar.encoding",
    "columnar.decode",
    "columnar.max.rows",
    "columnar.max.values",
    "columnar.max.decoded.bytes",
    "columnar.max.footer.bytes",
    "columnar.max.decode.ms",
    "fetch.raw.bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one segment may claim; the keys are ``columnar.max.`` and these names.

    A segment of 1 MB decodes to some 10 MB, in a few milliseconds.
    """

    rows: int = MAX_ROWS
    """Its records."""

    values: int = 1 << 24
    """The values of one column, a list's elements counted each."""

    decoded_bytes: int = 256 << 20
    """What its columns, or its schema, take in memory."""

    footer_bytes: int = 1 << 20
    """Its footer, about 200 bytes a column; in memory it takes 200 times that at worst."""

    decode_seconds: float = 10.0
    """How long decoding may take, when it is isolated."""

    @classmethod
    def parse(cls, read: _Reader) -> Limits:
        """Return the limits of a configuration."""
        big = _integer(1, 1 << 40)
        return cls(
            rows=read.own("columnar.max.rows", cls().rows, _integer(1, MAX_ROWS)),
            values=read.own("columnar.max.values", cls().values, big),
            decoded_bytes=read.own("columnar.max.decoded.bytes", cls().decoded_bytes, big),
            footer_bytes=read.own("columnar.max.footer.bytes", cls().footer_bytes, big),
            decode_seconds=read.own(
                "columnar.max.decode.ms", cls().decode_seconds * 1000, _number(1, 3_600_000)
            )
            / 1000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """A consumer's settings; durations in seconds."""

    encoding: str
    raw: bool
    isolated: bool
    limits: Limits
    auto_commit: bool
    auto_commit_interval: float
    auto_store: bool
    on_commit: Callable[..., Any] | None
    unread: ConfigError | None = None
    """As a producer's."""

    @property
    def unwraps(self) -> bool:
        """Whether segments are unwrapped into records."""
        return self.encoding != "none" and not self.raw

    @classmethod
    def parse(cls, config: Config) -> tuple[ConsumerConfig, dict[str, Any]]:
        """Return the settings, and the configuration for librdkafka.

        When segments are unwrapped, storing and committing offsets is this package's work:
        librdkafka commits a stored offset only when the *offset* grows, so it cannot carry rows.

        Raises:
            ConfigError: an unknown ``columnar.`` key, or a value that is not allowed.
        """
        read = _Reader(config)
        parsed = cls(
            encoding=read.own("columnar.encoding", "none", _choice(*ENCODINGS)),
            raw=read.own("fetch.raw.bytes", False, _boolean),
            isolated=read.own("columnar.decode", "inline", _choice(*DECODES)) == "isolated",
            limits=Limits.parse(read),
            auto_commit=read.shared(("enable.auto.commit",), True, _boolean),
            auto_commit_interval=read.shared(
                ("auto.commit.interval.ms",), 5_000, _integer(0, 86_400_000)
            )
            / 1000,
            auto_store=read.shared(("enable.auto.offset.store",), True, _boolean),
            on_commit=config.get("on_commit"),
            unread=read.unread,
        )
        rest = read.rest(_CONSUMER_KEYS)
        if parsed.unwraps:
            rest |= {"enable.auto.commit": False, "enable.auto.offset.store": False}
            # Some 64 segments fill librdkafka's queue: read in a tenth of a second they may be, and
            # it would look a second later.
            rest.setdefault("fetch.queue.backoff.ms", 50)
        return parsed, rest
