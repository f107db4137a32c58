# The native core's types; the sources are in `native/`.

import datetime
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from typing_extensions import Self

_Table = TypeVar("_Table")

# A field: its name, whether it may be null, the name of its type, details, and its children.
Described: TypeAlias = tuple[str, bool, str, Any, tuple[Described, ...]]

class RowFormat:
    def __new__(
        cls,
        columns: Sequence[Described],
        leaf_sizes: Sequence[tuple[int, int]],
        most_decoded: int,
    ) -> Self: ...

class Usage:
    bytes: int
    records: int
    def __new__(cls, max_bytes: int, max_records: int | None = None) -> Self: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def max_records(self) -> int | None: ...
    @property
    def accepts(self) -> bool: ...
    @property
    def stops(self) -> int: ...
    def stop(self) -> None: ...
    def resume(self, stops: int) -> None: ...

class Batch:
    def __new__(cls, row_format: RowFormat, max_rows: int, max_bytes: int) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    def append(
        self,
        row: tuple[Any, ...],
        key: bytes | None,
        timestamp: int,
        headers: list[tuple[str, bytes | None]] | None,
        callback: Callable[..., Any] | None,
        usage: Usage,
        pinned: bool = False,
    ) -> bool: ...
    def seal(self) -> Block: ...

class Abandoned:
    error: Exception | None
    def __new__(cls) -> Self: ...

class Reports:
    def __new__(cls, block: Block, cls_: type, context: Any, error: Any) -> Self: ...
    reported: int
    def run(self, abandoned: Abandoned) -> None: ...

class Block:
    def __len__(self) -> int: ...
    @property
    def is_silent(self) -> bool: ...
    def slice(self, start: int, stop: int) -> Block: ...
    def values(self, start: int, stop: int) -> list[dict[str, Any]]: ...
    def key(self, row: int) -> bytes | None: ...
    def timestamp(self, row: int) -> int: ...
    def headers(self, start: int, stop: int) -> list[list[tuple[str, bytes | None]] | None]: ...
    def callback(self, row: int) -> Callable[..., Any] | None: ...
    def is_pinned(self, row: int) -> bool: ...
    def is_decodable(self) -> bool: ...
    def time_bounds(self) -> tuple[int, int]: ...

class Encoder:
    def __new__(
        cls,
        leaves: Sequence[tuple[list[str], str, bool]],
        schema_elements: bytes,
        key_values: Sequence[tuple[bytes, bytes]],
        created_by: str,
        compression: str,
        members: Sequence[str],
    ) -> Self: ...
    def encode(self, block: Block, segment: str, key_values: dict[str, bytes]) -> bytes: ...

class File:
    @staticmethod
    def open(data: bytes, crc32: int, max_footer_bytes: int) -> File | None: ...
    @property
    def rows(self) -> int: ...
    @property
    def key(self) -> bytes: ...
    @property
    def metadata(self) -> list[tuple[bytes, bytes]]: ...
    def schema(self, columns: Sequence[Described]) -> FileSchema | None: ...
    def read(
        self, schema: FileSchema, start: int, max_values: int, max_bytes: int
    ) -> RecordReader | None: ...
    def check(self, schema: FileSchema, max_values: int, max_bytes: int) -> bool: ...
    def table(
        self,
        schema: TableSchema,
        imported: Callable[[int], _Table],
        max_values: int,
        max_bytes: int,
    ) -> _Table | None: ...

class FileSchema: ...

# Bits of numbers or offsets, or 0, and the same of what is inside.
ArrayLayout: TypeAlias = tuple[int, Sequence[Any]]

class TableSchema:
    def __new__(
        cls, schema: FileSchema, columns: Sequence[tuple[int, list[int] | None, ArrayLayout]]
    ) -> Self: ...

# Version, schema, leaf columns, rows, row groups, Arrow schema, writer, and column orders.
CopiedFooter: TypeAlias = tuple[int, bytes, int, int, list[bytes], bytes | None, bytes, bytes]

def copy_footer(footer: bytes, body_end: int, shift: int, ordinal: int) -> CopiedFooter | None: ...

class RecordReader:
    def __len__(self) -> int: ...
    def next(
        self, max_rows: int, max_bytes: int, timestamp: int
    ) -> tuple[
        list[dict[str, Any]],
        list[bytes | None],
        list[int],
        list[list[tuple[str, bytes | None]] | None],
    ]: ...

class RecordMaker:
    def __new__(cls, cls_: type) -> Self: ...
    def make(
        self,
        context: Any,
        first: int,
        parts: tuple[
            list[Any],
            list[bytes | None],
            list[int],
            list[list[tuple[str, bytes | None]] | None],
        ],
    ) -> list[Any]: ...

class OpenBatches:
    def __new__(
        cls,
        usage: Usage,
        partitioner: str,
        filled: Callable[[str, int], None],
        opener: Callable[[str, int], bool],
        default_callback: Callable[..., Any] | None = None,
    ) -> Self: ...
    def set_topic(
        self,
        topic: str,
        partitions: int,
        *,
        row_format: RowFormat,
        stores_keys: bool,
        stores_headers: bool,
    ) -> None: ...
    def place(
        self, topic: str, partition: int, key: bytes | None, row_format: RowFormat
    ) -> int | None: ...
    def batch(self, topic: str, partition: int) -> Batch | None: ...
    def open(self, topic: str, partition: int, batch: Batch, item: Any, queue: Any) -> None: ...
    def close(self, topic: str, partition: int, key: bytes | None) -> int: ...
    def close_all(self, topic: str) -> None: ...

# The names of a class's fields, the place of each, and slots for more fields.
Layout: TypeAlias = tuple[list[str], list[Any], list[Any]]

def learn_class(cls: type, judge: Callable[[type], Layout | None]) -> None: ...
def learn_utc(zone: datetime.tzinfo) -> None: ...
def produce_method(cls: type, slot: str, fallback: Callable[..., None]) -> Any: ...
