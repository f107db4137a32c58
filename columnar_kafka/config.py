"""Configuration: this package's keys are parsed once, and all others go to librdkafka unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from columnar_kafka.errors import ConfigError
from columnar_kafka.position import MAX_ROWS

__all__ = [
    "ENCODINGS",
    "METADATA_MEMBERS",
    "READ_FORMATS",
    "VALUE_FORMATS",
    "Arguments",
    "Config",
    "ConfigReader",
    "Hidden",
    "HiddenText",
    "ReadOptions",
    "boolean",
    "c_integer",
    "choice",
    "hidden",
    "integer",
    "number",
]

METADATA_MEMBERS: Final = ("id", "key", "timestamp", "headers")
ENCODINGS: Final = ("none", "parquet")
VALUE_FORMATS: Final = ("rows", "json", "avro")
READ_FORMATS: Final = (*VALUE_FORMATS, "named-rows")

T = TypeVar("T")
Config = Mapping[str, Any]


class Hidden(dict[str, Any]):
    """A configuration whose text shows its keys and no values: there may be passwords among them.

    Reports of crashes print local variables and attributes, so a configuration is kept as this.
    """

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self))}>"

    def copy(self) -> Hidden:
        """Return a copy, which shows no values either."""
        return Hidden(self)

    def __or__(self, other: Any) -> Any:
        merged = super().__or__(other)
        return merged if merged is NotImplemented else Hidden(merged)

    def __ror__(self, other: Any) -> Any:
        merged = super().__ror__(other)
        return merged if merged is NotImplemented else Hidden(merged)

    def key(self) -> Hashable:
        """Return what is equal for equal configurations, and shows no values either."""
        return _HiddenItems(self.items())


class _HiddenItems(frozenset[tuple[str, Any]]):
    def __repr__(self) -> str:
        return f"<{', '.join(sorted(key for key, _ in self))}>"


class HiddenText(str):
    """A text whose `repr` does not show it: there may be a password in it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"


class Arguments:
    """A function's arguments with secrets among them, which show no values.

    The function forgets its own before it uses them: an error's frames show what it has. Nor has
    this an attribute that shows them.
    """

    __slots__ = ("_given",)

    def __init__(self, args: Sequence[Any], kwargs: Config) -> None:
        self._given: Callable[[], tuple[Sequence[Any], Config]] = lambda: (args, kwargs)

    def passed_to(self, function: Callable[..., T]) -> T:
        """Call a function with them."""
        return function(*self._given()[0], **self._given()[1])

    def mapping(self) -> Hidden:
        """Return the only argument, which is a configuration.

        Raises:
            TypeError: it is something else.
        """
        if not isinstance(self._given()[0][0], Mapping):
            kind = type(self._given()[0][0]).__name__
            raise TypeError(f"expected a dict of keys and values, not a {kind}")
        return Hidden(self._given()[0][0])

    def merged(self) -> Hidden:
        """Return the configuration that a constructor has got: a dict, keywords, or both.

        Raises:
            TypeError: as confluent-kafka: no argument at all, more than one dict, or not a dict.
        """
        count = len(self._given()[0])
        if count > 1:
            raise TypeError("expected tuple containing single dict")
        if not (isinstance(self._given()[0][0], dict) if count else self._given()[1]):
            raise TypeError("expected configuration dict")
        return Hidden({**(self._given()[0][0] if count else {}), **self._given()[1]})


def hidden(config: Any) -> Any:
    """Return settings, or a client in their place; of settings, nothing shows their values."""
    return Hidden(config) if isinstance(config, Mapping) else config


