"""`pyarrow.compute`, imported when it is first used, for it takes longer than most imports."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    value = globals()[name] = getattr(import_module("pyarrow.compute"), name)
    return value
