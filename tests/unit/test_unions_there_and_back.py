"""Rows and datums of random schemas with unions, against fastavro's own round trip."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import examples
from there_and_back import there_and_back
from union_values import Schemas, Values, shown

from columnar_kafka import native
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.plain.avro_rows import AvroRows
from columnar_kafka.plain.core_rows import CoreValues

if TYPE_CHECKING:
    import pyarrow as pa

WAYS = [True, False] if native.enabled else [False]
RANDOM = settings(max_examples=examples(200), suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 2**64)


class Case:
    """A schema, and values in the forms that it may be given in."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.avro = Schemas(rng).of_rows()
        self.values = Values(self.avro, rng)
        made = [self.values.one() for _ in range(8)]
        self.datums = [self.values.datum(members) for members, _, _ in made]
        self.expected = [shown(self.values.read(datum)) for datum in self.datums]
        self.named = [named for _, named, _ in made]
        self.bare = [bare for _, _, bare in made]


@pytest.mark.parametrize("way", WAYS)
@RANDOM
@given(seed=SEEDS)
def test_rows_that_name_their_branches_come_back_as_fastavro_reads_them(
    seed: int, way: bool
) -> None:
    case = Case(seed)
    found, are_records = there_and_back(
        case.avro, case.named, "rows", produced=way, consumed=native.enabled and not way
    )
    assert list(map(shown, found)) == case.expected
    assert all(are_records)


@pytest.mark.parametrize("way", WAYS)
@RANDOM
@given(seed=SEEDS)
def test_a_row_that_names_few_is_the_one_that_fits_or_is_refused(seed: int, way: bool) -> None:
    """It is equal to what was meant, or to what fastavro takes it for, if that guesses."""
    case = Case(seed)
    found, _ = there_and_back(case.avro, case.bare, "rows", produced=way, consumed=way)
    for bare, datum, value in zip(case.bare, case.datums, found, strict=True):
        if value is not None:
            meant = shown(case.values.read(datum), is_loose=True)
            assert shown(value, is_loose=True) in (meant, _guessed(case.values, bare))


def _guessed(values: Values, row: Any) -> str | None:
    try:
        return shown(values.read(values.written(row)), is_loose=True)
    except Exception:  # noqa: BLE001 - fastavro raises many kinds
        return None


@pytest.mark.parametrize("way", WAYS)
@RANDOM
@given(seed=SEEDS)
def test_datums_come_back_byte_for_byte(seed: int, way: bool) -> None:
    """They are records from the first on that leaves no doubt of the five bytes before it."""
    case = Case(seed)
    values = [b"\0\0\0\0\7" + datum for datum in case.datums]
    found, are_records = there_and_back(
        case.avro, values, "avro", produced=way, consumed=native.enabled and not way
    )
    assert found == values
    assert are_records == sorted(are_records)


@RANDOM
@given(seed=SEEDS)
def test_plain_datums_decode_alike_with_the_core_and_without(seed: int) -> None:
    case = Case(seed)
    table, errors = AvroRows(case.avro).decode(case.datums)
    assert errors == {}
    assert list(map(shown, _rows(table))) == case.expected
    assert CoreValues(AvroRows(case.avro)).decode(case.datums).equals(table)


def _rows(table: pa.Table) -> list[Any]:
    return [row for batch in table.to_batches() for row in to_rows(batch)]
