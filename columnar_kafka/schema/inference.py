"""A schema that nobody wrote: of objects as JSON has them, from a sample."""

from __future__ import annotations

import decimal
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.arrow import KAFKA_COLUMN
from columnar_kafka.schema.avro_names import is_avro_name
from columnar_kafka.schema.observed_values import JSON_TEXT, Names, ObservedValues
from columnar_kafka.schema.record_schema import RecordSchema
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["MAX_COLUMNS", "FieldReport", "Inference", "schema_of"]

MAX_COLUMNS: Final = 1000
_MOST_NAMES: Final = 50_000
_SPARE_NAMES: Final = 10_000
"""So many names are told apart, each of which takes about a kilobyte."""
_LONGEST_NAME: Final = 255
_REFUSED: Final = re.compile(r"[\x00-\x1f ,;{}()=.\x7f]")
"""Delta's columns have none of these in their names, and a dot is a path to others."""
_ICEBERG: Final = re.compile(
    "_(file|pos|deleted|spec_id|partition|row_id|last_updated_sequence_number)", re.IGNORECASE
)
"""With a column of such a name Spark reads no row of an Iceberg table."""


class FieldReport(NamedTuple):
    """What was seen of a field, and the column that it has.

    Attributes:
        path: its name, after those of the objects that it is in, with dots between them; "item" is
            what a list holds, and "value" what a map does.
        column: the type of its column, with "record", "list" or "map" for one that has others
            inside; empty if it has none.
        types: how many values of each JSON type there were.
        missing: how many objects lacked it.
        note: why it has no column, or what was guessed.
    """

    path: str
    column: str
    types: Mapping[str, int]
    missing: int
    note: str


