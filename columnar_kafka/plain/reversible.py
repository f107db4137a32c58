"""JSON objects → columns and a rest of which equal objects can be made again: bytes in, bytes out.

What a lake takes and would be written otherwise does not fit here: a number for a time, a decimal
as text, a number whose digits Python's `json` would tell apart. It goes to the rest, as what does
not fit a column at all.

There are many forms of ISO 8601, but those of one field are mostly the same: the first times of a
column say in which all are written again, and others go to the rest.

An absent field and a null are told apart. For each field that may be null, null in its column says
what the first of the two was that came: the other one stands in the rest of its row, as null at the
field's place. Null in a list or map is the message's own.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

from columnar_kafka import native
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.native_format import NotNativeError
from columnar_kafka.errors import RowError
from columnar_kafka.plain.json_text import Number, parse, shown, text_of
from columnar_kafka.plain.lenient import Lenient
from columnar_kafka.plain.lenient_rows import Fit, Fits, leaf_paths, with_rest
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import refuse_unions
from columnar_kafka.segment.json_layout import JsonLayout
from columnar_kafka.segment.time_form import TimeForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.native import _core as core
    from columnar_kafka.schema import RecordSchema

__all__ = ["FirstHabits", "Habits", "JsonColumns", "Reversible"]

_EXACT: Final = float(1 << 53)
"""Doubles below have all integers."""
_ROW_BYTES: Final = 256  # as `RowColumns.take` counts
_VALUE_BYTES: Final = 40

_TIMES: Final = frozenset({"time", "timestamp", "local timestamp"})


class Habits(Protocol):
    """How a topic's objects say what columns do not: the first ones decide. For any thread.

    A field's place is that among `JsonColumns.nullable`, a leaf's that among all.
    """

    def says_null(self, place: int, is_null: bool) -> bool:
        """Return whether it says null, and not absent; if nothing is said yet, `is_null` counts."""
        ...

    def nulls(self) -> list[int]:
        """Return the places of those that say null."""
        ...

    def takes_time(self, leaf: int, seen: TimeForm) -> bool:
        """Return whether a time that tells this is in a leaf's form, or could be: then it is."""
        ...

    def time_forms(self) -> Iterable[tuple[int, Any]]:
        """Return the forms of the times that have been seen, with the places of their leaves."""
        ...


class FirstHabits:
    """`Habits` in Python."""

    def __init__(self) -> None:
        self._said: dict[int, bool] = {}
        self._forms: dict[int, TimeForm] = {}
        self._lock = threading.Lock()

    def says_null(self, place: int, is_null: bool) -> bool:
        """See `Habits`."""
        return self._said.setdefault(place, is_null)

    def nulls(self) -> list[int]:
        """See `Habits`."""
        return [place for place, is_null in list(self._said.items()) if is_null]

    def takes_time(self, leaf: int, seen: TimeForm) -> bool:
        """See `Habits`."""
        with self._lock:
            joined = self._forms.get(leaf, seen).joined(seen)
            if joined is not None:
                self._forms[leaf] = joined
            return joined is not None

    def time_forms(self) -> list[tuple[int, TimeForm]]:
        """See `Habits`."""
        return list(self._forms.items())


class JsonColumns:
    """The columns of JSON objects: those of a schema, and one for the rest."""

    def __init__(
        self, schema: RecordSchema, rest_column: str | None, *, is_inferred: bool = False
    ) -> None:
        """Describe them; with None for the rest's column, objects may not differ.

        Files say if the schema `is_inferred`.

        Raises:
            SchemaError: the schema has a field of that name, or a union.
        """
        refuse_unions(schema.arrow, "JSON")
        self.schema = schema
        self.rest_column = rest_column
        self.is_inferred = is_inferred
        self.records = schema if rest_column is None else with_rest(schema, rest_column)
        self.nullable = list(dict.fromkeys(nullable_paths(schema.arrow)))
        """The paths of the fields that may be null; a field's place is that among them."""
        self.leaves = list(leaf_paths(schema.arrow))
        """The paths of all leaves."""

    def reader(self, habits: Habits | None) -> Reversible:
        """Return what reads objects in Python; it decides by itself, unless `habits` do."""
        return Reversible(self, habits or FirstHabits())

    def read_natively(self, rows: core.RowFormat) -> None:
        """Have the native core read objects into its columns; it decides what null says, too.

        Raises:
            NotNativeError: it cannot.
        """
        arrow, paths = self.schema.arrow, self.leaves
        if any(json.dumps(path, ensure_ascii=False) != f'"{path}"' for path in paths):
            raise NotNativeError("it writes names as they are, without the escapes that JSON wants")
        if len(self.nullable) < len(list(nullable_paths(arrow))):
            raise NotNativeError("two of its fields have one path")
        texts = [place for place, path in enumerate(paths) if path in self.schema.json_texts]
        native.core.read_json(rows, self.rest_column is not None, texts)


