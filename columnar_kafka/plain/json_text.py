"""JSON text as it stands: objects whose numbers keep their digits, and text of them again."""

from __future__ import annotations

import decimal
import json
import re
from collections import Counter
from typing import Any, Final, NoReturn

from columnar_kafka.columns.from_rows.accepted_types import show
from columnar_kafka.errors import RowError

__all__ = [
    "MOST_LEVELS",
    "Number",
    "exact",
    "integer",
    "parse",
    "parse_value",
    "refuse_constant",
    "shown",
    "text_of",
]

MOST_LEVELS: Final = 200
"""How deep objects and lists may be nested."""
_SHORT_NUMBER: Final = 18
"""The exponent of a number of so many characters is one that a `Decimal` has."""
_MOST_DIGITS: Final = 4000  # more Python may refuse to read as an integer
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class Number(str):
    """The text of a number."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str.__str__(self)

    @property
    def is_whole(self) -> bool:
        """Whether it is written as an integer."""
        return self.lstrip("-").isdigit()

    @property
    def python(self) -> Any:
        """The number as Python's `json` reads it, which may lose digits."""
        if not self.is_whole:
            return float(self)
        return integer(self)


def shown(value: Any) -> str:
    """Return a parsed value for a message, as `show` shows what Python has for it."""
    return show(value.python if type(value) is Number else value)


def parse(value: bytes) -> dict[str, Any]:
    """Return a message's object; its numbers are `Number`s.

    Raises:
        RowError: as `parse_value`; or it is another value.
    """
    parsed = parse_value(value)
    if type(parsed) is not dict:
        raise RowError(f"it is {shown(parsed)}, not a JSON object")
    return parsed


def parse_value(value: bytes) -> Any:
    """Return any value of JSON; its numbers are `Number`s.

    Raises:
        RowError: it is no JSON; an object in it repeats a name, or it is nested more deeply than
            `MOST_LEVELS`.
    """
    try:
        parsed: Any = _DECODER.decode(value.decode())
    except RowError:
        raise
    except ValueError as error:
        raise RowError(f"it is not JSON: {error}") from error
    except RecursionError:
        raise RowError(_TOO_DEEP) from None
    if value.count(b"{") + value.count(b"[") > MOST_LEVELS:
        _check_levels(parsed)
    return parsed


def integer(text: str) -> int | decimal.Decimal:
    """Return a number that is written as an integer."""
    return int(text) if len(text) < _MOST_DIGITS else decimal.Decimal(text)


def exact(text: str) -> decimal.Decimal:
    """Return a number with all its digits. Raises ValueError."""
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:  # is no ValueError
        raise ValueError(f"{text[:40]} has an exponent that no decimal has") from None


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which Python's `json` takes."""
    raise ValueError(f"{name} is no number in JSON")


def text_of(value: Any) -> str:
    """Return a parsed value as compact JSON, in which only what has to be is escaped.

    Raises:
        RowError: Python's stack ends before the value does.
    """
    try:
        return _text(value)
    except RecursionError:
        raise RowError(_TOO_DEEP) from None


def _text(value: Any) -> str:
    if type(value) is dict:
        return f"{{{','.join(f'{_quoted(name)}:{_text(part)}' for name, part in value.items())}}}"
    if type(value) is list:
        return f"[{','.join(map(_text, value))}]"
    if type(value) is str:
        return _quoted(value)
    return _CONSTANTS[value] if value is None or type(value) is bool else str(value)


_CONSTANTS: Final = {None: "null", True: "true", False: "false"}
_TOO_DEEP: Final = f"it is nested more than {MOST_LEVELS} levels deep"


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() else _SURROGATES.sub(_escaped, quoted)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in members if counts[name] > 1)
        raise RowError(f"an object in it has the name {show(twice)} more than once")
    return members


def _fraction(text: str) -> Number:
    if len(text) > _SHORT_NUMBER:
        exact(text)
    return Number(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=Number,
    parse_float=_fraction,
    parse_constant=refuse_constant,
)


def _check_levels(parsed: Any) -> None:
    level, levels = [parsed], 0
    while level := [part for part in level if type(part) in (dict, list)]:
        levels += 1
        if levels > MOST_LEVELS:
            raise RowError(_TOO_DEEP)
        level = [
            inner for part in level for inner in (part.values() if type(part) is dict else part)
        ]
