"""A value that is text or bytes as a row of its topic's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.errors import RowError
from columnar_kafka.producing.accepting.arguments import check_metadata

if TYPE_CHECKING:
    from columnar_kafka.producing.engine.base import Metadata, TopicFormat

__all__ = ["GivenRow", "given_row"]

_KEPT_BYTES: Final = 48  # the memory of a value's object, in addition to its bytes


class GivenRow(NamedTuple):
    """What is appended to a batch; the metadata has the value where it is kept."""

    values: tuple[Any, ...]
    metadata: Metadata
    nbytes: int


def given_row(topic_format: TopicFormat, value: bytes, metadata: Metadata) -> GivenRow:
    """Return the row of a value, and the bytes that it may hold.

    Raises:
        RowError: it does not fit the topic's format.
    """
    assert topic_format.values is not None
    most = topic_format.limits.most
    if len(value) > most:
        raise RowError(f"it has {len(value)} bytes, and a segment of this topic at most {most}")
    key, timestamp, headers, callback, _ = metadata
    check_metadata(topic_format, key=key, headers=headers)
    values, nbytes = topic_format.values.taken(value)
    if callback is not None or len(value) >= topic_format.limits.kept_bytes:
        metadata = (key, timestamp, headers, callback, value)
        nbytes += len(value) + _KEPT_BYTES
    return GivenRow(values, metadata, nbytes)
