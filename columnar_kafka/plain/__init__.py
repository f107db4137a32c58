"""Formats of plain messages' keys and values: the user says which each topic has.

Those of consumers are classes. Those that land as rows of a table have names, in `row_formats`.

>>> from columnar_kafka.plain import Avro, Ipc, Json
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from columnar_kafka.plain.avro import Avro
    from columnar_kafka.plain.base import Format, TableFormat
    from columnar_kafka.plain.ipc import Ipc
    from columnar_kafka.plain.json import Json

__all__ = ["Avro", "Format", "Ipc", "Json", "TableFormat"]

# Few landings decode plain messages, and those need other modules.
_MODULE_OF = {
    "Avro": "columnar_kafka.plain.avro",
    "Format": "columnar_kafka.plain.base",
    "Ipc": "columnar_kafka.plain.ipc",
    "Json": "columnar_kafka.plain.json",
    "TableFormat": "columnar_kafka.plain.base",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'columnar_kafka.plain' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
