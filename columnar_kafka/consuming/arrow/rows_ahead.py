"""How many of the next rows may become one table, as far as the messages' headers tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from columnar_kafka.consuming.feed.together import count_of, rows_of
from columnar_kafka.errors import SegmentError
from columnar_kafka.segment.headers import ENCODING_HEADER, is_segment, parse_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from columnar_kafka.consuming.arrow.projection import Projection
    from columnar_kafka.consuming.feed.open_segment import OpenSegment

__all__ = ["RowsAhead"]


class RowsAhead:
    """Counts the rows of the segment that is open, and of the messages that are buffered behind it.

    It holds for one `generation` of the buffer, whose messages only grow in number meanwhile.
    """

    def __init__(self, projection: Projection, opened: OpenSegment | None, generation: int) -> None:
        """Begin with the segment that is open; a `projection` may let several schemas be one."""
        self.generation = generation
        self.messages = 0
        self.rows = 0
        self.plain = 0
        self.last_plain: Message | None = None
        self._may_differ = projection.promote or projection.columns is not None
        self._is_ended = False
        self._is_plain = opened is None  # so far
        self._topic: str | None = None
        self._schema = ""
        if opened is not None:
            segment = opened.segment
            self._count(segment.topic, segment.header.schema, segment.rows - opened.row)

    def has(self, rows: int) -> bool:
        """Say whether there are so many, or there is something that cannot go with them."""
        return self._is_ended or self.rows >= rows

    def add(self, messages: Sequence[Message]) -> None:
        """Count the rows of messages."""
        self.messages += len(messages)
        topic = _plain_topic(messages) if self._is_plain else None
        if topic is not None and self._topic in (None, topic):
            self._topic = topic
            self.plain += len(messages)
            self.rows += count_of(messages)
            self.last_plain = messages[-1]
            return
        self._is_plain = self._is_plain and not messages
        for message in messages:
            if message.error() is not None:
                self._is_ended = True
            elif is_segment(message.headers()):
                self._add_segment(message)
            else:
                self._count(message.topic(), "", rows_of(message))
            if self._is_ended:
                return

    def _add_segment(self, message: Message) -> None:
        try:
            header, _ = parse_headers(message.headers())
        except SegmentError:
            self._is_ended = True
        else:
            self._count(message.topic(), header.schema, header.rows)

    def _count(self, topic: str | None, schema: str, rows: int) -> None:
        if self._topic is None:
            self._topic, self._schema = topic, schema
        if topic != self._topic or (schema != self._schema and not self._may_differ):
            self._is_ended = True
        self.rows += rows


def _plain_topic(messages: Sequence[Message]) -> str | None:
    """Return the topic of the messages; None if one is not plain, or if they have several topics.

    May be called with 100,000 messages, hence comprehensions and no Python call per message.
    """
    topics = {message.topic() for message in messages}
    all_headers: Any = [message.headers() for message in messages]
    names = {pair[0] for headers in all_headers if headers for pair in headers}
    errors = {message.error() for message in messages}
    return (
        topics.pop()
        if len(topics) == 1 and errors == {None} and ENCODING_HEADER not in names
        else None
    )
