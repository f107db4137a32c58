"""What the rest of the pipeline knows of turning rows into columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.errors import RowError

__all__ = ["Builder", "Columns", "Converted", "Refusal"]


class Refusal(NamedTuple):
    """A row that does not fit its schema."""

    error: RowError
    value: dict[str, Any]


class Converted(NamedTuple):
    """The columns of the rows that fit, and the others by their index."""

    batch: pa.RecordBatch
    refused: dict[int, Refusal]


class Builder(Protocol):
    """Collects rows and turns them into columns once. Not thread-safe."""

    def __len__(self) -> int: ...

    @property
    def capacity(self) -> int:
        """The rows after which it is time to `finish` this builder and go on with a new one."""
        ...

    def append(self, values: tuple[Any, ...]) -> None:
        """Add one row, as `Columns.take` returned it."""
        ...

    def finish(self) -> Converted:
        """Return the columns; called once."""
        ...


class Columns(Protocol):
    """Rows of one schema to columns. Thread-safe."""

    def take(self, row: Any) -> tuple[tuple[Any, ...], int]:
        """Return a row's values, and the bytes they may hold.

        A row, and a record inside one, is a dict or any mapping, a namedtuple, or an object of a
        dataclass, attrs, msgspec or pydantic class. A field that it leaves out gets its Avro
        default. A naive datetime in a column with a time zone is UTC; one with a zone is refused
        in a column without. Nothing of what is returned can be changed through the caller's own
        objects.

        Raises:
            RowError: a field is missing, unknown, or of a wrong Python type. What the type does not
                tell, such as an integer too large, is refused by `Builder.finish`.
            TypeError: not a row at all.
        """
        ...

    def builder(self) -> Builder:
        """Return an empty builder."""
        ...
