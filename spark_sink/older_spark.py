"""What Spark 4.0 and 4.1 lack of the API for data sources in Python.

Other files take these names from here, and know no versions.
"""

from __future__ import annotations

from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "HAS_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
]

HAS_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark tells a source where its last batch ended, and how it is to limit the next one."""

if TYPE_CHECKING or HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    ReadAllAvailable = ReadMaxRows = ReadMinRows = SupportsTriggerAvailableNow = object

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(
        datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter
    ):
        """Spark 4.0 hands batches of Arrow to a stream's writer too, if it is one for Arrow."""


# Spark's timestamps have a time zone, which is UTC between Python and the JVM; by default in 4.0.
_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the rows that Spark exchanges with Python."""
    return to_arrow_schema(schema, **_UTC)