class Inference:
    """Guesses the schema of objects. For one thread.

    Every column may be null, and holds all values seen without a loss.
    """

    def __init__(
        self,
        *,
        times: bool = False,
        avro_names: bool = False,
        max_columns: int = MAX_COLUMNS,
        reserved: Iterable[str] = (),
        json_texts: bool = True,
    ) -> None:
        """Begin without objects.

        Args:
            times: texts that are all times in ISO 8601 make a column of times.
            avro_names: a field whose name Avro's specification forbids has no column.
            max_columns: the most columns, those inside others included; the first seen have them.
            reserved: names that no field outside of others has a column by.
            json_texts: values that contradict each other make a column of JSON text, not none.
        """
        names = Names(max(_MOST_NAMES, 2 * max_columns), Names(_SPARE_NAMES))
        self._root = ObservedValues(times=times, names=names)
        self._avro_names = avro_names
        self._max_columns = max_columns
        self._reserved = frozenset(map(str.casefold, reserved))
        self._makes_texts = json_texts
        self._left = max_columns
        self._reports: list[FieldReport] = []
        self._json_texts: set[str] = set()

    @property
    def reports(self) -> list[FieldReport]:
        """What was seen of each field, as `result` found it."""
        return self._reports

    @property
    def rows(self) -> int:
        """How many objects were added."""
        return self._root.objects

    def add(self, row: Mapping[str, Any]) -> None:
        """Count an object.

        Raises:
            TypeError: it is none, or has a value that JSON does not have.
        """
        if not hasattr(row, "items"):
            raise TypeError(f"a row is a JSON object, not {type(row).__name__}")
        self._root.add(row)

    def add_json(self, text: bytes | str, path: Iterable[str] = ()) -> bool:
        """Count an object in JSON, or the one below these names in it, and say if there is one."""
        try:
            row = json.loads(text, parse_float=decimal.Decimal, parse_constant=_refuse)
            for name in path:
                row = row[name]
            self.add(row)
        except (ValueError, TypeError, KeyError, RecursionError, decimal.InvalidOperation):
            return False
        return True

    def result(self) -> tuple[RecordSchema, list[FieldReport]]:
        """Return the schema, and what was seen of each field.

        Raises:
            SchemaError: nothing was seen that makes a column.
        """
        self._left, self._reports, self._json_texts = self._max_columns, [], set()
        fields = list(self._fields(self._root, ""))
        if not fields:
            raise SchemaError(f"{self.rows} rows have no field of a known type")
        texts = frozenset(self._json_texts)
        return RecordSchema(pa.schema(fields), json_texts=texts), self._reports

    def _fields(self, record: ObservedValues, prefix: str) -> Iterator[pa.Field]:
        taken: set[str] = set()
        for name, field in record.fields.items():
            missing = record.objects - sum(field.counts.values())
            fault = self._fault(name, taken, is_top=not prefix)
            made = self._field(field, name, f"{prefix}{name}", missing, fault)
            if made is not None:
                taken.add(name.casefold())
                yield made
        if record.others is not None:
            note = "there are too many names before"
            self._reports.append(FieldReport(f"{prefix}…", "", dict(record.others.counts), 0, note))

    def _fault(self, name: str, taken: set[str], *, is_top: bool) -> str:
        """Return why no column has this name, if none has."""
        is_long = not 0 < _bytes(name) <= _LONGEST_NAME
        if is_long or _REFUSED.search(name) or (is_top and _ICEBERG.fullmatch(name)):
            return "its name is not one that every table can have"
        if is_top and f"{name.casefold()}.".startswith(f"{KAFKA_COLUMN}."):
            return "its name is one of this package's own"
        if is_top and name.casefold() in self._reserved:
            return "its name is one that the table has for something else"
        if self._avro_names and not is_avro_name(name):
            return "its name is not one that Avro allows"
        if name.casefold() in taken:
            return "its name differs from another one's in case only"
        return ""

    def _field(
        self, seen: ObservedValues, name: str, path: str, missing: int, fault: str = ""
    ) -> pa.Field | None:
        """Return the field of the values at a path, if they have a column; report on it."""
        place = len(self._reports)
        arrow, note = (None, fault) if fault else self._type(seen, path)
        if arrow is None and not note:
            note = "nothing is known of its values yet"
        report = FieldReport(path, _shown(arrow, note), dict(seen.counts), missing, note)
        self._reports.insert(place, report)
        return None if arrow is None else pa.field(name, arrow)

    def _type(self, seen: ObservedValues, path: str) -> tuple[pa.DataType | None, str]:
        kind = seen.kind()
        if kind == "object":
            fields = list(self._fields(seen, f"{path}."))
            return (pa.struct(fields) if fields else None), ""
        if kind == "map":
            value = self._field(seen.merged_fields(), "value", f"{path}.value", 0)
            note = "the names of its fields are taken for data"
            return (None, "") if value is None else (pa.map_(pa.string(), value), note)
        if kind == "list":
            assert seen.item is not None
            item = self._field(seen.item, "item", f"{path}.item", 0)
            return (None if item is None else pa.list_(item)), ""
        if kind is None or (kind == JSON_TEXT and not self._makes_texts):
            return None, "its values contradict each other" if kind else ""
        if not self._left:
            return None, f"there are {self._max_columns} columns before it"
        self._left -= 1
        if is_text := kind == JSON_TEXT:
            self._json_texts.add(path)
        return (pa.string(), JSON_TEXT) if is_text else (kind, "")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _shown(arrow: pa.DataType | None, note: str) -> str:
    if arrow is None or note == JSON_TEXT:
        return "" if arrow is None else note
    kind = family(arrow)
    return {"struct": "record", "list": "list", "map": "map"}.get(kind or "", str(arrow))


def _bytes(name: str) -> int:
    """Return the bytes of a name in UTF-8; 0 if it has no such form."""
    try:
        return len(name.encode())
    except UnicodeEncodeError:
        return 0


def schema_of(rows: Iterable[Mapping[str, Any]], *, times: bool = False) -> pa.Schema:
    """Return a schema for rows like these, as `Producer.set_schema` takes it.

    A row has the values that JSON has: None, booleans, numbers, texts, lists and dicts of them. All
    columns may be null, and each holds all its values without a loss; values that contradict each
    other make a column of texts.

    Args:
        rows: a sample.
        times: texts that are all times in ISO 8601 make a column of times.

    Raises:
        SchemaError: nothing was seen that makes a column.
        TypeError: a row is not a dict, or has a value that JSON does not have.
    """
    inference = Inference(times=times)
    for row in rows:
        inference.add(row)
    return inference.result()[0].arrow
