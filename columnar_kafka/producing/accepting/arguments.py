"""The arguments of `produce` and its like, checked and encoded as confluent-kafka does it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.errors import RowError, produce_error

if TYPE_CHECKING:
    from columnar_kafka.columns.kafka_column import RecordHeaders
    from columnar_kafka.producing.engine.base import TopicFormat

__all__ = [
    "check_metadata",
    "encode_headers",
    "encode_key",
    "first_given",
    "integers",
    "partition_and_timestamp",
]

_T = TypeVar("_T")

_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_PAIR: Final = 2
_HEADER_BYTES: Final = 100
"""The memory of one header's objects, in addition to its bytes."""


def first_given(*callbacks: _T | None) -> _T | None:
    """Return the first that is not None: one that collects reports may be empty, and so false."""
    for callback in callbacks:
        if callback is not None:
            return callback
    return None


def encode_key(key: Any) -> bytes | None:
    """Return a key as the bytes that go on the wire.

    Raises:
        TypeError: not bytes, str or None (as confluent-kafka).
    """
    if key is None:
        return None
    if isinstance(key, bytes):
        return _exact(key)
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"a bytes-like object is required, not '{type(key).__name__}'")


def encode_headers(headers: Any) -> tuple[RecordHeaders | None, int]:
    """Return the headers, a list of pairs or a dict, as bytes, and an estimate of their memory.

    Empty headers become None. A key that is not text is stored as its `str`, as in confluent-kafka.

    Raises:
        TypeError: not such a list or dict (as confluent-kafka).
    """
    if headers is None:
        return None, 0
    if isinstance(headers, dict):
        headers = headers.items()
    elif not isinstance(headers, list):
        raise TypeError(
            "expected headers to be dict or list of (key, value) tuples, "
            f"not {type(headers).__name__}"
        )
    pairs: RecordHeaders = []
    nbytes = 0
    for pair in headers:
        if not isinstance(pair, tuple) or len(pair) != _PAIR:
            raise TypeError("Headers are expected to be a list of (key, value) tuples")
        key, value = pair
        key = str.__str__(key if isinstance(key, str) else str(key))
        if isinstance(value, str):
            value = value.encode()
        elif isinstance(value, bytes):
            value = _exact(value)
        elif value is not None:
            raise TypeError(
                "expected header value to be None, binary, or unicode string, "
                f"not {type(value).__name__}"
            )
        pairs.append((key, value))
        nbytes += _HEADER_BYTES + len(key.encode()) + len(value or b"")
    return pairs or None, nbytes


def _exact(data: bytes) -> bytes:
    """Return bytes of a subclass as such of Python's own, which the native core takes."""
    return b"".join((data,))


def integers(partition: Any, timestamp: Any) -> tuple[int, int]:
    """Return both as integers that Kafka can hold.

    Raises:
        TypeError, OverflowError: not an integer, or too large (as confluent-kafka).
    """
    partition, timestamp = operator.index(partition), operator.index(timestamp)
    if not -_INT32 <= partition < _INT32:
        bound = "greater than maximum" if partition > 0 else "less than minimum"
        raise OverflowError(f"signed integer is {bound}")
    if not -_INT64 <= timestamp < _INT64:
        raise OverflowError("int too big to convert")
    return partition, timestamp


def partition_and_timestamp(
    topic_format: TopicFormat, partition: Any, timestamp: Any
) -> tuple[int, int]:
    """Return both as integers that Kafka can hold.

    Raises:
        TypeError, OverflowError: as `integers`.
        KafkaException: ``_UNKNOWN_PARTITION``: the topic has no such partition.
    """
    partition, timestamp = integers(partition, timestamp)
    if partition < -1 or partition >= (topic_format.limits.partitions or _INT32):
        raise KafkaException(produce_error(KafkaError._UNKNOWN_PARTITION))
    return partition, timestamp


def check_metadata(topic_format: TopicFormat, **metadata: Any) -> None:
    """Refuse a key or headers where the topic's segments do not store them.

    Raises:
        RowError: the name of the metadata, and how to have it stored.
    """
    members = topic_format.kafka.members
    for name, value in metadata.items():
        if value is not None and name not in members:
            raise RowError(
                f"columnar.metadata={','.join(members) or 'none'} does not store a record's "
                f"{name}: add {name!r} to it, or produce without"
            )
