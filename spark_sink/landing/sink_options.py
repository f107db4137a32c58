"""The options of the sink, by which it lands: ``table.`` and what follows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.config import Hidden, HiddenText
from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.formats import FORMATS, formats_with
from columnar_kafka.lake.options import LakeOptions, options_of
from columnar_kafka.lake.tables.files import hide_password
from spark_sink.shared_options import CATALOG, with_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.options import Option

__all__ = ["lake_key", "lake_options"]

_BOOLEANS: Final = {"true": True, "false": False}
_TERM: Final = re.compile(r"[^,()]+(?:\([^()]*\))?")


def lake_key(name: str) -> str:
    """Return how Spark spells an option of landing."""
    return f"table.{name.replace('_', '.')}"


def lake_options(options: Mapping[str, str]) -> LakeOptions:
    """Return the options of landing, whose keys begin with ``table.``.

    Raises:
        ConfigError: a value is not allowed, or the table's format has no such option.
    """
    unset = LakeOptions()
    given: dict[str, Any] = {}
    for name, option in options_of(LakeOptions):
        if isinstance(getattr(unset, name), Hidden):
            if pairs := with_prefix(options, f"{lake_key(name)}."):
                given[name] = pairs
        elif (text := options.get(lake_key(name))) is not None:
            given[name] = _parsed(lake_key(name), text, option, getattr(unset, name))
    lake = LakeOptions(**given)
    for name in given:
        formats = formats_with(name)
        if lake.format not in formats:
            kinds = f"for {' and '.join(formats)} tables"
            raise ConfigError(
                f'options "{CATALOG}*" are {kinds}'
                if name == "catalog"
                else f'option "{lake_key(name)}" is {kinds}'
            )
    if FORMATS[lake.format].has_catalog and not lake.catalog:
        raise ConfigError(f'an {lake.format} table needs options "{CATALOG}*": see docs/lake.md')
    return lake


def _parsed(key: str, text: str, option: Option, default: Any) -> Any:
    if option.least is not None:
        if not text.isdecimal() or int(text) < option.least:
            kind = "a positive number" if option.least else "a number"
            raise ConfigError(f'option "{key}" is {text!r}: it must be {kind}')
        return int(text)
    if option.choices and text not in option.choices:
        raise ConfigError(f'option "{key}" is {text!r}: it must be {" or ".join(option.choices)}')
    if isinstance(default, bool):
        if text not in _BOOLEANS:
            raise ConfigError(f'option "{key}" is {text!r}: it must be {" or ".join(_BOOLEANS)}')
        return _BOOLEANS[text]
    if isinstance(default, tuple):
        return tuple(_TERM.findall(text))
    if option.may_hide:
        return HiddenText(text)
    return hide_password(text) if option.is_place else text
