"""What a JSON object was that is a row and a rest now: written for tests, and slow."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.plain.lenient_leaves import shortest
from columnar_kafka.schema import RecordSchema
from columnar_kafka.segment.json_layout import JSON_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}


def footer_of(file: bytes) -> dict[str, Any] | None:
    """Return what a file's footer says of its rows as JSON."""
    text = (pq.read_metadata(io.BytesIO(file)).metadata or {}).get(JSON_KEY)
    return None if text is None else json.loads(text)


def made_again(schema: Any, row: Mapping[str, Any], footer: Mapping[str, Any]) -> Any:
    """Return the object of which a row was made, as Python's `json` reads it."""
    rest = row.get(footer.get("rest", ""))
    left = {} if rest is None else json.loads(rest)
    return _Maker(RecordSchema.parse(schema), footer).record(
        row, list(RecordSchema.parse(schema).arrow), left, ""
    )


class _Maker:
    def __init__(self, schema: RecordSchema, footer: Mapping[str, Any]) -> None:
        self._nulls = footer.get("nulls", [])
        self._texts = footer.get("texts", [])
        self._uuids = schema.uuids

    def record(self, members: Any, fields: list[pa.Field], left: Any, prefix: str) -> Any:
        made = {}
        for field in fields:
            name, path = field.name, f"{prefix}{field.name}"
            if members[name] is not None:
                made[name] = self.value(members[name], field.type, left.get(name), path)
            elif left.get(name) is not None:
                made[name] = left[name]
            elif (name in left) != (path in self._nulls):
                made[name] = None
        known = {field.name for field in fields}
        return made | {name: value for name, value in left.items() if name not in known}

    def value(self, value: Any, arrow: pa.DataType, left: Any, path: str) -> Any:
        left = {} if left is None else left
        if pa.types.is_struct(arrow):
            return self.record(value, list(arrow), left, f"{path}.")
        if pa.types.is_map(arrow):
            made = {
                name: self.item(item, arrow.item_type, left.get(name), f"{path}.value")
                for name, item in dict(value).items()
            }
            return made | {name: more for name, more in left.items() if name not in made}
        if isinstance(value, list):
            return [
                self.item(item, arrow.value_type, left.get(str(index)), f"{path}.item")
                for index, item in enumerate(value)
            ]
        if path in self._texts:
            return json.loads(value)
        return _leaf(value, arrow, is_uuid=path in self._uuids)

    def item(self, value: Any, arrow: pa.DataType, left: Any, path: str) -> Any:
        return left if value is None else self.value(value, arrow, left, path)


def _leaf(value: Any, arrow: pa.DataType, *, is_uuid: bool) -> Any:
    made = value
    if isinstance(value, bytes):
        made = str(uuid.UUID(bytes=value)) if is_uuid else base64.b64encode(value).decode()
    elif isinstance(value, float):
        made = float(shortest(value, arrow))
    elif isinstance(value, decimal.Decimal):
        made = json.loads(f"{value:f}")
    elif isinstance(value, datetime.timedelta):
        made = value // datetime.timedelta(microseconds=1) * _UNITS[arrow.unit] // 10**6
    elif isinstance(value, datetime.datetime) and value.tzinfo is not None:
        made = value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    elif isinstance(value, datetime.date | datetime.time):
        made = value.isoformat()
    return made
