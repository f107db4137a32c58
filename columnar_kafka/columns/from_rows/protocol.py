"""The interface between the producer and what turns rows into columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.errors import RowError

__all__ = ["Builder", "Columns", "Converted", "RejectedRow"]


class RejectedRow(NamedTuple):
    """A row that does not fit its schema, as `Columns.row` returns it, and why."""

    error: RowError
    value: dict[str, Any]


class Converted(NamedTuple):
    """The columns of the rows that fit, and the rejected rows by their index among all rows."""

    batch: pa.RecordBatch
    rejected: dict[int, RejectedRow]


class Builder(Protocol):
    """Collects rows and turns them into columns once. Not thread-safe."""

    @property
    def capacity(self) -> int:
        """The number of rows after which to `finish` this builder and start a new one."""
        ...

    def append(self, values: tuple[Any, ...]) -> None:
        """Add one row, as `Columns.take` returned it."""
        ...

    def finish(self) -> Converted:
        """Return the columns; called once."""
        ...


class Columns(Protocol):
    """Turns rows of one schema into columns. Thread-safe."""

    def take(self, row: Any) -> tuple[tuple[Any, ...], int]:
        """Check and copy a row; return its values, and the bytes that they may hold.

        A row, or a record inside a row, is a dict or any mapping, a namedtuple, or an object of a
        dataclass, attrs, msgspec or pydantic class. A missing field gets its Avro default. In a
        column with a time zone a naive datetime is UTC; a datetime with a time zone does not fit a
        column without one. The caller's objects can no longer change the values returned.

        Raises:
            RowError: a field is missing or unknown, has the wrong Python type, or is out of its
                column's range. `Builder.finish` rejects what only the conversion can tell, such as
                bytes of another length than the schema fixes.
            TypeError: the object is not a row.
        """
        ...

    def builtin(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what `take` has returned in objects of builtin classes, as the native core wants.

        The columns are the same. Where a column cannot hold a value, `values` are returned. It may
        run code of the user's: of a time's zone, or of a number's class.
        """
        ...

    def row(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return what `take` has returned as a row, which `take` accepts again."""
        ...

    def builder(self) -> Builder:
        """Return an empty builder."""
        ...