def integer(low: int, high: int) -> Callable[[str, Any], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def parse(key: str, value: Any) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = low - 1
        if isinstance(value, bool) or not low <= number <= high:
            raise _not_whole(key, value, low, high)
        return number

    return parse


_C_INTEGER: Final = re.compile(
    r"\s*([+-]?(?:0x[0-9a-f]+|0[0-7]*|[0-9]+))", re.ASCII | re.IGNORECASE
)


def c_integer(low: int, high: int) -> Callable[[str, Any], int]:
    """Return a parser of whole numbers from `low` to `high`, for librdkafka's keys.

    It reads them as librdkafka does, with C's `strtol`: they may be hexadecimal or octal, and what
    follows the digits is ignored.
    """

    def parse(key: str, value: Any) -> int:
        match = _C_INTEGER.match(str(value))
        if match is None:
            raise _not_whole(key, value, low, high)
        digits = match[1].lstrip("+-").lower()
        base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
        number = int(match[1], base)
        if not low <= number <= high:
            raise _not_whole(key, value, low, high)
        return number

    return parse


def _not_whole(key: str, value: Any, low: int, high: int) -> ConfigError:
    return ConfigError(f"{key}={value!r}: must be a whole number from {low} to {high}")


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
    """Return a parser that accepts one of these words."""

    def parse(key: str, value: Any) -> str:
        if value not in allowed:
            raise ConfigError(f"{key}={value!r}: must be one of {', '.join(allowed)}")
        return str(value)

    return parse


def boolean(key: str, value: Any) -> bool:
    """Parse a boolean as librdkafka does."""
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    parsed = words.get(str(value).lower())
    if parsed is None:
        raise ConfigError(f"{key}={value!r}: must be true or false")
    return parsed


class ConfigReader:
    """Reads keys out of one configuration; the rest goes to librdkafka.

    Attributes:
        deferred_error: the error of a librdkafka key with a value that we cannot use, to be raised
            if librdkafka accepts that value; None if there is no such key.
    """

    def __init__(self, config: Config) -> None:
        self._rest = Hidden(config)
        self.deferred_error: ConfigError | None = None

    def own(self, key: str, default: Any, parse: Callable[[str, Any], T]) -> T:
        """Parse one of this package's keys, and take it out of the configuration.

        Raises:
            ConfigError: its value is not allowed.
        """
        return parse(key, self._rest.pop(key, default))

    def shared(self, keys: tuple[str, ...], default: Any, parse: Callable[[str, Any], T]) -> T:
        """Parse one of librdkafka's keys, by any of its names, and leave it in the configuration.

        librdkafka should refuse a value that is not allowed; in case it does not, the error is kept
        in `deferred_error`.
        """
        for source in self._sources():
            for key in keys:
                if source.get(key) is not None:
                    try:
                        return parse(key, source[key])
                    except ConfigError as error:
                        self.deferred_error = error
        return parse(keys[0], default)

    def set_default(self, keys: tuple[str, ...], value: Any) -> bool:
        """Set one of librdkafka's keys, unless the configuration has it by any of its names.

        Returns:
            Whether it was set.
        """
        is_missing = not any(key in source for source in self._sources() for key in keys)
        if is_missing:
            self._rest[keys[0]] = value
        return is_missing

    def _sources(self) -> tuple[Config, Config]:
        """Return where librdkafka's keys may be."""
        nested = self._rest.get("default.topic.config")
        return self._rest, nested if isinstance(nested, Mapping) else {}

    def rest(self, own_keys: tuple[str, ...]) -> dict[str, Any]:
        """Return librdkafka's part of the configuration.

        Raises:
            ConfigError: a ``columnar.`` key does not exist.
        """
        for key in self._rest:
            if str(key).startswith("columnar."):
                raise ConfigError(f"{key}: no such key; there are {', '.join(own_keys)}")
        return self._rest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """All that reading a segment or a plain message needs beside its bytes. Picklable.

    The limits say what one may claim; their keys are these names, with dots. A segment of 1 MB
    normally decodes to about 10 MB, in a few milliseconds.
    """

    max_rows: int = MAX_ROWS
    """The records in it."""

    max_values: int = 1 << 24
    """The values of one column; each element of a list counts."""

    max_decoded_bytes: int = 256 << 20
    """The memory of its columns, or of its schema."""

    max_footer_bytes: int = 1 << 20
    """Its footer: about 200 bytes a column, and in memory at worst 200 times its size."""

    max_decode_seconds: float = 10.0
    """The longest that decoding may take, if it is isolated; ``columnar.max.decode.ms``."""

    @classmethod
    def parse(cls, read: ConfigReader) -> ReadOptions:
        """Return the options of a configuration."""
        default, big = cls(), integer(1, 1 << 40)
        return cls(
            max_rows=read.own("columnar.max.rows", default.max_rows, integer(1, MAX_ROWS)),
            max_values=read.own("columnar.max.values", default.max_values, big),
            max_decoded_bytes=read.own(
                "columnar.max.decoded.bytes", default.max_decoded_bytes, big
            ),
            max_footer_bytes=read.own("columnar.max.footer.bytes", default.max_footer_bytes, big),
            max_decode_seconds=read.own(
                "columnar.max.decode.ms", default.max_decode_seconds * 1000, number(1, 3_600_000)
            )
            / 1000,
        )
