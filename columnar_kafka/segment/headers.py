"""The headers of a segment, version 1: their names, their values, and all checks of them.

The contract is in ``docs/segment-format.md`` and, as data, in ``schemas/segment-v1.json``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from columnar_kafka.errors import SegmentError
from columnar_kafka.position import MAX_ROWS

__all__ = [
    "HEADER_BYTES",
    "MessageHeaders",
    "SegmentHeader",
    "header_pairs",
    "is_segment",
    "message_bytes",
    "parse_headers",
    "with_checksum",
]

ENCODING_HEADER: Final = "columnar.encoding"
VERSION_HEADER: Final = "columnar.version"
ROWS_HEADER: Final = "columnar.rows"
SEGMENT_HEADER: Final = "columnar.segment"
SCHEMA_HEADER: Final = "columnar.schema"
SCHEMA_ID_HEADER: Final = "columnar.schema.id"
TIMESTAMP_MIN_HEADER: Final = "columnar.timestamp.min"
TIMESTAMP_MAX_HEADER: Final = "columnar.timestamp.max"
CRC32_HEADER: Final = "columnar.crc32"

HEADER_BYTES: Final = 512
"""More than a segment's headers and its Kafka record batch's own fields take on the wire."""

_PARQUET: Final = re.compile(rb"parquet")
_SEGMENT_ID: Final = re.compile(rb"[0-9A-Za-z_-]{1,40}")
_FINGERPRINT: Final = re.compile(rb"[0-9a-f]{32}")
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")

_BATCH_BYTES: Final = 61  # the fields of a record batch
_RECORD_BYTES: Final = 21  # the most that a record's own fields take
_PAIR_BYTES: Final = 10  # the most that the two lengths of a header take

MessageHeaders = Sequence[tuple[str, Any]] | Mapping[str, Any]
"""confluent-kafka returns pairs; its type hints allow a dict."""


class SegmentHeader(NamedTuple):
    """The description of a segment, in its message's headers and again in its footer."""

    rows: int
    segment: str
    schema: str
    timestamp_min: int
    timestamp_max: int
    schema_id: int | None = None
    encoding: str = "parquet"
    version: int = 1

    def footer(self) -> dict[str, bytes]:
        """Return the key-value pairs for the Parquet footer: every header except the checksum."""
        pairs = {
            ENCODING_HEADER: self.encoding.encode(),
            VERSION_HEADER: b"%d" % self.version,
            ROWS_HEADER: b"%d" % self.rows,
            SEGMENT_HEADER: self.segment.encode(),
            SCHEMA_HEADER: self.schema.encode(),
            TIMESTAMP_MIN_HEADER: b"%d" % self.timestamp_min,
            TIMESTAMP_MAX_HEADER: b"%d" % self.timestamp_max,
        }
        if self.schema_id is not None:
            pairs[SCHEMA_ID_HEADER] = b"%d" % self.schema_id
        return pairs

    def check_footer(self, footer: Mapping[bytes, bytes] | None) -> None:
        """Check that the footer agrees with the headers.

        Raises:
            SegmentError: naming the first key that differs.
        """
        pairs = footer or {}
        for key, text in self.footer().items():
            other = pairs.get(key.encode())
            if other != text:
                raise SegmentError(
                    f"{key} is {text.decode()} in the headers and {_show(other)} in the file"
                )
        if self.schema_id is None and SCHEMA_ID_HEADER.encode() in pairs:
            raise SegmentError(f"{SCHEMA_ID_HEADER} is in the file and not in the headers")


def with_checksum(footer: Mapping[str, bytes], value: Any) -> dict[str, bytes]:
    """Return the message headers of the encoded `value`, whose footer has these pairs."""
    return {**footer, CRC32_HEADER: b"%d" % zlib.crc32(value)}


