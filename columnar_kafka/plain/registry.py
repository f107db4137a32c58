"""Keys and values whose schemas are in a registry, as Confluent's serializers write them.

Needs the extra ``registry``, of which this module itself loads nothing.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.plain.avro import Avro
from columnar_kafka.plain.json import Json
from columnar_kafka.plain.registry_client import RegistryClient, parsed
from columnar_kafka.schema.avro import with_types
from columnar_kafka.schema.json_schema import read_json_schema
from columnar_kafka.segment.headers import header_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from columnar_kafka.plain.base import Format

__all__ = ["Registry"]

_ID_BYTES: Final = 5  # a zero, and a number of 32 bits
_GUID_BYTES: Final = 17  # a one, and a UUID
_HEADERS: Final = {True: "__key_schema_id", False: "__value_schema_id"}


class Registry:
    """The format of keys or values that say the id of their schema in a registry.

    The id stands before a value or in a header, as Confluent's serializers write both. Each schema
    is fetched once, when its first value is decoded, and decoded by `Avro`, or `Json` with
    ``fields="lenient"``: what finds no column is in `_rest`. Values of several schemas in one table
    are promoted as segments are. For any thread; the others wait while one fetches a schema.
    """

    name = ""

    def __init__(self, client: Any) -> None:
        """Ask a registry.

        Args:
            client: a `SchemaRegistryClient` of confluent-kafka, or its settings, such as ``url``.

        Raises:
            ConfigError: settings are not allowed, or the extra ``registry`` is not installed.
        """
        self._registry = RegistryClient(client)
        self._formats: dict[_Said, Format] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Registry {self._registry.place}>"

    def leading(self, messages: Sequence[Any], *, is_key: bool) -> tuple[Format, int]:
        """Return the format of the first messages, and how many have it.

        Raises:
            RegistryError: the registry does not answer, or denies it; the messages may be read
                again later. Blocks while it is asked.
        """
        first, count = None, len(messages)
        for index, message in enumerate(messages):
            data = message.key() if is_key else message.value()
            if data is None:
                continue
            said = _said(data, message, _HEADERS[is_key])
            if first is not None and said != first:
                count = index
                break
            first = said
        return self._format(first or _NOTHING), count

    def of_all(self, values: Iterable[bytes | None]) -> Format | None:
        """Return the format of values that all begin with one id; None: they do not.

        Raises: see `leading`.
        """
        present = [value for value in values if value is not None]
        first = present[0][:_ID_BYTES] if present else b""
        if not _is_id(first) or not all(value.startswith(first) for value in present):
            return None
        return self._format(_Said(first, stands_before=True))

    def _format(self, said: _Said) -> Format:
        known = self._formats.get(said)
        if known is not None:  # whatever another thread waits for
            return known
        with self._lock:
            if said not in self._formats:
                made = self._made(said)
                if made is None:  # it may be registered later
                    return _Undecodable(f"the registry at {self._registry.place} has no {said}")
                self._formats[said] = made
            return self._formats[said]

    def _made(self, said: _Said) -> Format | None:
        """Return the format of values that say this; None: the registry does not know it."""
        if not said.data:
            return _Undecodable("it has no id of a schema, neither before it nor in a header")
        schema = self._fetched(said)
        if schema is None:
            return None
        try:
            return self._decoded_by(schema, said)
        except SchemaError as error:
            return _Undecodable(f"{said} of the registry cannot be used: {error}")

    def _decoded_by(self, schema: Any, said: _Said) -> Format:
        kind = (schema.schema_type or "AVRO").upper()
        text = schema.schema_str or ""
        if kind == "AVRO":
            types = self._registry.types(schema)
            avro = with_types(parsed(text), types) if types else text
            return Avro(avro, schema_id=said.number if said.stands_before else None)
        if kind == "JSON" and not schema.references:
            columns = Json(read_json_schema(parsed(text)), fields="lenient")
            return _Behind(said.data, columns) if said.stands_before else columns
        raise SchemaError(f"its type is {kind}{', with references' * bool(schema.references)}")

    def _fetched(self, said: _Said) -> Any:
        client = self._registry.client
        ask = client.get_schema if _is_id(said.data) else client.get_schema_by_guid
        return self._registry.asked(str(said), ask, said.number)


class _Undecodable:
    """The format of values that cannot be decoded."""

    name = ""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """Raise for any value."""
        if values:
            raise ValueError(self._reason)
        return pa.nulls(0)


class _Behind:
    """A format of values that stand behind an id."""

    name = ""

    def __init__(self, prefix: bytes, inner: Format) -> None:
        self._length = len(prefix)
        self._inner = inner

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """See `Format.decode`."""
        return self._inner.decode([value[self._length :] for value in values])


class _Said(NamedTuple):
    """What a key or value says of its schema: a zero and a number, or a one and a UUID."""

    data: bytes
    stands_before: bool

    @property
    def number(self) -> Any:
        """The schema's id, or its UUID as text."""
        if _is_id(self.data):
            return int.from_bytes(self.data[1:], "big")
        return str(uuid.UUID(bytes=self.data[1:]))

    def __str__(self) -> str:
        return f"schema {self.number}"


_NOTHING: Final = _Said(b"", stands_before=False)


def _said(data: bytes, message: Any, header: str) -> _Said:
    for name, value in header_pairs(message.headers()):
        if name == header and value and (_is_id(value) or _is_guid(value)):
            return _Said(bytes(value), stands_before=False)
    return _Said(data[:_ID_BYTES], stands_before=True) if _is_id(data[:_ID_BYTES]) else _NOTHING


def _is_id(data: bytes) -> bool:
    return len(data) == _ID_BYTES and data[0] == 0


def _is_guid(data: bytes) -> bool:
    return len(data) == _GUID_BYTES and data[0] == 1
