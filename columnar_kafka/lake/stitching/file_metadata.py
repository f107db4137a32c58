"""The key-values in the footer of a file with the rows of several segments: which messages it has.

A verbatim file has those of its segment instead, see `segment.headers`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from columnar_kafka.errors import LakeError
from columnar_kafka.segment.headers import (
    ROWS_HEADER,
    SCHEMA_HEADER,
    SEGMENT_HEADER,
    VERSION_HEADER,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.model import SourcePartition

__all__ = ["FileMessages", "file_messages", "file_metadata"]

_SEGMENTS: Final = "columnar.segments"
_CLUSTER: Final = "columnar.cluster"
_TOPIC_ID: Final = "columnar.topic.id"
_TOPIC: Final = "columnar.topic"
_PARTITION: Final = "columnar.partition"
_FIRST: Final = "columnar.offset.first"
_LAST: Final = "columnar.offset.last"
_PATH: Final = re.compile(r"(?:^|/)([^/]+)/p([0-9]+)-([0-9]{20})-[^/]*\.parquet$", re.ASCII)


class FileMessages(NamedTuple):
    """Which messages a file has; of a verbatim file `cluster` and `topic_id` are not known."""

    topic: str
    partition: int
    first: int
    last: int
    segments: int
    schema: str
    cluster: str = ""
    topic_id: str = ""
    is_verbatim: bool = False


def file_metadata(
    source: SourcePartition, *, schema: str, rows: int, segments: int, first: int, last: int
) -> dict[str, str]:
    """Return the key-values of a file, equal for equal input.

    So staging the same input again makes the same file. The segments' own key-values are left out:
    a segment's id and times are in its rows.

    Args:
        source: the partition that all rows are from.
        schema: the fingerprint of the file's schema.
        rows: the number of its rows.
        segments: the number of segments that these are from.
        first: the Kafka offset of the first of these.
        last: that of the last one.
    """
    return {
        VERSION_HEADER: "1",
        SCHEMA_HEADER: schema,
        ROWS_HEADER: str(rows),
        _SEGMENTS: str(segments),
        _CLUSTER: source.generation.cluster,
        _TOPIC_ID: source.generation.topic_id,
        _TOPIC: source.topic,
        _PARTITION: str(source.partition),
        _FIRST: str(first),
        _LAST: str(last),
    }


def file_messages(path: str, metadata: Mapping[bytes, bytes] | None) -> FileMessages | None:
    """Return which messages a file has, by the key-values of its footer, and maybe its `path`.

    Returns:
        None for a file of another program.

    Raises:
        LakeError: a verbatim file has another name than it was given.
        KeyError, ValueError: the key-values are not as `file_metadata` and segments have them.
    """
    pairs = {
        key.decode(): value.decode()
        for key, value in (metadata or {}).items()
        if key.startswith(b"columnar.")
    }
    if _FIRST in pairs:
        return FileMessages(
            topic=pairs[_TOPIC],
            partition=int(pairs[_PARTITION]),
            first=int(pairs[_FIRST]),
            last=int(pairs[_LAST]),
            segments=int(pairs[_SEGMENTS]),
            schema=pairs[SCHEMA_HEADER],
            cluster=pairs[_CLUSTER],
            topic_id=pairs[_TOPIC_ID],
            is_verbatim=SEGMENT_HEADER in pairs,
        )
    if SEGMENT_HEADER not in pairs:
        return None
    if (match := _PATH.search(path)) is None:
        raise LakeError("its name does not say which message it is")
    offset = int(match[3])
    return FileMessages(
        topic=match[1].lstrip("~@"),
        partition=int(match[2]),
        first=offset,
        last=offset,
        segments=1,
        schema=pairs[SCHEMA_HEADER],
        is_verbatim=True,
    )
