"""`encoder` and `native_encoder`, imported when a topic first gets a schema.

So a program does not wait for them that only consumes, or has no schema yet.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from columnar_kafka.segment.encoder import ParquetEncoder, check_can_be_written
    from columnar_kafka.segment.native_encoder import native_encoder

__all__ = ["ParquetEncoder", "check_can_be_written", "native_encoder"]


def __getattr__(name: str) -> Any:
    module = "columnar_kafka.segment.encoder"
    if name == "native_encoder":
        module = "columnar_kafka.segment.native_encoder"
    value = globals()[name] = getattr(import_module(module), name)
    return value
