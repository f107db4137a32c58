"""The source's options, with the names and meanings of Spark's own ``kafka`` source. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError
from spark_sink import shared_options as opts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "EARLIEST",
    "LATEST",
    "Boundary",
    "Partition",
    "SourceMode",
    "SourceOptions",
    "Subscription",
    "partition_name",
]

Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""

EARLIEST: Final = -2
LATEST: Final = -1

OPTIONS: Final = (
    "assign",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "mode",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
_FOR_BATCHES: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_INTERNAL: Final = ("__consumer_offsets", "__share_group_state", "__transaction_state")
_SECONDS: Final = {
    "us": 1e-6,
    "ms": 1e-3,
    "": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def partition_name(partition: Partition) -> str:
    """Return how errors name a partition: ``topic[partition]``."""
    topic, number = partition
    return f"{topic}[{number}]"


class SourceMode(Enum):
    """What a row is: a Kafka message, a record in a segment, or a range of offsets."""

    SEGMENTS = "segments"
    RECORDS = "records"
    RANGES = "ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topics of a query: by name, by pattern, or as partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] | None = None

    def matches(self, topic: str) -> bool:
        """Whether the whole name of a topic matches the pattern; Kafka's own topics do not."""
        pattern = self.pattern or ""
        return topic not in _INTERNAL and re.fullmatch(pattern, topic) is not None


