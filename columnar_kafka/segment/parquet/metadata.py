"""What a Parquet file says of its column chunks, in the footer, and of its pages, before each.

Read from the bytes, since pyarrow's own attributes of it end the process on some (a codec that does
not exist), and do not tell of pages at all.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Cursor,
    ThriftError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "ARROW_CHUNK",
    "DATA",
    "DATA_V2",
    "DICTIONARY",
    "Chunk",
    "Group",
    "Page",
    "arrow_schemas",
    "groups",
    "last",
    "page",
]

DATA, DICTIONARY, DATA_V2 = 0, 2, 3

# parquet.thrift: ids of the fields read here, and the kinds they must have.
_F_SCHEMA, _F_GROUPS, _F_PAIRS, _G_COLUMNS, _G_ROWS, _C_META = 2, 4, 5, 1, 3, 3
_M_TYPE, _M_ENCODINGS, _M_CODEC, _M_VALUES, _M_SIZE, _M_DATA, _M_DICTIONARY = 1, 2, 4, 5, 7, 9, 11
_META: Final = {1: I32, 2: LIST, 4: I32, 5: I64, 7: I64, 9: I64, 11: I64}
_P_TYPE, _P_SIZE, _P_COMPRESSED, _P_CRC, _P_DATA, _P_DICTIONARY, _P_DATA_V2 = 1, 2, 3, 4, 5, 7, 8
_PAGE: Final = {1: I32, 2: I32, 3: I32, 4: I32, 5: STRUCT, 7: STRUCT, 8: STRUCT}
_PARTS: Final = {  # by type: where values and encoding are said, then definition, repetition, …
    DATA: (_P_DATA, (1, 2, 3, 4)),
    DICTIONARY: (_P_DICTIONARY, (1, 2)),
    DATA_V2: (_P_DATA_V2, (1, 4, 5, 6, 7)),
}
_V2_IS_COMPRESSED: Final = 7
_I32: Final = range(-(1 << 31), 1 << 31)


class Chunk(NamedTuple):
    """One column chunk: `size` bytes from `start` in the file, with `values`, nulls counted too.

    Codec and encodings are numbers of parquet.thrift.
    """

    encodings: tuple[int, ...]
    codec: int
    values: int
    start: int
    size: int


class Group(NamedTuple):
    """One row group: so many rows, and its column chunks in the schema's order."""

    rows: int
    chunks: list[Chunk]


class Page(NamedTuple):
    """A page's header; what it does not say is -1. Types: `DATA`, `DICTIONARY`, `DATA_V2`.

    `size` bytes are `compressed` to so many. `definition` and `repetition` are the encodings of the
    levels, in a page of type `DATA_V2` their bytes.
    """

    type: int
    size: int
    compressed: int
    has_checksum: bool
    values: int
    encoding: int
    definition: int = -1
    repetition: int = -1
    is_compressed: int = -1


def groups(footer: bytes) -> Iterator[Group]:
    """Yield the row groups of a footer.

    Raises:
        ThriftError, IndexError: it is damaged.
    """
    cursor, schema = Cursor(footer), b""
    for fid, kind in cursor.fields({_F_SCHEMA: LIST, _F_GROUPS: LIST}):
        if fid == _F_GROUPS:
            for _ in range(cursor.structs()):
                yield _group(cursor)
        elif fid == _F_SCHEMA:
            schema = cursor.span(LIST, known=last.schema)
        else:
            cursor.skip(kind)
    last.schema = schema


_ARROW_SCHEMA: Final = b"ARROW:schema"
_ARROW_PAIR: Final = re.compile(rb"\x18\x0c%s\x18" % _ARROW_SCHEMA)


def arrow_schemas(footer: bytes) -> list[bytes]:
    """Return the Arrow schemas in a footer, as they are encoded there; one as a rule.

    Raises:
        ThriftError, IndexError: it is damaged.
    """
    found = [match.end() for match in _ARROW_PAIR.finditer(footer)]
    if footer.count(_ARROW_SCHEMA) == len(found):  # as every known writer has it
        return [Cursor(footer, at).binary() for at in found]
    return [value for key, value in _pairs(footer) if key == _ARROW_SCHEMA]


