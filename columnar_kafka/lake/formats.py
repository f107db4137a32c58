"""Tables by the name of their format. A library is imported only where its format is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from columnar_kafka.lake.model import LakeTable

__all__ = ["FORMATS", "open_table"]

FORMATS: Final = {
    "parquet": ("columnar_kafka.lake.directory", "ParquetDirectory"),
    "delta": ("columnar_kafka.lake.delta", "DeltaLakeTable"),
    "iceberg": ("columnar_kafka.lake.iceberg", "IcebergTable"),
}
"""The module and class of each format; the format's name is also that of its extra."""


def open_table(table_format: str, place: str, **options: Any) -> LakeTable:
    """Return the table of a format at a place, with the options of its class.

    Raises:
        ConfigError: the format does not exist, or needs an extra that is not installed.
        LakeError: the place is none for this format.
    """
    if table_format not in FORMATS:
        raise ConfigError(
            f"table format {table_format!r} does not exist; there are {', '.join(FORMATS)}"
        )
    module, name = FORMATS[table_format]
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"table format {table_format!r} needs another package ({error}): "
            f"pip install 'columnar-kafka[{table_format}]'"
        ) from error
    table: LakeTable = getattr(found, name)(place, **options)
    return table