class Reversible:
    """How JSON objects, and rows, become rows of columns and a rest. For any thread."""

    value_format: Final = "json"

    def __init__(self, columns: JsonColumns, habits: Habits) -> None:
        """Decode objects.

        Raises:
            SchemaError: the schema has a map whose keys are no texts.
        """
        self.schema = schema = columns.schema
        self.is_inferred = columns.is_inferred
        self._rest = columns.rest_column
        self._habits = habits
        self._paths = columns.nullable
        self._says = says = _Says(columns, habits)
        fits = _ReversibleFits(schema, says, has_rest=self.has_rest)
        self._row = fits.record(list(schema.arrow), "")
        self._nulls_of = _nulls_left(list(schema.arrow), "", says)
        self._taken = RowColumns(schema)

    def taken(self, value: bytes) -> tuple[RowValues, int]:
        """Return the row of a value as `RowColumns.take` does, and the most bytes that it holds.

        Raises:
            RowError: it is no JSON object, or one that does not fit.
        """
        values, left = self._row(parse(value))
        nbytes = _ROW_BYTES + _VALUE_BYTES * (value.count(b",") + len(values))
        nbytes += len(value) if value.isascii() else 4 * len(value)
        return self._with_rest(values, left), nbytes

    def take(self, row: Any) -> tuple[RowValues, int]:
        """Return a row as `RowColumns.take` does. Raises as that."""
        values, nbytes = self._taken.take(row)
        left = None if self._rest is None else self._nulls_of(values)
        return self._with_rest(values, left), nbytes

    @property
    def has_rest(self) -> bool:
        """Whether there is a column of the rest."""
        return self._rest is not None

    def _with_rest(self, values: RowValues, left: Any) -> RowValues:
        if self._rest is None:
            return values
        return (*values, None if left is None else text_of(left))

    def row(self, values: RowValues) -> Any:
        """Return what `take` has returned as a row, which `take` accepts again."""
        return self._taken.row(values if self._rest is None else values[:-1])

    def is_like(self, columns: Any) -> bool:
        """Say whether objects become the same rows by these columns, which have equal types."""
        return True

    def footer(self, *, says_null: bool) -> dict[str, bytes]:
        """Return the key-value pair of a file's footer; `says_null`: every null in it says null."""
        said = self._paths if says_null else [self._paths[place] for place in self._habits.nulls()]
        texts, uuids = self.schema.json_texts, self.schema.uuids
        times, inferred = self._says.times(), self.is_inferred
        return JsonLayout(self._rest, frozenset(said), texts, uuids, times, inferred).footer()