def is_segment(headers: MessageHeaders | None) -> bool:
    """Return whether a message with these headers is a segment; every other message is plain."""
    for key, _ in header_pairs(headers):  # noqa: SIM110 - a generator would take twice as long
        if key == ENCODING_HEADER:
            return True
    return False


def parse_headers(headers: MessageHeaders | None) -> tuple[SegmentHeader, int]:
    """Parse the headers of a segment; return them and the checksum of the value.

    Raises:
        SegmentError: a header is missing, repeated or malformed, or the version is a newer one.
    """
    values = _columnar(header_pairs(headers))
    _match(values, ENCODING_HEADER, _PARQUET)
    version = _number(values, VERSION_HEADER)
    if version != 1:
        raise SegmentError(
            f"{VERSION_HEADER} is {version}; this release of columnar-kafka reads version 1: "
            "upgrade it"
        )
    header = SegmentHeader(
        rows=_number(values, ROWS_HEADER, low=1, high=MAX_ROWS),
        segment=_match(values, SEGMENT_HEADER, _SEGMENT_ID).decode(),
        schema=_match(values, SCHEMA_HEADER, _FINGERPRINT).decode(),
        timestamp_min=_number(values, TIMESTAMP_MIN_HEADER, low=-(1 << 63)),
        timestamp_max=_number(values, TIMESTAMP_MAX_HEADER, low=-(1 << 63)),
        schema_id=_number(values, SCHEMA_ID_HEADER) if SCHEMA_ID_HEADER in values else None,
    )
    if header.timestamp_min > header.timestamp_max:
        raise SegmentError(
            f"{TIMESTAMP_MIN_HEADER} is {header.timestamp_min}, later than {TIMESTAMP_MAX_HEADER}, "
            f"{header.timestamp_max}"
        )
    return header, _number(values, CRC32_HEADER, high=(1 << 32) - 1)


def check_value(value: Any, crc32: int) -> None:
    """Check a segment's bytes against their checksum.

    Raises:
        SegmentError: they were changed or cut short.
    """
    actual = zlib.crc32(value)
    if actual != crc32:
        raise SegmentError(
            f"{CRC32_HEADER} is {crc32}, but the value has the checksum {actual}: "
            "the bytes are damaged"
        )


def header_pairs(headers: MessageHeaders | None) -> Iterable[tuple[str, Any]]:
    """Return a message's headers as pairs."""
    if type(headers) is list:  # at once: this is asked of every message
        return headers
    return headers.items() if isinstance(headers, Mapping) else headers or ()


def _columnar(headers: Iterable[tuple[str, Any]]) -> dict[str, bytes | None]:
    values: dict[str, bytes | None] = {}
    for key, value in headers:
        if key.startswith("columnar."):
            if key in values:
                raise SegmentError(f"header {key} occurs twice")
            values[key] = value.encode() if isinstance(value, str) else value
    return values


def _match(values: Mapping[str, bytes | None], key: str, pattern: re.Pattern[bytes]) -> bytes:
    value = values.get(key)
    if value is None or not pattern.fullmatch(value):
        raise SegmentError(f"header {key} is {_show(value)}, which version 1 does not allow")
    return value


def _number(
    values: Mapping[str, bytes | None], key: str, low: int = 0, high: int = (1 << 63) - 1
) -> int:
    number = int(_match(values, key, _INTEGER))
    if not low <= number <= high:
        raise SegmentError(f"header {key} is {number}; it must be from {low} to {high}")
    return number


def _show(value: bytes | None) -> str:
    return "missing" if value is None else repr(value[:60])


def message_bytes(key: bytes | None, value: Any, headers: MessageHeaders | None) -> int:
    """Return the most bytes that a message takes on the wire, alone in its record batch."""
    size = _BATCH_BYTES + _RECORD_BYTES + len(key or b"") + len(value or b"")
    for name, content in header_pairs(headers):
        size += _PAIR_BYTES + len(name.encode()) + len(content or b"")
    return size
