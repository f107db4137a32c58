"""`assembly`, imported when it is first used: most of this room comes with it.

So a program without a consumer that unwraps segments does not wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from columnar_kafka.consuming.assembly import assemble, guarded_callbacks

__all__ = ["assemble", "guarded_callbacks"]


def __getattr__(name: str) -> Any:
    value = globals()[name] = getattr(import_module("columnar_kafka.consuming.assembly"), name)
    return value
