"""Tables by the name of their format. A library is imported only where it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.files import is_object_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.model import LakeTable

__all__ = ["FORMATS", "open_table"]

FORMATS: Final = {
    "parquet": ("columnar_kafka.lake.directory", "ParquetDirectory"),
    "delta": ("columnar_kafka.lake.delta", "DeltaLakeTable"),
    "iceberg": ("columnar_kafka.lake.iceberg", "IcebergTable"),
}
"""The module and class of each format; the format's name is also that of its extra."""


def open_table(
    table_format: str, place: str, *, storage: Mapping[str, str] | None = None, **options: Any
) -> LakeTable:
    """Return the table of a format at a place, with the options of its class.

    `storage` are keys of the object store where the files are (``aws_region``, …); what they leave
    out comes from the environment.

    Raises:
        ConfigError: the format does not exist, or needs an extra that is not installed; a key of
            `storage` does not exist, or the place is in no object store.
        LakeError: the place is none for this format.
    """
    if table_format not in FORMATS:
        raise ConfigError(
            f"table format {table_format!r} does not exist; there are {', '.join(FORMATS)}"
        )
    module, name = FORMATS[table_format]
    found = _imported(module, table_format, f"table format {table_format!r}")
    if table_format == "iceberg":
        options["storage"] = storage  # its catalog says where the files are
    elif is_object_store(place):
        stores = _imported("columnar_kafka.lake.object_files", "stores", f"a table at {place}")
        options["files"] = stores.ObjectFiles(place, storage or {})
    elif storage:
        raise ConfigError(f"storage {min(storage)}: {place!r} is in no object store")
    table: LakeTable = getattr(found, name)(place, **options)
    return table


def _imported(module: str, extra: str, what: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{what} needs another package ({error}): pip install 'columnar-kafka[{extra}]'"
        ) from error
