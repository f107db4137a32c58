"""What a segment says of its rows: what is ruled out by it, and that it never is by mistake."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any

import hostile
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hostile import BINARY, FALSE, I64, STRUCT
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.consuming.arrow import pruning, table_builder
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.errors import SchemaError
from columnar_kafka.segment.isolated import IsolatedDecoder
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.consuming.arrow.projection import SelectedRows
    from columnar_kafka.segment.decoder import Decoder

F = pc.field
UTC_MS = pa.timestamp("ms", "UTC")


def segment_of(made: hostile.Sent, decoder: Decoder | None = None) -> Segment:
    """What came at offset 5 of partition 3."""
    headers = made.headers()
    return Segment(
        topic="t", partition=3, offset=5, headers=headers, value=made.value, decoder=decoder
    )


def can_skip(
    made: hostile.Sent, condition: pc.Expression, decoder: Decoder | None = None, **asked: Any
) -> bool:
    segment = segment_of(made, decoder)
    plan = Projection(condition=condition, **asked).segment_plan(segment.schema)
    return pruning.can_skip(segment, plan)


def rows_of(
    made: hostile.Sent, columns: list[str], condition: pc.Expression | None = None
) -> SelectedRows:
    segment = segment_of(made)
    projection = Projection(columns, condition, promote=True)
    return table_builder.segment_rows(segment, 0, 99, projection, segment.to_table)


# --- what can be skipped --------------------------------------------------------------------------

UTC = dt.timezone.utc
ROWS = hostile.sent(
    pa.table(
        {
            "n": pa.array([3, 9], pa.int32()),
            "o": pa.array([3, None, 9], pa.int64()).slice(1),
            "x": pa.array([None, None], pa.int32()),
            "u": pa.array([2**63, 2**64 - 1], pa.uint64()),
            "s": ["b", "d"],
            "b": [b"\x80", b"\xff"],
            "d": [dt.date(2020, 1, 1), dt.date(2020, 1, 2)],
            "at": pa.array([1_000_000, 2_000_000], pa.timestamp("us")),
            "z": pa.array([1000, 2000], UTC_MS),
            "m": pa.array([{"i": 3, "s": "x"}, None]),
        }
    )
)
KEPT, OUT = False, True
TINY = pa.scalar(2000, pa.timestamp("ms"))


@pytest.mark.parametrize(
    ("condition", "is_out"),
    [
        (F("n") > 9, OUT),
        (F("n") >= 9, KEPT),
        (~(F("n") < 10), OUT),
        (F("n") == 20, OUT),
        (F("n") > 9.5, OUT),
        (F("n") > 2**40, OUT),
        (F("n") != 3, KEPT),
        (F("n").isin([1, 2]), OUT if VERSION >= (18, 0) else KEPT),  # as pyarrow can tell
        (F("n").isin([1, 5]), KEPT),
        (F("n").is_null(), OUT),
        ((F("n") > 9) | (F("s") == "c"), KEPT),
        ((F("n") > 9) | (F("s") == "e"), OUT),
        ((F("n") > 5) & (F("s") > "e"), OUT),
        (F("n") + 1 > 20, KEPT),
        (F("n").cast("string") < "0", KEPT),
        (F("n").cast("int64") > 9, KEPT),
        (F("o") > 9, OUT),
        (~(F("o") < 10), OUT),
        (F("o").is_null(), KEPT),
        (F("o") != 9, KEPT),
        (F("o").isin([1, None]), KEPT),
        ((F("o") > 9) | F("o").is_null(), KEPT),
        (pc.coalesce(F("o") > 9, pc.scalar(True)), KEPT),
        (F("x") > 1, OUT),
        (~(F("x") > 1), OUT),
        (F("x").is_valid(), OUT),
        (F("x").is_null(), KEPT),
        (F("u") <= pa.scalar(2**63 - 1, pa.uint64()), OUT),
        (F("u") > pa.scalar(2**64 - 2, pa.uint64()), KEPT),
        (F("s") < "b", OUT),
        (F("s") == pa.scalar("a", pa.large_string()), OUT),
        (F("s") <= "b", KEPT),
        (F("b") < b"\x7f", OUT),
        (F("b") > b"\x80", KEPT),
        (F("d") > dt.date(2020, 1, 2), OUT),
        (F("d") >= dt.date(2020, 1, 2), KEPT),
        (F("at") > TINY, OUT),
        (F("at") >= TINY, KEPT),
        (F("at") > pa.scalar(2_000_001, pa.timestamp("us")), OUT),
        (F("at") > pa.scalar(2_000_000_001, pa.timestamp("ns")), KEPT),
        (F("z") > dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), OUT),
        (F("z") > pa.scalar(2000, pa.timestamp("ms", "Europe/Berlin")), OUT),
        (F("z") >= pa.scalar(2000, pa.timestamp("ms", "Europe/Berlin")), KEPT),
        (F("m", "i") > 3, OUT),
        (F("m", "i") >= 3, KEPT),
        (F("m", "i").is_null(), KEPT),
        (F("m", "s") == "y", OUT),
        (F("_kafka", "topic") != "t", OUT),
        (F("_kafka", "topic").isin(["t", "u"]), KEPT),
        (F("_kafka", "partition") > 3, OUT),
        (F("_kafka", "partition") == 3, KEPT),
        (F("_kafka", "offset") < (6 << 20) - 2, OUT),
        (F("_kafka", "offset") > (6 << 20) - 1, OUT),
        (F("_kafka", "offset") == (6 << 20) - 1, KEPT),
        ((F("_kafka", "partition") == 4) & (F("n") == 3), OUT),
        (pc.scalar(False), OUT),
        (pc.scalar(True), KEPT),
    ],
    ids=str,
)
def test_a_segment_is_ruled_out_only_where_no_row_can_match(condition, is_out) -> None:
    assert can_skip(ROWS, condition) == is_out
    table = rows_of(ROWS, ["n"], condition).table
    assert table is None or not is_out


def test_times_in_the_headers_tell_of_those_in_the_rows() -> None:
    made = hostile.ordinary("zstd")  # 0 to 39
    late = F("_kafka", "timestamp") > pa.scalar(39, UTC_MS)
    assert can_skip(made, late)
    assert can_skip(made, F("_kafka", "timestamp") > dt.datetime(2020, 1, 1, tzinfo=UTC))
    assert not can_skip(made, F("_kafka", "timestamp") >= pa.scalar(39, UTC_MS))


def test_rows_without_times_are_not_taken_to_have_those_of_the_headers() -> None:
    """Their timestamp is null, as asked for."""
    columns = ["_kafka.timestamp"]
    unknown = F("_kafka", "timestamp").is_null()
    assert not can_skip(ROWS, unknown, columns=columns, promote=True)
    assert rows_of(ROWS, columns, unknown).table.num_rows == 2


def test_row_groups_are_taken_together() -> None:
    rows = {"n": [1, 2, None, None, 5, 6], "s": ["b", "é", "a", "", "z", "y"]}
    made = hostile.sent(pa.table(rows), group=2)
    assert can_skip(made, F("n") < 1)
    assert can_skip(made, F("n") > 6)
    assert not can_skip(made, F("n") == 4)
    assert not can_skip(made, F("n").is_null())
    assert can_skip(made, F("s") > "é")
    assert not can_skip(made, F("s") == "")


def test_where_producers_are_not_trusted_only_the_place_counts() -> None:
    decoder = IsolatedDecoder()
    try:
        made = hostile.ordinary("zstd")
        assert not can_skip(made, F("i") > 100, decoder)
        assert not can_skip(made, F("_kafka", "timestamp") > pa.scalar(39, UTC_MS), decoder)
        assert can_skip(made, F("_kafka", "partition") > 3, decoder)
    finally:
        decoder.close()


DAY = dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        (pa.array([1.0, 2.0]), F("c") > 5),
        (pa.array([False]), F("c") == True),  # noqa: E712 - an expression
        (
            pa.array([decimal.Decimal("1.0")], pa.decimal128(20, 1)),
            F("c") > pa.scalar(decimal.Decimal("5.0"), pa.decimal128(20, 1)),
        ),
        (pa.array([DAY]), F("c") > 2 * DAY),
        (pa.array([b"ab"], pa.binary(2)), F("c") == pa.scalar(b"zz", pa.binary(2))),
        (pa.array([[1]]), pc.list_value_length(F("c")) > 5),
    ],
    ids=["float", "bool", "decimal", "duration", "fixed", "list"],
)
def test_types_without_an_order_that_all_writers_share_tell_nothing(values, condition) -> None:
    assert not can_skip(hostile.sent(pa.table({"c": values})), condition)


# --- statistics that are not as they should be ----------------------------------------------------

N = hostile.sent(pa.table({"s": ["b", "d"], "n": pa.array([3, 9], pa.int64()), "k": [1, 2]}))


def said(file: hostile.File, column: int) -> hostile.Struct:
    return hostile.field(file.meta(column), 12)[2]


def change(column: int, *fields: list[Any]) -> Callable[[hostile.File], None]:
    """Change fields of the statistics of text (column 0) or numbers (1)."""

    def changed(file: hostile.File) -> None:
        ids = {field[0] for field in fields}
        kept = [field for field in said(file, column) if field[0] not in ids]
        new = [list(field) for field in fields if field[1]]
        said(file, column)[:] = sorted(kept + new, key=lambda field: field[0])

    return changed


def without_order(file: hostile.File) -> None:
    file.footer.remove(hostile.field(file.footer, 7))


def other_order(file: hostile.File) -> None:
    hostile.field(file.footer, 7)[2][1][1] = [[2, STRUCT, []]]


def other_path(file: hostile.File) -> None:
    hostile.field(file.meta(1), 3)[2] = [BINARY, [b"k"]]


def other_type(file: hostile.File) -> None:
    hostile.field(file.meta(1), 1)[2] = 1


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (change(1, [5, BINARY, b"\x09" + bytes(3)]), F("n") > 9),
        (change(1, [6, BINARY, b""]), F("n") > 9),
        (change(1, [6, BINARY, b"\x0a" + bytes(7)]), F("n") < 3),
        (change(1, [5, None, None], [6, None, None]), F("n") > 9),
        (change(1, [5, None, None]), F("n") < 3),
        (change(1, [5, I64, 9]), F("n") > 9),
        (change(1, [3, I64, 1]), F("n").is_null()),
        (change(1, [3, None, None]), F("n").is_null()),
        (change(0, [5, BINARY, b"d\xff"]), F("s") > "x"),
        (change(0, [6, BINARY, b"\xff"], [5, BINARY, b"\xff"]), F("s") == "x"),
        (change(0, [7, FALSE, None]), F("s") > "d"),
        (change(0, [8, FALSE, None]), F("s") < "b"),
        (without_order, F("n") > 9),
        (other_order, F("n") > 9),
        (other_path, F("n") > 9),
        (other_type, F("n") > 9),
    ],
)
def test_statistics_that_are_malformed_or_vague_tell_nothing(change, condition) -> None:
    assert can_skip(N, condition)
    made = hostile.changed(N, change)
    assert not can_skip(made, condition)


def test_times_in_the_old_form_of_96_bits_tell_nothing() -> None:
    rows = pa.table({"t": pa.array([1, 2], pa.timestamp("ns"))})
    made = hostile.sent(rows, use_deprecated_int96_timestamps=True)
    late = F("t") > pa.scalar(2, pa.timestamp("ns"))
    assert not can_skip(made, late)
    assert can_skip(hostile.sent(rows), late)


def test_a_filter_that_fails_on_a_known_value_is_kept_for_the_rows_to_tell() -> None:
    made = hostile.sent(pa.table({"n": [5, 5]}))
    zero = pc.scalar(1) / (F("n") - 5) == 1
    assert not can_skip(made, zero)
    with pytest.raises(SchemaError, match="divide by zero"):
        rows_of(made, ["n"], zero)


def test_an_unsafe_cast_may_change_the_order() -> None:
    """Cast to signed, the greatest unsigned number is the least."""
    made = hostile.sent(pa.table({"u": pa.array([5, 2**64 - 1], pa.uint64())}))
    negative = F("u").cast(pa.int64(), safe=False) < 3
    assert rows_of(made, ["u"], negative).table["u"].to_pylist() == [2**64 - 1]


# --- random rows and filters ----------------------------------------------------------------------

TEXTS = ["", "a", "aa", "b", "é", "\U0001f600", "\ue000", "z" * 70]
TIMES = [-(2**40), -1, 0, 999, 1000, 86_400_000, 2**40]
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, -1, 0, 3, 127],
    pa.int16(): [-(2**15), -1, 0, 2**15 - 1],
    pa.int32(): [-(2**31), -1, 0, 3, 2**24 + 1, 2**31 - 1],
    pa.int64(): [-(2**63), -1, 0, 3, 2**24 + 1, 2**53 + 1, 2**63 - 1],
    pa.uint8(): [0, 1, 128, 255],
    pa.uint32(): [0, 1, 2**31, 2**32 - 1],
    pa.uint64(): [0, 3, 2**63 - 1, 2**63, 2**64 - 1],
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): [b"", b"\0", b"a", b"\x7f", b"\x80", b"\xff\xff", b"z" * 70],
    pa.date32(): [-10_000, -1, 0, 3, 20_000],
    pa.time32("ms"): [0, 1, 999, 1000, 86_399_999],
    pa.time64("us"): [0, 1, 999_999, 1_000_000],
    pa.timestamp("ms"): TIMES,
    pa.timestamp("us"): TIMES,
    pa.timestamp("ns", "Europe/Berlin"): TIMES,
    UTC_MS: TIMES,
    pa.float64(): [float("-inf"), -0.0, 0.0, 3.0, 9.5, float("nan")],
    pa.bool_(): [False, True],
}
OTHERS = [pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.date64(), pa.float32()]
NAMES = ["a", "b", "c", "d"]
COMPARE = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
JOIN = ["and_kleene", "or_kleene", "and", "or", "xor", "and_not_kleene"]
Kinds = dict[tuple[str, ...], pa.DataType]
PLACE: Kinds = {
    ("_kafka", "topic"): pa.string(),
    ("_kafka", "partition"): pa.int32(),
    ("_kafka", "offset"): pa.int64(),
}


class Draw:
    """What is random in one example."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def one_of(self, *choices: Any) -> Any:
        return self._data.draw(st.sampled_from(choices))

    def once_in(self, number: int) -> bool:
        return bool(self.one_of(*range(number)) == 1)

    def table(self) -> pa.Table:
        """Some of the columns a to d, the struct s and the list l."""
        rows = self.one_of(1, 2, 5)
        columns = {name: self._array(rows) for name in NAMES if not self.once_in(2)}
        if not columns or self.once_in(2):
            nulls = pa.array([self.once_in(4) for _ in range(rows)])
            parts = [self._array(rows), self._array(rows)]
            columns["s"] = pa.StructArray.from_arrays(parts, ["a", "b"], mask=nulls)
        if self.once_in(3):
            columns["l"] = pa.array([[1, None]] * rows, pa.list_(pa.int64()))
        made = pa.table(columns)
        strict = [field.with_nullable(made[field.name].null_count > 0) for field in made.schema]
        return made.cast(pa.schema(strict)) if self.once_in(2) else made

    def _array(self, rows: int) -> pa.Array:
        kind = self.one_of(*VALUES)
        pool = [self.one_of(*VALUES[kind]) for _ in range(self.one_of(1, 2))]
        pool += [None] * self.one_of(0, 0, 1)
        return pa.array([self.one_of(*pool) for _ in range(rows)], kind)

    def filter(self, kinds: Kinds, depth: int = 2) -> pc.Expression:
        """Something that may be true."""
        form = self.one_of(*range(6)) if depth else 0
        if form < 3:
            return self._leaf(kinds)
        parts = [self.filter(kinds, depth - 1), self.filter(kinds, depth - 1)]
        if form == 3:
            return ~parts[0]
        if form == 4:
            changed = [parts[0].is_null(), pc.coalesce(parts[0], pc.scalar(self.once_in(2)))]
            return self.one_of(*changed, pc.if_else(parts[0].is_null(), *parts))
        return call(self.one_of(*JOIN), *parts)

    def _leaf(self, kinds: Kinds) -> pc.Expression:
        path = self.one_of(*kinds)
        field, kind = F(*path), kinds[path]
        form = self.one_of(*range(12))
        if form == 0:
            some = [
                self.one_of(*VALUES.get(kind, [None]), None) for _ in range(self.one_of(0, 1, 2))
            ]
            options = pc.SetLookupOptions(pa.array(some, kind), skip_nulls=self.once_in(2))
            return call("is_in", field, options=options)
        if form == 1:
            return self.one_of(field.is_null(nan_is_null=self.once_in(2)), field.is_valid())
        left, right = field, pc.scalar(self._value(kind))
        if form == 2:
            to = self.one_of(*VALUES, *OTHERS)
            left, right = field.cast(to, safe=self.once_in(2)), pc.scalar(self._value(to))
        if form == 3:
            left, right = right, left
        if form == 4:
            right = F(*self.one_of(*kinds))
        if form == 5:
            left, right = self._changed(field, kind), pc.scalar(self._some(kind))
        return call(self.one_of(*COMPARE), left, right)

    def _changed(self, field: pc.Expression, kind: pa.DataType) -> pc.Expression:
        whole = pc.coalesce(field, pc.scalar(self._some(kind)))
        return self.one_of(field + 1, field - 1, pc.scalar(1) - field, pc.utf8_length(field), whole)

    def _some(self, kind: pa.DataType) -> pa.Scalar:
        return pa.scalar(self.one_of(*VALUES.get(kind, [None])), kind)

    def _value(self, kind: pa.DataType) -> pa.Scalar:
        """A value that a column of this type may have; of another type where that can be."""
        value = self._some(kind)
        if self.once_in(8):
            return pa.scalar(None, kind)
        if value.is_valid and self.once_in(2):  # binding a null of another type, Arrow dies
            try:
                return value.cast(self.one_of(*VALUES, *OTHERS))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass
        return value


