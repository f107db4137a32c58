"""What reads values in JSON and in Avro, and asks registries, imported when a topic needs it.

So a program does not wait for it that has none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from columnar_kafka.plain.registering import Registries
    from columnar_kafka.plain.reversible import JsonColumns
    from columnar_kafka.plain.reversible_avro import AvroColumns

__all__ = ["AvroColumns", "JsonColumns", "Registries"]

_MODULES: Final = {
    "JsonColumns": "columnar_kafka.plain.reversible",
    "AvroColumns": "columnar_kafka.plain.reversible_avro",
    "Registries": "columnar_kafka.plain.registering",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value