def nullable_paths(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    """Yield the paths of the fields that may be null, of objects at any depth, in their order."""
    for field in fields:
        path = f"{prefix}{field.name}"
        if field.nullable:
            yield path
        yield from _paths_inside(field.type, path)


def _paths_inside(arrow: pa.DataType, path: str) -> Iterator[str]:
    kind = family(arrow)
    if kind == "struct":
        yield from nullable_paths(arrow, f"{path}.")
    elif kind == "map":
        yield from _paths_inside(arrow.item_type, f"{path}.value")
    elif kind == "list":
        yield from _paths_inside(arrow.value_type, f"{path}.item")


class _Says:
    """The habits of fields, by their paths; asks once for each what null says in its column."""

    def __init__(self, columns: JsonColumns, habits: Habits) -> None:
        self._places = {path: place for place, path in enumerate(columns.nullable)}
        self._leaves = columns.leaves
        self._leaf_places = {path: place for place, path in enumerate(columns.leaves)}
        self._habits = habits
        self._said: dict[str, bool] = {}
        self.zoned: set[str] = set()
        """The paths of columns of times with a zone."""

    def may_be_null(self, path: str) -> bool:
        """Return whether the field may be null."""
        return path in self._places

    def null(self, path: str, is_null: bool) -> bool:
        """See `Habits.says_null`."""
        said = self._said.get(path)
        if said is None:
            said = self._said[path] = self._habits.says_null(self._places[path], is_null)
        return said

    def takes_time(self, path: str, text: str) -> bool:
        """Return whether a time is in the form in which the column's will be written."""
        seen = TimeForm.seen(text)
        return seen is not None and self._habits.takes_time(self._leaf_places[path], seen)

    def times(self) -> dict[str, TimeForm]:
        """Return the forms of columns of times, by their paths, where they are not usual."""
        forms = [(self._leaves[leaf], TimeForm(*form)) for leaf, form in self._habits.time_forms()]
        return {
            path: form for path, form in forms if not form.is_usual(has_zone=path in self.zoned)
        }


class _ReversibleFits(Fits):
    """Makes the functions that fit values, and leave what null in a column does not say."""

    def __init__(self, schema: RecordSchema, says: _Says, *, has_rest: bool) -> None:
        super().__init__(schema, Lenient() if has_rest else Lenient("ignore", "dead-letter"))
        self._says = says
        self._has_rest = has_rest

    def record(self, fields: Sequence[pa.Field], prefix: str) -> Fit:
        """See `Fits`."""
        fits = {field.name: self._field(field, f"{prefix}{field.name}") for field in fields}
        leave_null, leave_unknown = self._leave_null(prefix), self._leave_unknown(prefix)

        def fit(members: dict[str, Any]) -> tuple[Any, Any]:
            values: dict[str, Any] = {}
            left: dict[str, Any] = {}
            for name, member in members.items():
                if name not in fits:
                    leave_unknown(left, name, member)
                elif member is None:
                    leave_null(left, name, True)
                else:
                    values[name], more = fits[name](member)
                    if more is not None:
                        left[name] = more
            for name in fits:
                if name not in members:
                    leave_null(left, name, False)
            return tuple(map(values.get, fits)), left or None

        return fit

    def _leave_null(self, prefix: str) -> Callable[[dict[str, Any], str, bool], None]:
        """Return what leaves that a field is null, or absent, where its column does not say it."""

        def leave(left: dict[str, Any], name: str, is_null: bool) -> None:
            path = f"{prefix}{name}"
            if not (self._says.may_be_null(path) and (is_null or self._has_rest)):
                why = "null, which its schema does not allow" if is_null else "missing"
                raise RowError(f"field {path!r} is {why}")
            if self._says.null(path, is_null) != is_null:
                left[name] = None

        return leave

    def _leave_unknown(self, prefix: str) -> Callable[[dict[str, Any], str, Any], None]:
        def leave(left: dict[str, Any], name: str, member: Any) -> None:
            if not self._has_rest:
                raise RowError(f"field {f'{prefix}{name}'!r} is not in the topic's schema")
            left[name] = member

        return leave

    def leaf(self, field: pa.Field, path: str) -> Callable[[Any], Any]:
        """See `Fits`."""
        fit = super().leaf(field, path)
        is_same = _form(field.type)
        if is_same is None:
            return fit
        is_time = family(field.type) in _TIMES
        if family(field.type) == "timestamp":
            self._says.zoned.add(path)

        def fit_same(value: Any) -> Any:
            if is_same(value):
                made = fit(value)
                if not is_time or self._says.takes_time(path, value):
                    return made
            told = f"field {path!r} is {shown(value)}"
            raise RowError(f"{told}, which as {field.type} would not come back equal")

        return fit_same


def _form(arrow: pa.DataType) -> Callable[[Any], bool] | None:
    """Return what says whether a value would be written in an equal form; None: any that fits."""
    kind = family(arrow)
    if kind == "date" or kind in _TIMES:
        return lambda value: type(value) is str
    if kind in ("integer", "duration"):
        return lambda value: _is_same_number(value, is_whole=True)
    if kind == "float":
        return lambda value: _is_same_number(value, is_whole=False)
    if kind == "decimal":
        return lambda value: _is_same_number(value, is_whole=arrow.scale == 0)
    return None


def _is_same_number(value: Any, *, is_whole: bool) -> bool:
    """Say whether a value is a number that is equal as Python reads it, written whole or not."""
    if type(value) is not Number:
        return False
    return value.is_whole == is_whole or abs(float(value)) < _EXACT


def _nulls_left(
    fields: Sequence[pa.Field], prefix: str, says: _Says
) -> Callable[[RowValues], dict[str, Any] | None]:
    """Return what returns the rest of a row in which all nulls say null."""
    paths = [f"{prefix}{field.name}" for field in fields]
    inside = [
        _nulls_inside(field.type, path, says) for field, path in zip(fields, paths, strict=True)
    ]
    parts = list(zip((field.name for field in fields), paths, inside, strict=True))

    def left(values: RowValues) -> dict[str, Any] | None:
        made: dict[str, Any] = {}
        for value, (name, path, look) in zip(values, parts, strict=True):
            if value is None:
                if not says.null(path, True):
                    made[name] = None
            elif look is not None and (more := look(value)) is not None:
                made[name] = more
        return made or None

    return left


def _nulls_inside(
    arrow: pa.DataType, path: str, says: _Says
) -> Callable[[Any], dict[str, Any] | None] | None:
    kind = family(arrow)
    if next(_paths_inside(arrow, path), None) is None:
        return None
    if kind == "struct":
        return _nulls_left(list(arrow), f"{path}.", says)
    if kind == "map":
        inner = _nulls_inside(arrow.item_type, f"{path}.value", says)
        return lambda pairs: _left_of(inner, pairs)
    inner = _nulls_inside(arrow.value_type, f"{path}.item", says)
    return lambda items: _left_of(inner, ((str(n), item) for n, item in enumerate(items)))


def _left_of(inner: Any, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
    made = {name: inner(value) for name, value in pairs if value is not None}
    return {name: left for name, left in made.items() if left is not None} or None
