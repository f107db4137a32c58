"""What a topic's format has in place of columns, while it makes no segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from columnar_kafka.producing.engine.base import TopicFormat

__all__ = ["NO_COLUMNS"]


class NoColumns:
    """Takes no rows: `RowColumns` and `Engine` of such a format. For any thread."""

    habits = None

    def take(self, row: Any) -> NoReturn:
        """Refuse a row, as confluent-kafka does. Raises TypeError."""
        raise TypeError(
            f"a bytes-like object is required, not '{type(row).__name__}': rows need a topic "
            "with a schema; call set_schema() first"
        )

    def open_batch(self, topic_format: TopicFormat, partition: int, accepted_at: float) -> NoReturn:
        """Refuse rows. Raises TypeError."""
        self.take({})


NO_COLUMNS: Final[Any] = NoColumns()
