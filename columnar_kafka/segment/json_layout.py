"""What a footer says of records that were JSON: `columnar.json`, see ``docs/segment-format.md``."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pyarrow as pa

from columnar_kafka.errors import SegmentError
from columnar_kafka.segment.time_form import TimeForm

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

__all__ = ["JSON_KEY", "JsonLayout"]

JSON_KEY: Final = b"columnar.json"
_SHOWN: Final = 200


class JsonLayout(NamedTuple):
    """How columns and the rest are to become JSON objects; fields are named by their paths.

    Attributes:
        rest: the column that has the rest; None: there is none.
        nulls: the fields whose null says null; that of others says that there was no such field.
            None: every null says null, as in records that were produced as rows.
        texts: the columns of JSON text.
        uuids: the columns of 16 bytes that are UUIDs.
        times: the forms of columns of times, where they are not usual.
        inferred: whether the columns are a guess of the producer, and another one's may differ.
    """

    rest: str | None = None
    nulls: AbstractSet[str] | None = None
    texts: AbstractSet[str] = frozenset()
    uuids: AbstractSet[str] = frozenset()
    times: Mapping[str, TimeForm] = MappingProxyType({})
    inferred: bool = False

    @classmethod
    def parse(cls, text: bytes | None, schema: pa.Schema) -> JsonLayout:
        """Return what the footer of a file with these columns says; None: it has no such key.

        Keys and paths that are unknown are ignored.

        Raises:
            SegmentError: it is malformed. It does not say where.
        """
        if text is None:
            return cls()
        try:
            said: Any = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if type(said) is not dict:
            _refuse(text, "it must be a JSON object")
        rest = said.get("rest")
        if rest is not None and not _is_rest(rest, schema):
            _refuse(text, "rest must be the name of a column of text that may be null")
        nulls, texts, uuids = (_paths(text, said, name) for name in ("nulls", "texts", "uuids"))
        inferred = said.get("inferred") is True
        return cls(rest, nulls, texts, uuids, _times(text, said), inferred)

    def footer(self) -> dict[str, bytes]:
        """Return the key-value pair of a file's footer that says this; `nulls` are not None."""
        assert self.nulls is not None
        paths = {"nulls": self.nulls, "texts": self.texts, "uuids": self.uuids}
        parts: dict[str, Any] = {"rest": self.rest}
        parts |= {name: sorted(some) for name, some in paths.items()}
        parts["times"] = {path: form.text() for path, form in sorted(self.times.items())}
        parts["inferred"] = self.inferred
        given = {name: part for name, part in parts.items() if part}
        text = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
        return {JSON_KEY.decode(): text.encode()}

    def time_form(self, path: str, *, has_date: bool, has_zone: bool) -> TimeForm:
        """Return the form of a column of times."""
        usual = TimeForm("T" if has_date else "", zone="Z" if has_zone else "")
        return self.times.get(path, usual)

    def says_null(self, path: str) -> bool:
        """Return whether null in a field's column says null, and not that there was no field."""
        return self.nulls is None or path in self.nulls


def _is_rest(name: Any, schema: pa.Schema) -> bool:
    if type(name) is not str or name not in schema.names:
        return False
    field = schema.field(name)
    return field.nullable and field.type in (pa.string(), pa.large_string())


def _paths(text: bytes, said: dict[str, Any], name: str) -> frozenset[str]:
    paths = said.get(name, [])
    if type(paths) is not list or any(type(path) is not str for path in paths):
        _refuse(text, f"{name} must be a list of fields' paths")
    return frozenset(paths)


def _times(text: bytes, said: dict[str, Any]) -> dict[str, TimeForm]:
    times, forms = said.get("times", {}), dict[str, TimeForm]()
    for path, form in times.items() if type(times) is dict else [("", None)]:
        known = TimeForm.parse(form) if type(form) is str else None
        if known is None:
            _refuse(text, "times must be an object of fields' paths and forms such as T[.000]Z")
        forms[path] = known
    return forms


def _refuse(text: bytes, what: str) -> NoReturn:
    shown = text[:_SHOWN].decode(errors="replace")
    raise SegmentError(
        f"{JSON_KEY.decode()} is {shown} in the file: {what}; with columnar.value.format=rows its "
        "records can be read"
    )
