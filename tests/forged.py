"""Forged segments: files whose checksums are right and whose pages or footer are wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from hostile import File, Page, Sent, field, ordinary, sent

from columnar_kafka.segment.parquet.thrift import BINARY, I64, STRUCT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 40


def _pages(file: File, *, dictionary: bool = False) -> list[Page]:
    """The dictionary pages of a file, or its data pages."""
    wanted = 7 if dictionary else 5
    every = [page for group in file.chunks for pages in group for page in pages]
    return [page for page in every if any(entry[0] == wanted for entry in page.header)]


def page_byte(file: File, rng: random.Random) -> None:
    """A byte of a page is another one."""
    page = rng.choice(_pages(file))
    body = bytearray(page.body)
    body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    page.fill(bytes(body))


def page_cut(file: File, rng: random.Random) -> None:
    """A page ends too early."""
    page = rng.choice(_pages(file))
    page.fill(page.body[: rng.randrange(len(page.body))])


def page_longer(file: File, rng: random.Random) -> None:
    """A page has bytes after its end, or in its middle."""
    page = rng.choice(_pages(file))
    at = rng.choice([len(page.body), rng.randrange(len(page.body))])
    page.fill(page.body[:at] + rng.randbytes(rng.randrange(1, 9)) + page.body[at:])


def page_values(file: File, rng: random.Random) -> None:
    """A page claims another number of values."""
    page = rng.choice(_pages(file))
    page.put(rng.choice([0, ROWS - 1, ROWS + 1, 2 * ROWS, 1 << 20]), 5, 1)


def page_encoding(file: File, rng: random.Random) -> None:
    """A page and its column claim another encoding."""
    column = rng.randrange(len(file.chunks[0]))
    page = file.chunks[0][column][-1]
    encoding = rng.choice([0, 3, 4, 5, 6, 7, 8, 9])
    page.put(encoding, 5, 2)
    field(file.meta(column), 2)[2][1].append(encoding)


def dictionary_entries(file: File, rng: random.Random) -> None:
    """A dictionary has fewer entries than its indices need."""
    page = rng.choice(_pages(file, dictionary=True))
    page.put(rng.randrange(field(page.header, 7, 1)[2]), 7, 1)
    page.fill(page.body[: rng.randrange(len(page.body))])


def dictionary_count(file: File, rng: random.Random) -> None:
    """A dictionary claims more entries than it has."""
    page = rng.choice(_pages(file, dictionary=True))
    page.put(field(page.header, 7, 1)[2] + rng.randrange(1, 30), 7, 1)


def levels(file: File, rng: random.Random) -> None:
    """The levels at a page's beginning are others."""
    page = rng.choice(_pages(file))
    body = bytearray(page.body)
    body[rng.randrange(min(len(body), 8))] = rng.randrange(256)
    page.fill(bytes(body))


def page_size(file: File, rng: random.Random) -> None:
    """A page claims another size for its decompressed bytes."""
    page = rng.choice(_pages(file) + _pages(file, dictionary=True))
    page.put(rng.choice([0, 1, len(page.body) // 2, len(page.body) + 7, 1 << 20]), 2)


def lengths(file: File, rng: random.Random) -> None:
    """A length or a value is as large as can be."""
    page = rng.choice(_pages(file) + _pages(file, dictionary=True))
    at = rng.randrange(len(page.body))
    page.fill(page.body[:at] + b"\xff\xff\xff\x7f" + page.body[at + 4 :])


def chunk_values(file: File, rng: random.Random) -> None:
    """The footer claims another number of values of a column."""
    meta = file.meta(rng.randrange(len(file.chunks[0])))
    field(meta, 5)[2] += rng.choice([-1, 1, ROWS])


def statistics(file: File, rng: random.Random) -> None:
    """The footer's statistics are another column's, or have another size."""
    metas = [file.meta(column) for column in range(len(file.chunks[0]))]
    some = [field(meta, 12) for meta in metas if any(entry[0] == 12 for entry in meta)]
    bounds = [bound for one in some for bound in one[2] if bound[1] == BINARY]
    rng.choice(bounds)[2] = rng.choice([b"", b"x", b"\xff" * 3, rng.randbytes(8), b"\xff" * 40])


def text(file: File, rng: random.Random) -> None:
    """Text is not UTF-8."""
    pages = [
        page
        for page in _pages(file) + _pages(file, dictionary=True)
        if b"UA" in page.body or b"id-0" in page.body
    ]
    page = rng.choice(pages)
    page.fill(page.body.replace(b"UA", b"\xff\xfe").replace(b"id-0", b"\xc3d-0"))


def swapped(file: File, rng: random.Random) -> None:
    """Two columns have each other's pages."""
    one, other = rng.sample(range(len(file.chunks[0])), 2)
    chunks = file.chunks[0]
    chunks[one], chunks[other] = chunks[other], chunks[one]


KINDS: dict[str, Callable[[File, random.Random], None]] = {
    kind.__name__: kind
    for kind in (
        page_byte,
        page_cut,
        page_longer,
        page_values,
        page_encoding,
        dictionary_entries,
        dictionary_count,
        levels,
        page_size,
        lengths,
        chunk_values,
        statistics,
        text,
        swapped,
    )
}


def originals() -> dict[tuple[str, str], Sent]:
    """Good segments of one schema: of our own producer, and of one that has dictionaries."""
    ours = {codec: ordinary(codec, ROWS) for codec in ("none", "zstd")}
    segments = {("ours", codec): our for codec, our in ours.items()}
    for codec, our in ours.items():
        table = pq.read_table(pa.BufferReader(our.value))
        written = sent(table.replace_schema_metadata(None), compression=codec)
        segments["other", codec] = written
    return segments


def forged(count: int, seed: int = 1) -> Iterator[tuple[str, Sent]]:
    """Yield forged segments, of all kinds in turn."""
    rng = random.Random(seed)
    names = list(KINDS)
    good = originals()
    for number in range(count):
        kind = names[number % len(names)]
        writer = "other" if kind.startswith("dictionary") else rng.choice(["ours", "other"])
        # Compression would hide most changes of bytes from what is behind it.
        codec = rng.choice(["none", "none", "none", "zstd"])
        codec = {"page_size": "zstd", "text": "none", "lengths": "none"}.get(kind, codec)
        original = good[writer, codec]
        file = File.load(original.value)
        KINDS[kind](file, rng)
        yield kind, replace(original, value=_corrected(file).bytes())


def _corrected(file: File) -> File:
    """Correct offsets and sizes; a chunk has a dictionary if its first page is one."""
    for column, pages in enumerate(file.chunks[0]):
        meta = file.meta(column)
        has = any(entry[0] == 11 for entry in meta)
        begins = any(entry[0] == 7 and entry[1] == STRUCT for entry in pages[0].header)
        if has and not begins:
            meta.remove(next(entry for entry in meta if entry[0] == 11))
        elif begins and not has:
            meta.insert(sum(entry[0] < 11 for entry in meta), [11, I64, 0])
    return file.correct()