def _names(partitions: Collection[Partition]) -> str:
    return ", ".join(map(partition_name, sorted(partitions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Where a query starts or ends: `everywhere`, or in `each` partition.

    The values are offsets, -2 (earliest) or -1 (latest); or times in ms, if `by_time`. `option` is
    the option that says so. Where no message is so late, `unmatched` says what to do.
    """

    option: str
    everywhere: int | None = None
    each: Mapping[Partition, int] | None = None
    by_time: bool = False
    unmatched: str = "latest"

    def values(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Return the value for each partition.

        Raises:
            ConfigError: the option does not have exactly these partitions.
        """
        if self.each is None:
            assert self.everywhere is not None
            return dict.fromkeys(partitions, self.everywhere)
        missing, unknown = set(partitions) - set(self.each), set(self.each) - set(partitions)
        if missing:
            raise ConfigError(
                f'option "{self.option}" lacks {_names(missing)}: it must name all partitions'
                + ("" if self.by_time else ", with -2 for earliest and -1 for latest")
            )
        if unknown:
            raise ConfigError(
                f'option "{self.option}" names {_names(unknown)}, which the query does not read'
            )
        return self.each


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one query, checked. Times are in seconds."""

    mode: SourceMode
    subscription: Subscription
    starting: Boundary
    ending: Boundary
    config: Hidden
    fail_on_data_loss: bool
    headers: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay: float
    min_partitions: int | None
    max_records: int | None
    poll_timeout: float
    retries: int
    retry_interval: float

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
        """Check the options of a stream or of a batch query, or before it is known which (None).

        Raises:
            ConfigError: an option is missing, unknown, or has a value that is not allowed.
        """
        opts.refuse_unknown(options, OPTIONS)
        opts.required(options, "kafka.bootstrap.servers", "localhost:9092")
        for option in _FOR_BATCHES if streaming else ():
            if option in options:
                raise ConfigError(f'option "{option}" is for batch queries: a stream has no end')
        limits = {
            option: _number(options, option, low=1)
            for option in (
                "maxOffsetsPerTrigger",
                "minOffsetsPerTrigger",
                "minPartitions",
                "maxRecordsPerPartition",
            )
        }
        most, least = limits["maxOffsetsPerTrigger"], limits["minOffsetsPerTrigger"]
        if most is not None and least is not None and least > most:
            raise ConfigError(
                f'option "minOffsetsPerTrigger" is {least}, more than "maxOffsetsPerTrigger", '
                f"which is {most}"
            )
        return cls(
            mode=SourceMode(_one_of(options, "mode", [mode.value for mode in SourceMode])),
            subscription=_subscription(options),
            starting=_starting(options, streaming=streaming),
            ending=_ending(options),
            config=_client_config(options),
            fail_on_data_loss=_boolean(options, "failOnDataLoss"),
            headers=_boolean(options, "includeHeaders"),
            max_offsets=most,
            min_offsets=least,
            max_delay=_seconds(options, "maxTriggerDelay", "15m"),
            min_partitions=limits["minPartitions"],
            max_records=limits["maxRecordsPerPartition"],
            poll_timeout=_milliseconds(options, "kafkaConsumer.pollTimeoutMs", 120_000),
            retries=_or(_number(options, "fetchOffset.numRetries", low=0), 3),
            retry_interval=_milliseconds(options, "fetchOffset.retryIntervalMs", 10),
        )


# --- topics ---------------------------------------------------------------------------------------


def _subscription(options: Mapping[str, str]) -> Subscription:
    subscriptions = [
        subscription for subscription in _SUBSCRIPTIONS if options.get(subscription, "").strip()
    ]
    if len(subscriptions) != 1:
        names = ", ".join(f'"{name}"' for name in subscriptions) or "none"
        raise ConfigError(
            f'exactly one of "assign", "subscribe" and "subscribePattern" must be set, not {names}'
        )
    option = subscriptions[0]
    value = options[option].strip()
    if option == "subscribe":
        topics = [part.strip() for part in value.split(",")]
        return Subscription(topics=tuple(dict.fromkeys(topic for topic in topics if topic)))
    if option == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise ConfigError(
                f'option "subscribePattern" is {value!r}, which Python cannot read: {error}'
            ) from error
        return Subscription(pattern=value)
    example = '{"flights": [0, 1]}'
    partitions = _json(options, "assign", example)
    for numbers in partitions.values():
        if not isinstance(numbers, list) or not all(_is_offset(number, 0) for number in numbers):
            raise _refused(options, "assign", f"JSON such as {example}")
    return Subscription(
        topics=tuple(partitions),
        partitions={topic: tuple(sorted(set(numbers))) for topic, numbers in partitions.items()},
    )


# --- where to start and to end --------------------------------------------------------------------


def _starting(options: Mapping[str, str], *, streaming: bool | None) -> Boundary:
    strategy = _one_of(options, "startingOffsetsByTimestampStrategy", ["error", "latest"])
    if by_time := _by_time(options, "startingTimestamp", "startingOffsetsByTimestamp", strategy):
        return by_time
    boundary = _offsets(options, "startingOffsets", LATEST if streaming else EARLIEST)
    if streaming is False and _has(boundary, LATEST):
        raise _refused(options, boundary.option, 'earliest or offsets: a batch ends at "latest"')
    return boundary


def _ending(options: Mapping[str, str]) -> Boundary:
    if by_time := _by_time(options, "endingTimestamp", "endingOffsetsByTimestamp", "latest"):
        return by_time
    boundary = _offsets(options, "endingOffsets", LATEST)
    if _has(boundary, EARLIEST):
        raise _refused(options, boundary.option, 'latest or offsets: a batch starts at "earliest"')
    return boundary


def _has(boundary: Boundary, value: int) -> bool:
    return boundary.everywhere == value or value in (boundary.each or {}).values()


def _by_time(
    options: Mapping[str, str], everywhere: str, per_partition: str, unmatched: str
) -> Boundary | None:
    if everywhere in options:
        at = _number(options, everywhere, low=0)
        return Boundary(option=everywhere, everywhere=at, by_time=True, unmatched=unmatched)
    if per_partition in options:
        times = _each(options, per_partition, 0, '{"flights": {"0": 1700000000000}}')
        return Boundary(option=per_partition, each=times, by_time=True, unmatched=unmatched)
    return None


def _offsets(options: Mapping[str, str], option: str, default: int) -> Boundary:
    value = options.get(option, "").strip()
    named = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if value.lower() in named:
        return Boundary(option=option, everywhere=named[value.lower()])
    example = 'earliest, latest, or JSON such as {"flights": {"0": 23, "1": -2}}'
    return Boundary(option=option, each=_each(options, option, EARLIEST, example))


def _each(options: Mapping[str, str], option: str, low: int, example: str) -> dict[Partition, int]:
    """Return the values of ``{topic: {partition: value}}``."""
    values: dict[Partition, int] = {}
    for topic, partitions in _json(options, option, example).items():
        if not isinstance(partitions, dict):
            raise _refused(options, option, example)
        for number, value in partitions.items():
            if not number.isdecimal() or not _is_offset(value, low):
                raise _refused(options, option, example)
            values[topic, int(number)] = value
    return values


def _is_offset(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


# --- values ---------------------------------------------------------------------------------------


def _client_config(options: Mapping[str, str]) -> Hidden:
    group = options.get("groupIdPrefix", opts.GROUP)
    return Hidden({"group.id": group, **opts.consumer_config(options)})


def _json(options: Mapping[str, str], option: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(options[option])
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or not parsed:
        raise _refused(options, option, example)
    return parsed


def _number(options: Mapping[str, str], option: str, *, low: int) -> int | None:
    value = options.get(option)
    if value is None:
        return None
    text = value.strip()
    if not text.isdecimal() or int(text) < low:
        raise _refused(options, option, f"a number, {low} or more")
    return int(text)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _milliseconds(options: Mapping[str, str], option: str, default: int) -> float:
    return _or(_number(options, option, low=0), default) / 1000


def _seconds(options: Mapping[str, str], option: str, default: str) -> float:
    match = re.fullmatch(r"([0-9]+) *([a-z]*)", options.get(option, default).strip().lower())
    if match is None or match[2] not in _SECONDS:
        raise _refused(options, option, "a time such as 500ms, 30s, 15m or 1h")
    return int(match[1]) * _SECONDS[match[2]]


def _boolean(options: Mapping[str, str], option: str) -> bool:
    """Return a boolean; all of them are true unless they are set."""
    return _one_of(options, option, ["true", "false"]) == "true"


def _one_of(options: Mapping[str, str], option: str, allowed: list[str]) -> str:
    """Return one of the allowed values, the first unless it is set."""
    value = options.get(option, allowed[0]).strip().lower()
    if value not in allowed:
        raise _refused(options, option, " or ".join(allowed))
    return value


def _refused(options: Mapping[str, str], option: str, allowed: str) -> ConfigError:
    return ConfigError(f'option "{option}" is {options.get(option)!r}: it must be {allowed}')
