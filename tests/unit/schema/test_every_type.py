"""Every Arrow type: a schema has it and pyarrow writes it, or `SchemaError` names its column."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from arrow_types import NESTED, storable
from interrupting import Interrupter

from columnar_kafka.columns import native_format
from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import RecordSchema, arrow, avro
from columnar_kafka.segment.encoder import check_can_be_written

UNITS = ("s", "ms", "us", "ns")
PLAIN = """
    null bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 date32
    date64 string large_string string_view binary large_binary binary_view month_day_nano_interval
"""
MOST_DIGITS = {"decimal32": 9, "decimal64": 18, "decimal128": 38, "decimal256": 76}
DECIMALS = [
    kind
    for name, digits in MOST_DIGITS.items()
    for scale in (-2, -1, 0, digits, digits + 1)
    for kind in storable(name, digits, scale)
]
TYPES = [
    *(getattr(pa, name)() for name in PLAIN.split()),
    *DECIMALS,
    *map(pa.time32, UNITS[:2]),
    *map(pa.time64, UNITS[2:]),
    *map(pa.duration, UNITS),
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "+02:00", "Foo/Bar")),
    pa.binary(0),
    pa.binary(3),
    pa.list_(pa.int8()),
    pa.list_(pa.int8(), 0),
    pa.list_(pa.int8(), 2),
    pa.large_list(pa.int8()),
    pa.list_view(pa.int8()),
    pa.large_list_view(pa.int8()),
    pa.map_(pa.int8(), pa.int8()),
    pa.map_(pa.decimal128(9, -2), pa.int8()),
    pa.map_(pa.list_(pa.int8()), pa.int8()),
    pa.struct([]),
    pa.struct([("a", pa.int8())]),
    pa.dense_union([pa.field("a", pa.int8())]),
    pa.sparse_union([pa.field("a", pa.int8())]),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int8(), pa.decimal128(9, -2)),
    pa.run_end_encoded(pa.int32(), pa.string()),
    *storable("uuid"),
    *storable("json_"),
    *storable("bool8"),
    pa.fixed_shape_tensor(pa.int8(), [2]),
]


def parsed(schema: pa.Schema) -> RecordSchema | SchemaError:
    try:
        return RecordSchema.parse(schema)
    except SchemaError as error:
        return error


@pytest.mark.parametrize("nesting", NESTED)
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_type_can_be_written_or_is_refused_by_its_columns_name(
    kind: pa.DataType, nesting: str
) -> None:
    schema = pa.schema([("first", pa.int8()), ("column", NESTED[nesting][0](kind))])
    outcome = parsed(schema)
    if isinstance(outcome, SchemaError):
        assert "'column" in outcome.reason
    else:
        check_can_be_written(outcome.arrow)


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_a_decimal_has_a_scale_from_0_to_its_precision(kind: Any) -> None:
    schema = pa.schema([("price", kind)])
    if 0 <= kind.scale <= kind.precision:
        assert RecordSchema.parse(schema).arrow == schema
        return
    with pytest.raises(SchemaError) as raised:
        RecordSchema.parse(schema)
    assert raised.value.reason == (
        f"field 'price' has type {kind}; in Parquet a decimal's scale is from 0 to its precision"
    )


class Handled(Interrupter):
    """Raises what an ordinary `except` clause catches."""

    def _look(self) -> None:
        self.count += 1
        if self.count - 1 in self._places:
            raise TimeoutError("a handler's")


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("t", pa.timestamp("us", "Europe/Berlin"))]),
        {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]},
    ],
    ids=["zone", "avro"],
)
def test_what_a_handler_raises_is_no_error_of_the_schemas(schema: Any) -> None:
    def parse() -> None:
        with suppress(native_format.NotNativeError):  # there may be no core
            native_format.row_format(RecordSchema.parse(schema))

    every = Handled(arrow, avro, native_format, places=set())
    every.run(parse)
    assert every.count > 5
    for place in range(every.count):
        handled = Handled(arrow, avro, native_format, places={place})
        with pytest.raises(TimeoutError, match="a handler's"):
            handled.run(parse)
