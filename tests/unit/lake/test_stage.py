"""Staging: bytes as sent or stitched equal, and nothing left of an attempt that failed."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import hostile
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from segments import ROWS, headers_of, numbered, numbers, segment, segments

from columnar_kafka import native
from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.landing import batch as batch_module
from columnar_kafka.lake.landing import stage as stage_module
from columnar_kafka.lake.landing.stage import stage
from columnar_kafka.lake.model import Count, SourceMessage, StagedFile, StageResult, TopicGeneration
from columnar_kafka.lake.plan import Layout, Mode, Planner
from columnar_kafka.lake.stitching.row_groups import StitchError
from columnar_kafka.lake.stitching.stitch import Stitched, Stitcher
from columnar_kafka.lake.tables.directory.table import ParquetDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

GENERATIONS = {"t": TopicGeneration("cluster", "id")}


@pytest.fixture
def table(tmp_path: Path) -> ParquetDirectory:
    return ParquetDirectory(tmp_path / "lake")


def staged(
    table: ParquetDirectory, messages: Iterable[SourceMessage], **layout: Any
) -> StageResult:
    planner = Planner(fences=table.fences(), generations=GENERATIONS, layout=Layout(**layout))
    return stage(messages, table=table, planner=planner)


def content(table: ParquetDirectory, file: StagedFile) -> bytes:
    return (table.root / file.path).read_bytes()


def left(table: ParquetDirectory) -> list[Path]:
    return [path for path in table.root.rglob("*") if path.is_file()]


def test_verbatim_files_are_the_bytes_that_were_sent(table: ParquetDirectory) -> None:
    messages = segments([0, 2, 3])
    attempt = staged(table, messages, mode=Mode.VERBATIM)
    hashes = [hashlib.sha256(content(table, file)).hexdigest() for file in attempt.files]
    assert hashes == [hashlib.sha256(message.value).hexdigest() for message in messages]
    assert [(file.first, file.last) for file in attempt.files] == [(0, 0), (2, 2), (3, 3)]


def test_stitched_files_hold_the_rows_of_their_segments_in_order(table: ParquetDirectory) -> None:
    (file,) = staged(table, segments([4, 5, 9]), small_bytes=0).files
    read = pq.read_table(table.root / file.path, page_checksum_verification=True)
    assert read["n"].to_pylist() == numbers([4, 5, 9])
    assert pq.read_metadata(table.root / file.path).num_row_groups == 3


def test_a_stitched_file_says_what_is_in_it(table: ParquetDirectory) -> None:
    (file,) = staged(table, segments([4, 5, 9])).files
    metadata = pq.read_metadata(table.root / file.path).metadata
    assert metadata == {
        b"columnar.version": b"1",
        b"columnar.schema": file.schema.encode(),
        b"columnar.rows": b"9",
        b"columnar.segments": b"3",
        b"columnar.cluster": b"cluster",
        b"columnar.topic.id": b"id",
        b"columnar.topic": b"t",
        b"columnar.partition": b"0",
        b"columnar.offset.first": b"4",
        b"columnar.offset.last": b"9",
    }


def test_a_staged_file_says_what_the_commit_needs_in_plain_values(table: ParquetDirectory) -> None:
    attempt = staged(table, segments([4, 5, 9]))
    (file,) = attempt.files
    assert pickle.loads(pickle.dumps(attempt)) == attempt
    assert StagedFile(**json.loads(json.dumps(asdict(file)))) == file
    assert (file.fence, file.topic, file.partition) == ("kafka:cluster:id:0", "t", 0)
    assert (file.first, file.last, file.messages, file.rows) == (4, 9, 3, 3 * ROWS)
    assert (file.segment, file.nbytes) == ("p-9", len(content(table, file)))


def test_the_same_input_makes_the_same_bytes_and_digest(table: ParquetDirectory) -> None:
    (one,) = staged(table, segments(range(5))).files
    (two,) = staged(table, segments(range(5))).files
    assert content(table, one) == content(table, two)
    assert replace(one, path=two.path) == two


def test_other_messages_have_another_digest(table: ParquetDirectory) -> None:
    (one,) = staged(table, segments([0, 1, 4])).files
    (two,) = staged(table, segments([0, 3, 4])).files
    assert one.digest != two.digest


def test_staged_files_look_like_nothing_a_reader_reads(table: ParquetDirectory) -> None:
    (file,) = staged(table, segments([0])).files
    assert file.path.startswith("_columnar/staged/")
    assert file.path.endswith(".segment")


def test_counts_of_what_does_not_land_come_along(table: ParquetDirectory) -> None:
    table.commit([staged(table, segments([0, 1]))])
    attempt = staged(table, segments([0, 1, 2, 2]))
    assert attempt.landed_before == {"kafka:cluster:id:0": Count(2, 2 * ROWS)}
    assert attempt.repeated == Count(1, ROWS)
    assert [file.first for file in attempt.files] == [2]


def test_the_values_may_be_any_buffer(table: ParquetDirectory) -> None:
    messages = segments([0, 1, 2])
    kinds = (memoryview, pa.py_buffer, bytearray)
    changed = [replace(m, value=kind(m.value)) for m, kind in zip(messages, kinds, strict=True)]
    (one,) = staged(table, messages).files
    (two,) = staged(table, changed).files
    assert content(table, one) == content(table, two)


def test_only_one_message_is_held_at_a_time(table: ParquetDirectory) -> None:
    """A value is written before the next is asked for."""

    def stream() -> Iterator[SourceMessage]:
        for offset in range(3):
            yield numbered(offset)
            assert sum(path.stat().st_size for path in left(table)) == 0 or offset
            assert len(left(table)) == 1

    staged(table, stream(), small_bytes=0)


# --- what cannot land ---------------------------------------------------------------------------


def test_a_damaged_segment_fails_the_attempt_and_leaves_nothing(table: ParquetDirectory) -> None:
    damaged = bytearray(numbered(7).value)
    damaged[100] ^= 1
    messages = [*segments([0, 1]), numbered(3, partition=1), replace(numbered(7), value=damaged)]
    with pytest.raises(LakeError, match=r"t\[0\]@7: columnar.crc32 is"):
        staged(table, messages, mode=Mode.VERBATIM)
    assert left(table) == []


def test_a_segment_without_a_value_fails_the_attempt(table: ParquetDirectory) -> None:
    with pytest.raises(LakeError, match=r"t\[0\]@0"):
        staged(table, [replace(numbered(0), value=None)])


def test_a_plain_message_fails_the_attempt(table: ParquetDirectory) -> None:
    plain = SourceMessage(topic="t", partition=0, offset=8, headers=None, value=b"{}")
    with pytest.raises(LakeError, match=r"t\[0\]@8 is a plain message; only segments can land"):
        staged(table, [*segments([0, 1]), plain])
    assert left(table) == []


def test_an_input_that_breaks_off_leaves_nothing(table: ParquetDirectory) -> None:
    def stream() -> Iterator[SourceMessage]:
        yield from segments([0, 1])
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        staged(table, stream())
    assert left(table) == []


# --- what cannot be stitched --------------------------------------------------------------------


def test_a_segment_that_lies_about_its_schema_is_refused(table: ParquetDirectory) -> None:
    from columnar_kafka.segment.encoder import ParquetEncoder  # noqa: PLC0415
    from columnar_kafka.segment.headers import SegmentHeader, parse_headers  # noqa: PLC0415

    truth = parse_headers(numbered(0).headers)[0]
    header = SegmentHeader(
        rows=1, segment="liar-1", schema=truth.schema, timestamp_min=0, timestamp_max=0
    )
    batch = pa.table({"other": ["x"]}).to_batches()[0]
    value = ParquetEncoder("zstd").encode(batch, header.footer())
    liar = SourceMessage(
        topic="t", partition=0, offset=2, headers=headers_of(header, value), value=value
    )
    with pytest.raises(LakeError, match=r"t\[0\]@2: columnar\.schema is"):
        staged(table, [*segments([0, 1]), liar])
    assert left(table) == []


def test_a_segment_that_cannot_be_stitched_lands_as_it_came(
    table: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted = numbered(2).value

    class Picky(Stitcher):
        def append(self, data: Any) -> None:
            if bytes(data) == encrypted:
                raise StitchError("an encrypted column")
            super().append(data)

    monkeypatch.setattr(batch_module, "Stitcher", Picky)
    attempt = staged(table, segments(range(5)), small_bytes=0)
    assert [(file.first, file.last) for file in attempt.files] == [(0, 1), (2, 2), (3, 4)]
    assert content(table, attempt.files[1]) == encrypted
    assert sum(file.rows for file in attempt.files) == 5 * ROWS


def test_a_stitched_file_that_lacks_rows_fails_the_attempt(
    table: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(Stitcher):
        def finish(self, metadata: Any) -> Stitched:
            return replace(super().finish(metadata), rows=2)

    monkeypatch.setattr(batch_module, "Stitcher", Forgetful)
    with pytest.raises(LakeError, match=r"t\[0\]: 2 rows were stitched, not 6"):
        staged(table, segments([0, 1]))
    assert left(table) == []


def test_with_many_partitions_the_one_that_waited_longest_is_finished_early(
    table: ParquetDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "MAX_OPEN", 2)
    order = [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (1, 1)]
    messages = [numbered(offset, partition=p) for p, offset in order]
    attempt = staged(table, messages, small_bytes=0)
    ranges = sorted((file.partition, file.first, file.last) for file in attempt.files)
    assert ranges == [(0, 0, 2), (1, 0, 0), (1, 1, 1), (2, 0, 0)]


def test_different_schemas_are_different_files(table: ParquetDirectory) -> None:
    wide = segment(pa.table({"n": [1], "m": ["x"]}), offset=1, number=1)
    attempt = staged(table, [numbered(0), wide, numbered(2)])
    assert [file.rows for file in attempt.files] == [ROWS, 1, ROWS]
    assert len({file.schema for file in attempt.files}) == 2


# --- what does not land ---------------------------------------------------------------------------


def broken(offset: int, *, compression: str = "none") -> SourceMessage:
    """A segment whose checksums are right and whose page is too short."""
    plain = hostile.sent(pa.table({"n": [1, 2, 3]}), compression=compression, use_dictionary=False)
    of = hostile.changed(plain, lambda file: file.chunks[0][0][0].fill(bytes(5)))
    return SourceMessage(
        topic="t", partition=0, offset=offset, headers=of.headers(), value=of.value
    )


def test_a_segment_whose_pages_are_wrong_does_not_land(table: ParquetDirectory) -> None:
    planner = Planner(fences=table.fences(), generations=GENERATIONS)
    with pytest.raises(LakeError, match=r"segment at t\[0\]@1: "):
        stage([numbered(0), broken(1)], table=table, planner=planner)
    assert left(table) == []
    trusting = Planner(fences=table.fences(), generations=GENERATIONS)
    messages = [numbered(0), broken(1)]
    stage(messages, table=table, planner=trusting, rules=Rules(verify="headers"))


def test_what_only_arrow_has_decoded_lands_in_a_file_of_its_own(table: ParquetDirectory) -> None:
    other = hostile.sent(pa.table({"n": [1, 2, 3]}), data_page_version="2.0")
    headers = other.headers()
    messages = [
        SourceMessage(topic="t", partition=0, offset=offset, headers=headers, value=other.value)
        for offset in range(2)
    ]
    alone = [(0, 0), (1, 1)]
    for how, files in (("pages", [(0, 1)]), ("decode", alone if native.enabled else [(0, 1)])):
        planner = Planner(fences=table.fences(), generations=GENERATIONS)
        attempt = stage(messages, table=table, planner=planner, rules=Rules(verify=how))
        assert [(file.first, file.last) for file in attempt.files] == files


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="verify is 'all': it must be headers or pages or decode"):
        Rules(verify="all")
