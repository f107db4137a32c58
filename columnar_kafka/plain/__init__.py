"""Formats of plain messages' keys and values: the user says which each topic has.

Those of consumers are classes. Those that land as rows of a table have names, in `row_formats`.

>>> from columnar_kafka.plain import Avro, Ipc, Json

`restored` makes the objects again of which rows were made.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from columnar_kafka.plain.avro import Avro
    from columnar_kafka.plain.base import Format, TableFormat
    from columnar_kafka.plain.ipc import Ipc
    from columnar_kafka.plain.json import Json
    from columnar_kafka.plain.lenient import Lenient
    from columnar_kafka.plain.registry import Registry
    from columnar_kafka.plain.restoring import restored

__all__ = ["Avro", "Format", "Ipc", "Json", "Lenient", "Registry", "TableFormat", "restored"]

# Few landings decode plain messages, and those need other modules.
_MODULE_OF = {
    "Avro": "columnar_kafka.plain.avro",
    "Format": "columnar_kafka.plain.base",
    "Ipc": "columnar_kafka.plain.ipc",
    "Json": "columnar_kafka.plain.json",
    "Lenient": "columnar_kafka.plain.lenient",
    "Registry": "columnar_kafka.plain.registry",
    "TableFormat": "columnar_kafka.plain.base",
    "restored": "columnar_kafka.plain.restoring",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'columnar_kafka.plain' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
