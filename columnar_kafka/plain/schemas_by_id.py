"""The schemas of a registry, by the ids that keys and values say, each fetched once."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.errors import SchemaError
from columnar_kafka.plain.registry_client import RegistryClient, parsed
from columnar_kafka.schema.avro import with_types
from columnar_kafka.segment.headers import header_pairs

if TYPE_CHECKING:
    from columnar_kafka.segment.headers import MessageHeaders

__all__ = ["HEADERS", "NO_ID", "Found", "Said", "SchemasById", "said_before", "said_of"]

NO_ID: Final = "it has no id of a schema, neither before it nor in a header"
HEADERS: Final = {True: "__key_schema_id", False: "__value_schema_id"}
"""The headers that have the ids of keys, and of values."""
_ID_BYTES: Final = 5  # a zero, and a number of 32 bits
_GUID_BYTES: Final = 17  # a one, and a UUID


class Said(NamedTuple):
    """What a key or value says of its schema: a zero and a number, or a one and a UUID.

    Without `data` it says nothing.
    """

    data: bytes = b""
    stands_before: bool = False

    @property
    def number(self) -> Any:
        """The schema's id, or its UUID as text."""
        if is_id(self.data):
            return int.from_bytes(self.data[1:], "big")
        return str(uuid.UUID(bytes=self.data[1:]))

    @property
    def length(self) -> int:
        """How many bytes stand before the datum."""
        return len(self.data) if self.stands_before else 0

    def __str__(self) -> str:
        return f"schema {self.number}"


class Found(NamedTuple):
    """A schema: of which kind, and what it says, with the schemas that it refers to inside it."""

    kind: str
    schema: Any


class SchemasById:
    """Asks a registry for each id once. For any thread; the others wait while one is fetched."""

    def __init__(self, client: Any) -> None:
        """Ask a registry. As `RegistryClient`."""
        self._registry = RegistryClient(client)
        self._known: dict[Said, Found | SchemaError] = {}
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        """See `RegistryClient.place`."""
        return self._registry.place

    def find(self, said: Said) -> Found:
        """Return the schema with an id. Blocks while the registry is asked.

        Raises:
            SchemaError: there is no id; the registry does not have it, but may have it later; or it
                cannot be used.
            RegistryError: the registry does not answer, or denies it.
        """
        if not said.data:
            raise SchemaError(NO_ID)
        known = self._known.get(said)
        if known is None:  # else it is known, whatever another thread waits for
            with self._lock:
                known = self._known.get(said) or self._fetched(said)
                self._known[said] = known
        if isinstance(known, SchemaError):
            raise known
        return known

    def refusal(self, said: Said, error: SchemaError) -> SchemaError:
        """Return the error for a schema that cannot be used."""
        return SchemaError(f"{said} of the registry cannot be used: {error}")

    def _fetched(self, said: Said) -> Found | SchemaError:
        client = self._registry.client
        ask = client.get_schema if is_id(said.data) else client.get_schema_by_guid
        schema = self._registry.asked(str(said), ask, said.number)
        if schema is None:
            raise SchemaError(f"the registry at {self.place} has no {said}")
        try:
            return self._read(schema)
        except SchemaError as error:
            return self.refusal(said, error)

    def _read(self, schema: Any) -> Found:
        kind = (schema.schema_type or "AVRO").upper()
        text = schema.schema_str or ""
        if kind == "AVRO":
            types = self._registry.types(schema)
            return Found(kind, with_types(parsed(text), types) if types else text)
        if kind == "JSON" and not schema.references:
            return Found(kind, parsed(text))
        raise SchemaError(f"its type is {kind}{', with references' * bool(schema.references)}")


def said_of(data: bytes, headers: MessageHeaders | None, *, is_key: bool = False) -> Said:
    """Return what a key or value says, in a header if it is there, or before the datum."""
    header = HEADERS[is_key]
    for name, value in header_pairs(headers):
        if name == header and value and (is_id(value) or _is_guid(value)):
            return Said(bytes(value))
    return said_before(data)


def said_before(data: bytes) -> Said:
    """Return what stands before a datum."""
    first = bytes(data[:_ID_BYTES])
    return Said(first, stands_before=True) if is_id(first) else Said()


def is_id(data: bytes) -> bool:
    """Return whether these are a zero and a number."""
    return len(data) == _ID_BYTES and data[0] == 0


def _is_guid(data: bytes) -> bool:
    return len(data) == _GUID_BYTES and data[0] == 1