def call(name: str, *arguments: pc.Expression, options: Any = None) -> pc.Expression:
    return pc.Expression._call(name, list(arguments), options)  # noqa: SLF001 - pyarrow has no other way to name a function


def kinds_of(made: pa.Table) -> Kinds:
    """What a filter may name, and where members are."""
    kinds: Kinds = {(field.name,): field.type for field in made.schema if field.name in NAMES}
    if "s" in made.schema.names:
        kinds |= {("s", member.name): member.type for member in made.schema.field("s").type}
    return kinds


@settings(max_examples=examples(300))
@given(st.data())
def test_what_is_ruled_out_has_no_row_that_matches(data: st.DataObject) -> None:
    draw = Draw(data)
    made = draw.table()
    sent = hostile.sent(made, group=draw.one_of(None, 1, 2), use_dictionary=draw.once_in(2))
    columns = [*NAMES, *(name for name in made.schema.names if name not in NAMES), "_kafka"]
    expected = rows_of(sent, columns).table
    assert expected is not None
    for _ in range(4):
        kinds = kinds_of(made) | draw.one_of({}, {}, {}, PLACE, {("d",): pa.null()})
        condition = draw.filter(kinds)
        try:
            read = rows_of(sent, columns, condition)
        except SchemaError:  # it does not fit, or fails on a row
            continue
        try:
            wanted = expected.filter(condition)
        except (pa.ArrowException, UnicodeDecodeError):  # on a row of what is ruled out
            assert read.table is None
            continue
        got = expected.slice(0, 0) if read.table is None else read.table
        assert repr(got.to_pylist()) == repr(wanted.to_pylist()), condition  # NaN is not itself
        assert read.examined == made.num_rows
