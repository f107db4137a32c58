"""A producer's settings, parsed from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.config import (
    ENCODINGS,
    METADATA_MEMBERS,
    VALUE_FORMATS,
    Config,
    ConfigReader,
    boolean,
    c_integer,
    choice,
    integer,
    number,
)
from columnar_kafka.errors import ConfigError
from columnar_kafka.position import MAX_ROWS
from columnar_kafka.producing.partitioner import PARTITIONERS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ProducerConfig"]

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# librdkafka's own defaults and aliases, for the keys that also steer the buffer in front of it.
_MESSAGE_TIMEOUT: Final = ("message.timeout.ms", "delivery.timeout.ms")

_LINGER: Final = ("linger.ms", "queue.buffering.max.ms")
_INNER_LINGER_MS: Final = 5

_IN_FLIGHT: Final = ("max.in.flight.requests.per.connection", "max.in.flight")

_COMPRESSION: Final = ("compression.type", "compression.codec")
_LEVEL: Final = ("compression.level",)

_ERRORS_ONLY: Final = "delivery.report.only.error"

_PRODUCER_KEYS: Final = (
    "columnar.encoding",
    "columnar.encoding.compression",
    "columnar.segment.bytes",
    "columnar.segment.rows",
    "columnar.linger.ms",
    "columnar.metadata",
    "columnar.schema",
    "columnar.schema.max.columns",
    "columnar.schema.topics",
    "columnar.value.format",
    "columnar.value.fields",
    "columnar.value.misfit",
    "columnar.value.rest.column",
)


def _members(key: str, value: Any) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else []
    if names == ["none"]:
        return ()
    if not names or len(set(names)) < len(names) or not set(names) <= set(METADATA_MEMBERS):
        allowed = ",".join(METADATA_MEMBERS)
        raise ConfigError(f"{key}={value!r}: must be none, or some of {allowed}, each once")
    return tuple(name for name in METADATA_MEMBERS if name in names)


def _schemas(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(topic, str) for topic in value):
        raise ConfigError(f"{key} must be a dict of topics and their schemas, not {value!r}")
    return dict(value)


def _column(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{key}={value!r}: must be the name of a column")
    return value


def _guess(key: str, value: Any) -> bool:
    if value not in (None, "infer"):
        raise ConfigError(f"{key}={value!r}: must be infer, or left out for topics with set_schema")
    return value is not None


def _compresses(_: str, value: Any) -> bool:
    return str(value).lower() not in ("none", "inherit")


class ProducerConfig(NamedTuple):
    """A producer's settings; durations in seconds, sizes in bytes."""

    encoding: str
    compression: str
    messages_are_compressed: bool
    segment_bytes: int
    segment_rows: int
    linger: float
    metadata: tuple[str, ...]
    infers: bool
    max_columns: int
    schemas: Mapping[str, Any]
    value_format: str
    value_fields: str
    value_misfit: str
    rest_column: str
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
    deferred_error: ConfigError | None = None
    """Why a setting of librdkafka's cannot be read here; raised unless librdkafka raises first."""

    @classmethod
    def parse(cls, config: Config) -> tuple[ProducerConfig, dict[str, Any]]:
        """Return the settings, and the configuration that librdkafka gets.

        Raises:
            ConfigError: an unknown ``columnar.`` key, or a value that is not allowed.
        """
        read = ConfigReader(config)
        encoding = read.own("columnar.encoding", "none", choice(*ENCODINGS))
        linger_ms = read.own("columnar.linger.ms", 1000, number(0, 900_000))
        # librdkafka's own linger must not add to ours, nor leave so little that nothing fills.
        short_ms = min(_INNER_LINGER_MS, linger_ms / 10)
        if encoding != "none" and read.set_default(_COMPRESSION, "zstd"):
            # The values are compressed already: a higher level doubles the CPU, for 4 % of bytes.
            read.set_default(_LEVEL, 1)
        inner_linger_ms = read.shared(_LINGER, short_ms, number(0, 900_000))
        parsed = cls(
            encoding=encoding,
            compression=read.own("columnar.encoding.compression", "zstd", choice(*COMPRESSIONS)),
            messages_are_compressed=read.shared(_COMPRESSION, "none", _compresses),
            segment_bytes=read.own(
                "columnar.segment.bytes", 900_000, integer(1_000, 1_000_000_000)
            ),
            segment_rows=read.own("columnar.segment.rows", 100_000, integer(1, MAX_ROWS)),
            linger=max(linger_ms - inner_linger_ms, linger_ms / 2) / 1000,
            metadata=read.own("columnar.metadata", ",".join(METADATA_MEMBERS), _members),
            infers=read.own("columnar.schema", None, _guess),
            max_columns=read.own("columnar.schema.max.columns", 200, integer(1, 10_000)),
            schemas=read.own("columnar.schema.topics", {}, _schemas),
            value_format=read.own("columnar.value.format", "rows", choice(*VALUE_FORMATS)),
            value_fields=read.own("columnar.value.fields", "lenient", choice("lenient", "exact")),
            value_misfit=read.own("columnar.value.misfit", "plain", choice("plain", "raise")),
            rest_column=read.own("columnar.value.rest.column", "_rest", _column),
            partitioner=read.shared(
                ("partitioner",), "consistent_random", choice(*sorted(PARTITIONERS))
            ),
            message_timeout=_timeout(read),
            message_max_bytes=read.shared(
                ("message.max.bytes",), 1_000_000, c_integer(1_000, 1_000_000_000)
            ),
            batch_bytes=read.shared(("batch.size",), 1_000_000, c_integer(1, 2_147_483_647)),
            queue_bytes=1024
            * read.shared(("queue.buffering.max.kbytes",), 1 << 20, c_integer(1, 2_147_483_647)),
            queue_records=read.shared(
                ("queue.buffering.max.messages",), 0, c_integer(0, 2_147_483_647)
            )
            or None,
            metadata_refresh=read.shared(
                ("topic.metadata.refresh.interval.ms",), 300_000, c_integer(-1, 3_600_000)
            )
            / 1000,
            metadata_propagation=read.shared(
                ("topic.metadata.propagation.max.ms",), 30_000, c_integer(0, 3_600_000)
            )
            / 1000,
            transactional=bool(config.get("transactional.id")),
            on_delivery=config.get("on_delivery"),
            errors_only=config.get(_ERRORS_ONLY) is True,  # confluent-kafka takes nothing else
            deferred_error=read.deferred_error,
        )
        rest = read.rest(_PRODUCER_KEYS)
        if parsed.infers and (parsed.value_format, parsed.value_fields) != ("json", "lenient"):
            raise ConfigError(
                "columnar.schema=infer needs columnar.value.format=json, whose values it is "
                "inferred from, and columnar.value.fields=lenient: what is new in them later goes "
                "to the rest first"
            )
        if encoding != "none" and parsed.message_timeout <= linger_ms / 1000:
            raise ConfigError(
                f"message.timeout.ms={parsed.message_timeout * 1000:g} must be longer than "
                f"columnar.linger.ms={linger_ms:g}: records would time out while they wait for "
                "their segment to fill"
            )
        if encoding != "none":
            asked = parsed.transactional or read.shared(("enable.idempotence",), False, boolean)
            _adapt(read, idempotent=asked, linger_ms=short_ms)
            if parsed.errors_only:
                # A record's success is known from its segment's report. Callbacks are filtered.
                rest[_ERRORS_ONLY] = False
        return parsed, rest


def _adapt(read: ConfigReader, *, idempotent: bool, linger_ms: float) -> None:
    """Change librdkafka's defaults, where a buffer stands in front of it."""
    if idempotent:
        # A broker that has not heard of a producer yet accepts its second request even if it has
        # rejected the first. librdkafka then reports the first as delivered: its records are lost.
        read.set_default(_IN_FLIGHT, 1)
    if linger_ms < _INNER_LINGER_MS:
        read.set_default(_LINGER, linger_ms)


def _timeout(read: ConfigReader) -> float:
    """Return message.timeout.ms in seconds; 0 means for ever, as in librdkafka."""
    ms = read.shared(_MESSAGE_TIMEOUT, 300_000, c_integer(0, 2_147_483_647))
    return ms / 1000 if ms else float("inf")
