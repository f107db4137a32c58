"""The schemas that Spark, duckdb, polars and pyarrow guess of the same JSON."""

from __future__ import annotations

import decimal
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import polars
import pyarrow as pa
import pyarrow.json

from columnar_kafka import schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = Path(__file__).parents[2] / "docs/command-line.md"
HEAD: Final = "| values | `infer` | Spark | duckdb | polars | pyarrow |"
REFUSED: Final = (pa.ArrowInvalid, polars.exceptions.PolarsError)


def test_the_documents_say_what_others_make_of_the_same_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = table()
    for values, *_ in rows:
        assert json.loads(f"[{values}]", parse_float=decimal.Decimal), values
    for values, *said in rows:
        lines = [f'{{"k": 1, "v": {value}}}' for value in split(values)]
        file = tmp_path / "values.json"
        file.write_text("".join(f"{line}\n" for line in lines))
        guessed = [
            ours(lines),
            dict(spark.read.json(str(file)).dtypes)["v"],
            by_duckdb(file),
            by_polars(file.read_bytes()),
            by_pyarrow(file.read_bytes()),
        ]
        assert guessed == said, values


def table() -> list[list[str]]:
    """Return the cells of the documents' table, without marks."""
    _, _, text = PAGE.read_text().partition(f"{HEAD}\n")
    _, *lines = text.partition("\n\n")[0].splitlines()
    assert lines
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split(" | ")] for line in lines
    ]


def split(values: str) -> list[str]:
    """Return the JSON values between the commas at the top, as they are written."""
    decoder, at, texts = json.JSONDecoder(), 0, []
    while at < len(values):
        _, end = decoder.raw_decode(values, at)
        texts.append(values[at:end])
        at = end + 2
    return texts


def ours(lines: list[str]) -> str:
    schema = schema_of([json.loads(line, parse_float=decimal.Decimal) for line in lines])
    if "v" not in schema.names:
        return "none"
    return str(schema.field("v").type)


def by_duckdb(file: Path) -> str:
    guessed = duckdb.read_json(str(file))
    return str(dict(zip(guessed.columns, guessed.types, strict=True))["v"])


def by_polars(data: bytes) -> str:
    try:
        return str(polars.read_ndjson(io.BytesIO(data)).schema["v"])
    except REFUSED:
        return "refused"


def by_pyarrow(data: bytes) -> str:
    try:
        return str(pa.json.read_json(io.BytesIO(data)).schema.field("v").type)
    except REFUSED:
        return "refused"
