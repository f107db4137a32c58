"""What a footer says of records that were Avro: `columnar.avro`, see ``docs/segment-format.md``."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.schema.avro_encoding import avro_types
from columnar_kafka.segment.json_layout import JSON_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from columnar_kafka.schema.avro_encoding import AvroType, Form

__all__ = ["AVRO_KEY", "AvroLayout", "header_of", "id_of", "said_of"]

AVRO_KEY: Final = b"columnar.avro"
_HEADER_BYTES: Final = 5
_IDS: Final = 1 << 32
_SHOWN: Final = 200
_ROWS: Final = "with columnar.value.format=rows its records can be read"


class AvroLayout(NamedTuple):
    """How columns become Avro datums.

    Attributes:
        id: that of Confluent's five bytes in front of each datum; None: there are none.
        types: what the columns do not say of their types, by the fields' paths: see
            `schema/avro_encoding`.
    """

    id: int | None = None
    types: Mapping[str, Form] = MappingProxyType({})

    @classmethod
    def parse(cls, said: Mapping[bytes, bytes]) -> AvroLayout:
        """Return what the footer of a file says; of records that were rows, that is nothing.

        Keys and paths that are unknown are ignored.

        Raises:
            SegmentError: it is malformed, or the records were JSON. It does not say where.
        """
        text = said.get(AVRO_KEY)
        if text is None and JSON_KEY in said:
            raise SegmentError(
                "its records were JSON, which Avro cannot say: set columnar.value.format=json"
            )
        if text is None:
            return cls()
        try:
            read: Any = json.loads(text)
        except (ValueError, RecursionError):
            read = None
        if type(read) is not dict:
            _refuse(text, "it must be a JSON object")
        number, types = read.get("id"), read.get("types", {})
        if number is not None and not (type(number) is int and 0 <= number < _IDS):
            _refuse(text, "id must be a whole number of 32 bits")
        if type(types) is not dict:
            _refuse(text, "types must be an object")
        return cls(number, types)

    def footer(self) -> dict[str, bytes]:
        """Return the key-value pair of a file's footer that says this."""
        said = {name: part for name, part in self._asdict().items() if part not in (None, {})}
        text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
        return {AVRO_KEY.decode(): text.encode()}

    @property
    def header(self) -> bytes:
        """What stands in front of each datum."""
        return b"" if self.id is None else header_of(self.id)

    def described(self, columns: pa.Schema) -> list[AvroType]:
        """Return the types of the user's columns.

        Raises:
            SegmentError: Avro does not have one, or a column cannot be what `types` say.
        """
        fields = [field for field in columns if field.name != KAFKA_COLUMN]
        try:
            return avro_types(fields, self.types)
        except SchemaError as error:
            raise SegmentError(f"{error.reason}; {_ROWS}") from error
        except RecursionError as error:
            raise SegmentError(f"its columns are nested too deep for Python; {_ROWS}") from error


def said_of(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """Return what a footer's key-value metadata say of the values of records."""
    return {key: (metadata or {})[key] for key in (JSON_KEY, AVRO_KEY) if key in (metadata or {})}


def header_of(number: int) -> bytes:
    """Return Confluent's five bytes for the id of a schema."""
    return b"\0" + number.to_bytes(4, "big")


def id_of(header: bytes) -> int | None:
    """Return the id in Confluent's five bytes; None: `header` has no bytes."""
    return int.from_bytes(header[1:_HEADER_BYTES], "big") if header else None


def _refuse(text: bytes, what: str) -> NoReturn:
    shown = text[:_SHOWN].decode(errors="replace")
    raise SegmentError(f"{AVRO_KEY.decode()} is {shown} in the file: {what}; {_ROWS}")
