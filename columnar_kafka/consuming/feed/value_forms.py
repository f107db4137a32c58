"""What the values of records are: ``columnar.value.format``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.segment.segment import ValueForm

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

__all__ = ["VALUE_FORMS"]


def _json_values(columns: pa.Schema, said: Mapping[bytes, bytes], most: int) -> Any:
    module: Any = import_module("columnar_kafka.plain.json_values")  # the core does without
    return module.JsonValues.of(columns, said, most)


def _avro_values(columns: pa.Schema, said: Mapping[bytes, bytes], most: int) -> Any:
    module: Any = import_module("columnar_kafka.plain.avro_values")  # as above
    return module.AvroValues.of(columns, said, most)


VALUE_FORMS: Final[dict[str, ValueForm | None]] = {
    "rows": None,
    "named-rows": ValueForm("named rows", None, "named"),
    "json": ValueForm("json", _json_values),
    "avro": ValueForm("avro", _avro_values),
}
"""By the key's values; None: they are rows."""