def _pairs(footer: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a footer."""
    cursor = Cursor(footer)
    for fid, kind in cursor.fields({_F_PAIRS: LIST}):
        if fid != _F_PAIRS:
            cursor.skip(kind)
            continue
        for _ in range(cursor.structs()):
            pair = {1: b"", 2: b""}
            for place, inner in cursor.fields(dict.fromkeys(pair, BINARY)):
                if place in pair:
                    pair[place] = cursor.binary()
                else:
                    cursor.skip(inner)
            yield pair[1], pair[2]


class _Last:
    """The encoded schema of the last file that was read: mostly it is that of the next one too.

    It is set when the footer has been read to its end: then it is known to be complete.
    """

    schema = b""


last: Final = _Last()


def _i32(cursor: Cursor) -> int:
    """Read an integer that Arrow would cut to 32 bits."""
    value = cursor.integer()
    if value not in _I32:
        raise ThriftError(f"{value} has more than 32 bits")
    return value


def _group(cursor: Cursor) -> Group:
    rows, chunks = 0, []
    for fid, kind in cursor.fields({_G_COLUMNS: LIST, _G_ROWS: I64}):
        if fid == _G_COLUMNS:
            chunks = [_chunk(cursor) for _ in range(cursor.structs())]
        elif fid == _G_ROWS:
            rows = cursor.integer()
        else:
            cursor.skip(kind)
    return Group(rows, chunks)


def _chunk(cursor: Cursor) -> Chunk:
    if match := ARROW_CHUNK.match(cursor.buf, cursor.pos):
        cursor.pos = match.end()
        start, dictionary = thrift.decoded(match["data"]), match["dictionary"]
        return Chunk(
            encodings=_encodings(match["encodings"]),
            codec=thrift.decoded(match["codec"]),
            values=thrift.decoded(match["values"]),
            start=_start(start, thrift.decoded(dictionary) if dictionary else 0),
            size=thrift.decoded(match["size"]),
        )
    return _any_chunk(cursor)


def _any_chunk(cursor: Cursor) -> Chunk:
    found = None
    for fid, kind in cursor.fields({_C_META: STRUCT}):
        if fid == _C_META:
            found = _meta(cursor)
        else:
            cursor.skip(kind)
    if found is None:
        raise ThriftError("a column chunk without metadata")
    return found


def _meta(cursor: Cursor) -> Chunk:
    found: dict[int, int] = {}
    encodings = b"\0"
    for fid, kind in cursor.fields(_META):
        if fid == _M_ENCODINGS:
            encodings = cursor.span(LIST, known=b"")
        elif fid in _META:
            found[fid] = _i32(cursor) if kind == I32 else cursor.integer()
        else:
            cursor.skip(kind)
    return Chunk(
        encodings=_encodings(encodings),
        codec=found.get(_M_CODEC, -1),
        values=found.get(_M_VALUES, -1),
        start=_start(found.get(_M_DATA, -1), found.get(_M_DICTIONARY, 0)),
        size=found.get(_M_SIZE, -1),
    )


def _start(data: int, dictionary: int) -> int:
    """Return where the pages begin, as Arrow has it."""
    return min(data, dictionary) if dictionary > 0 else data


@lru_cache
def _encodings(encoded: bytes) -> tuple[int, ...]:
    cursor = Cursor(encoded)
    kind, count = cursor.listing()
    if kind != I32:
        raise ThriftError(f"encodings of the kind {kind}")
    return tuple([_i32(cursor) for _ in range(count)])


def page(cursor: Cursor) -> Page:
    """Read a page header.

    Raises:
        ThriftError, IndexError: it is damaged.
    """
    if match := _ARROW_PAGE.match(cursor.buf, cursor.pos):
        size, compressed, *part = map(thrift.decoded, filter(None, match.groups()[1:]))
        cursor.pos = match.end()
        kind = DICTIONARY if match["data"] is None else DATA
        return Page(kind, size, compressed, True, *part)
    return _any_page(cursor)


def _any_page(cursor: Cursor) -> Page:
    numbers: dict[int, int] = {}
    parts: dict[int, dict[int, int]] = {}
    for fid, kind in cursor.fields(_PAGE):
        if fid not in _PAGE:
            cursor.skip(kind)
        elif kind == STRUCT:
            parts[fid] = _part(cursor, fid)
        else:
            numbers[fid] = _i32(cursor)
    kind = numbers.get(_P_TYPE, -1)
    where, fields = _PARTS.get(kind, (-1, (1, 2)))
    part = parts.get(where, {})
    if kind == DATA_V2:
        part.setdefault(_V2_IS_COMPRESSED, True)  # parquet.thrift's default
    return Page(
        kind,
        numbers.get(_P_SIZE, -1),
        numbers.get(_P_COMPRESSED, -1),
        _P_CRC in numbers,
        *(part.get(each, -1) for each in fields),
    )


def _part(cursor: Cursor, of: int) -> dict[int, int]:
    """Read the numbers and truths of the struct that pages of one type have: field `of`."""
    found: dict[int, int] = {}
    for fid, kind in cursor.fields({}):
        if kind in (thrift.TRUE, thrift.FALSE):
            found[fid] = kind == thrift.TRUE
        elif (of, fid) == (_P_DATA_V2, _V2_IS_COMPRESSED):  # Arrow would take the default
            raise ThriftError(f"field {fid} is of the kind {kind}")
        elif kind == I32:
            found[fid] = _i32(cursor)
        else:
            cursor.skip(kind)
    return found


def _arrow_chunk() -> bytes:
    """Spell the column chunk that Arrow writes as an expression: no page index, no bloom filter.

    Most fields of a chunk are only passed over, and field by field that is most of the cost of
    stitching. Counts and lengths are spelled out (a longer list or text does not match), so a
    match ends where the chunk does: no value's encoding in Thrift begins another's.
    """
    parts = {
        b"INT": rb"[\x80-\xff]{0,8}+[\x00-\x7f]",
        b"NAME": _either(rb"\x%02x.{%d}" % (n, n) for n in range(64)),
        b"TEXT": _either(rb"\x%02x.{%d}" % (n, n) for n in range(128)),
        b"NAMES": _either(rb"\x%x8(?:<NAME>){%d}" % (n, n) for n in range(1, 7)),
        b"INTS": _either(rb"[\x%x5\x%x6](?:<INT>){%d}" % (n, n, n) for n in range(15)),
        b"STATISTICS": rb"(?:%b<INT>|%b|%b<TEXT>)*+\x00"
        % (_heads(4, 5, 6), _heads(1, 2), _heads(8)),
        b"ENCODINGS": _either(
            rb"\x%xc(?:(?:%b<INT>)*+\x00){%d}" % (n, _heads(4, 5, 6), n) for n in range(15)
        ),
        b"SIZES": rb"(?:%b<INT>|%b<INTS>)*+\x00" % (_heads(4, 5, 6), _heads(9)),
    }
    # Type, encodings, path, codec, numbers of values and bytes; positions; from here on optional,
    # so that a field's first byte depends on which came before it: statistics and the rest.
    chunk = (
        rb"\x26\x00\x1c\x15<INT>\x19(?P<encodings><INTS>)\x19<NAMES>\x15(?P<codec><INT>)"
        rb"\x16(?P<values><INT>)\x16<INT>"
        rb"\x16(?P<size><INT>)\x26(?P<data><INT>)(?:\x26(?P<dictionary><INT>))?"
        rb"(?:(?(dictionary)\x1c|\x3c)<STATISTICS>\x19|(?(dictionary)\x29|\x49))<ENCODINGS>"
        rb"(?:\x3c<SIZES>)?\x00\x00"
    )
    while names := re.findall(rb"<([A-Z]+)>", chunk):
        for name in names:
            chunk = chunk.replace(b"<%b>" % name, parts[name])
    return chunk


def _either(options: Iterable[bytes]) -> bytes:
    return b"(?>" + b"|".join(options) + b")"


def _heads(*kinds: int) -> bytes:
    """Match the first byte of a field of one of these kinds."""
    return b"[" + b"".join(rb"\x%x%x" % (delta, k) for delta in range(1, 16) for k in kinds) + b"]"


ARROW_CHUNK: Final = re.compile(_arrow_chunk(), re.DOTALL)


def _arrow_page() -> bytes:
    """Spell the page header that Arrow writes as an expression: with a checksum, levels in RLE.

    Field by field a header costs four times as much, and a segment has a hundred.
    """
    number = rb"(?>[\x80-\xff]{4}[\x00-\x0f]|[\x80-\xff]{0,3}+[\x00-\x7f])"  # of 32 bits
    long = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
    text = b"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(128))
    i64, binary, boolean = (
        b"[" + b"".join(rb"\x%x%x" % (delta, kind) for delta in range(1, 8)) + b"]"
        for kind in (thrift.I64, thrift.BINARY, thrift.TRUE)
    )
    statistics = rb"\x1c(?:%b%b|%b(?>%b)|%b)*+\x00" % (i64, long, binary, text, boolean)
    data = rb"\x1c\x15(%b)\x15(%b)\x15(%b)\x15(%b)(?:%b)?\x00" % (*[number] * 4, statistics)
    dictionary = rb"\x3c\x15(%b)\x15(%b)[\x11\x12]?\x00" % (number, number)
    head = rb"\x15(?:(?P<data>\x00)|\x04)\x15(%b)\x15(%b)\x15%b" % (number, number, number)
    return head + rb"(?(data)%b|%b)\x00" % (data, dictionary)


_ARROW_PAGE: Final = re.compile(_arrow_page(), re.DOTALL)
