"""Formats of plain messages' keys and values: the user says which each topic has.

>>> from columnar_kafka.plain import Avro, Ipc, Json
"""

from __future__ import annotations

from columnar_kafka.plain.avro import Avro
from columnar_kafka.plain.base import Format, TableFormat
from columnar_kafka.plain.ipc import Ipc
from columnar_kafka.plain.json import Json

__all__ = ["Avro", "Format", "Ipc", "Json", "TableFormat"]
