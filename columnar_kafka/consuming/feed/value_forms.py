"""What the values of records are: ``columnar.value.format``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.segment.segment import ValueForm

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from columnar_kafka.segment.json_layout import JsonLayout

__all__ = ["VALUE_FORMS"]


def _json_values(
    columns: pa.Schema, layout: JsonLayout, most: int
) -> Callable[[dict[str, Any]], bytes]:
    module: Any = import_module("columnar_kafka.plain.json_values")  # the core does without
    values: Callable[[dict[str, Any]], bytes] = module.JsonValues(columns, layout, most)
    return values


VALUE_FORMS: Final[dict[str, ValueForm | None]] = {
    "rows": None,
    "json": ValueForm("json", _json_values),
}
"""By the key's values; None: they are dicts."""
