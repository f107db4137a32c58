"""`plain/reversible`, imported when a topic first gets values in JSON.

So a program does not wait for it that has none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from columnar_kafka.plain.reversible import FirstHabits, JsonColumns, Reversible

__all__ = ["FirstHabits", "JsonColumns", "Reversible"]


def __getattr__(name: str) -> Any:
    value = globals()[name] = getattr(import_module("columnar_kafka.plain.reversible"), name)
    return value
