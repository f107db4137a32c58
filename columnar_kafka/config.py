"""Configuration: this package's keys parsed once, all others handed to librdkafka untouched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from columnar_kafka.errors import ConfigError
from columnar_kafka.position import MAX_ROWS

__all__ = [
    "ENCODINGS",
    "METADATA_MEMBERS",
    "Config",
    "ConfigReader",
    "DecodeLimits",
    "boolean",
    "choice",
    "integer",
    "merge_arguments",
    "number",
]

METADATA_MEMBERS: Final = ("id", "key", "timestamp", "headers")
ENCODINGS: Final = ("none", "parquet")

T = TypeVar("T")
Config = Mapping[str, Any]


def merge_arguments(args: Sequence[Any], kwargs: Config) -> dict[str, Any]:
    """Return the one configuration that confluent-kafka's constructor arguments amount to.

    Raises:
        TypeError: as confluent-kafka: nothing at all, more than one, or not a dict.
    """
    if len(args) > 1:
        raise TypeError("expected tuple containing single dict")
    if not (args or kwargs) or (args and not isinstance(args[0], dict)):
        raise TypeError("expected configuration dict")
    return {**(args[0] if args else {}), **kwargs}


def integer(low: int, high: int) -> Callable[[str, Any], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def parse(key: str, value: Any) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = low - 1
        if isinstance(value, bool) or not low <= number <= high:
            raise ConfigError(f"{key}={value!r}: must be a whole number from {low} to {high}")
        return number

    return parse


def number(low: float, high: float) -> Callable[[str, Any], float]:
    """Return a parser of numbers from `low` to `high`."""

    def parse(key: str, value: Any) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = low - 1
        if isinstance(value, bool) or not low <= number <= high:
            raise ConfigError(f"{key}={value!r}: must be a number from {low:g} to {high:g}")
        return number

    return parse


def choice(*allowed: str) -> Callable[[str, Any], str]:
    """Return a parser of one of these words."""

    def parse(key: str, value: Any) -> str:
        if value not in allowed:
            raise ConfigError(f"{key}={value!r}: must be one of {', '.join(allowed)}")
        return str(value)

    return parse


def boolean(key: str, value: Any) -> bool:
    """Parse a boolean as librdkafka does."""
    found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
    if found is None:
        raise ConfigError(f"{key}={value!r}: must be true or false")
    return found


class ConfigReader:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLimits:
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
    def parse(cls, read: ConfigReader) -> DecodeLimits:
        """Return the limits of a configuration."""
        big = integer(1, 1 << 40)
        return cls(
            rows=read.own("columnar.max.rows", cls().rows, integer(1, MAX_ROWS)),
            values=read.own("columnar.max.values", cls().values, big),
            decoded_bytes=read.own("columnar.max.decoded.bytes", cls().decoded_bytes, big),
            footer_bytes=read.own("columnar.max.footer.bytes", cls().footer_bytes, big),
            decode_seconds=read.own(
                "columnar.max.decode.ms", cls().decode_seconds * 1000, number(1, 3_600_000)
            )
            / 1000,
        )
