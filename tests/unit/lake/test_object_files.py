"""Files of an object store; obstore keeps its objects in a folder here."""

from __future__ import annotations

import pickle
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import FENCE, put
from segments import ROWS, numbers, segments

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.lake.audit.audit import TopicAudit
from columnar_kafka.lake.model import Count, NotLandedError
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.lake.tables.object_files import ObjectFiles

if TYPE_CHECKING:
    from pathlib import Path


class EmptyStore(BaseHTTPRequestHandler):
    """A store without TLS, and without objects."""

    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


ONE, OTHER = PurePosixPath("a/one"), PurePosixPath("b/other")


@pytest.fixture
def files(tmp_path: Path) -> ObjectFiles:
    return ObjectFiles(f"file://{tmp_path}/", {})


def write(files: ObjectFiles, path: PurePosixPath, *parts: bytes) -> Any:
    writer = files.writer("name", path)
    for part in parts:
        assert writer.write(part) == len(part)
    return writer


def test_all_that_is_needed_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), EmptyStore) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in {
            "ACCESS_KEY_ID": "user",
            "SECRET_ACCESS_KEY": "password",
            "REGION": "us-east-1",
            "ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        assert ObjectFiles("s3://bucket/lake", {}).size(ONE) is None
        server.shutdown()


def test_a_file_appears_when_it_is_finished(files: ObjectFiles) -> None:
    writer = write(files, ONE, b"abc", b"de")
    assert (writer.path, files.size(ONE), files.names(ONE.parent)) == ("name", None, [])
    assert writer.finish() == 5
    assert (files.size(ONE), files.read(ONE), files.names(ONE.parent)) == (5, b"abcde", ["one"])


@pytest.mark.parametrize("parts", [(), (b"abc",), (b"x" * (9 << 20), b"y")])
def test_a_file_that_is_discarded_never_appears(
    files: ObjectFiles, tmp_path: Path, parts: tuple[bytes, ...]
) -> None:
    write(files, ONE, *parts).discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_finished_file_can_be_discarded(files: ObjectFiles) -> None:
    writer = write(files, ONE, b"abc")
    writer.finish()
    writer.discard()
    assert files.size(ONE) is None
    writer.discard()


def test_nothing_that_is_put_or_linked_overwrites(files: ObjectFiles) -> None:
    files.put(ONE, b"first")
    files.put(OTHER, b"second")
    with pytest.raises(FileExistsError):
        files.put(ONE, b"third")
    with pytest.raises(FileExistsError):
        files.link(OTHER, ONE)
    assert (files.read(ONE), files.read(OTHER)) == (b"first", b"second")


def test_what_is_done_for_each_file_is_done_at_once_and_may_fail(files: ObjectFiles) -> None:
    all_have_begun = threading.Barrier(16)

    def do(number: int) -> None:
        all_have_begun.wait(10)
        if number == 9:
            raise FileExistsError

    with pytest.raises(FileExistsError):
        files.for_each(range(16), do)


def test_a_link_is_the_same_and_other_content_is_not(files: ObjectFiles) -> None:
    files.put(ONE, b"first")
    with pytest.raises(FileNotFoundError, match=r"b/other does not exist"):
        files.same(ONE, OTHER)
    files.link(ONE, OTHER)
    assert files.same(ONE, OTHER)
    files.remove(OTHER)
    for content in (b"fIrst", b"longer"):
        files.put(OTHER, content)
        assert not files.same(ONE, OTHER)
        files.remove(OTHER)


def test_what_does_not_exist_cannot_be_linked_and_need_not_be_removed(files: ObjectFiles) -> None:
    with pytest.raises(FileNotFoundError):
        files.link(ONE, OTHER)
    files.remove(ONE)


def test_a_long_listing_goes_on_where_it_ended(files: ObjectFiles) -> None:
    for name in ("one", "three", "two"):
        files.put(ONE.parent / name, b"")
    assert sorted(files.names(ONE.parent, after="one")) == ["three", "two"]


def test_a_log_that_was_put_back_is_read_as_it_is(files: ObjectFiles) -> None:
    table = ParquetDirectory("", files=files)
    put(table, [0])
    put(table, [1])
    files.remove(PurePosixPath(f"_columnar/log/{2:020}.json"))
    [fence] = table.fences().values()
    assert fence.next == 1


def test_what_was_written_before_a_time_can_be_listed(files: ObjectFiles) -> None:
    files.put(ONE, b"first")
    assert files.older(ONE.parent, time.time() - 3600, suffix="") == []
    assert files.older(ONE.parent, time.time() + 3600, suffix="e") == ["one"]
    assert files.older(ONE.parent, time.time() + 3600, suffix="x") == []
    assert files.older(ONE.parent, time.time() + 3600, suffix="", after="on") == ["one"]
    assert files.older(ONE.parent, time.time() + 3600, suffix="", after="one") == []


@pytest.mark.parametrize("columns", [1, 3000])
def test_the_footer_is_read_from_the_end(files: ObjectFiles, columns: int) -> None:
    """That of 3000 columns is longer than what is asked for first."""
    table = pa.table({f"c{n}": [1, 2] for n in range(columns)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    files.put(ONE, data)
    metadata = pq.read_metadata(files.footer(ONE, len(data)))
    assert (metadata.num_rows, metadata.num_columns) == (2, columns)


def test_a_directory_lands_in_an_object_store(files: ObjectFiles, tmp_path: Path) -> None:
    table = ParquetDirectory("", files=pickle.loads(pickle.dumps(files)))
    assert put(table, [0, 1, 2], file_row_groups=2, small_bytes=0).landed == Count(3, 3 * ROWS)
    again = pickle.loads(pickle.dumps(table))
    assert put(again, range(5)).landed_before == Count(3, 3 * ROWS)
    paths = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".json"]
    assert {path.parent.name for path in paths} == {"t"}
    rows = [n for path in paths for n in pq.read_table(path)["n"].to_pylist()]
    assert sorted(rows) == numbers(range(5))


def test_a_directory_in_an_object_store_is_compacted_and_verified(
    files: ObjectFiles, tmp_path: Path
) -> None:
    table = ParquetDirectory("", files=files)
    put(table, range(3), file_row_groups=1, small_bytes=0)
    assert table.compact(1 << 20).files == 1
    put(table, range(5))
    [merged, _] = sorted(tmp_path.glob("t/*.parquet"))
    assert pq.read_table(merged)["n"].to_pylist() == numbers(range(3))
    head = table.head()
    audit = TopicAudit("t", table.landed_files(head), head.fences)
    audit.compare(head.fences[FENCE], 0, segments(range(5)))
    report = audit.finish([0])
    assert (report.findings, report.messages, report.files) == ([], 5, 2)


def test_a_store_that_overwrites_what_it_should_refuse_is_found_out(
    files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *arguments, **_: real(*arguments))
    with pytest.raises(
        NotLandedError, match=r"does not support If-None-Match.*whose name was taken"
    ):
        put(ParquetDirectory("", files=files), [0])
    for folder in ("_columnar/log", "_columnar/staged", "t"):
        assert files.names(PurePosixPath(folder)) == []


class Killed(BaseException):
    """What kill -9 is to the code: nothing after it runs."""


class Dying(ObjectFiles):
    """The process dies before or after its n-th request; no request follows, whatever is tried."""

    at, after, count, dead = -1, False, 0, False

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name not in {"writer", "put", "link", "same", "remove", "size", "read", "names"}:
            return attribute

        def step(*arguments: Any, **keywords: Any) -> Any:
            is_last = self.count == self.at
            self.count += 1
            self.dead |= is_last and not self.after
            if self.dead:
                raise Killed
            result = attribute(*arguments, **keywords)
            self.dead = is_last
            if self.dead:
                raise Killed
            return result

        return step


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_request_and_started_again(tmp_path: Path, *, after: bool) -> None:
    (tmp_path / "whole").mkdir()
    files = Dying(f"file://{tmp_path}/whole", {})
    put(ParquetDirectory("", files=files), range(4), file_row_groups=2, small_bytes=0)
    for at in range(files.count):
        root = tmp_path / str(at)
        root.mkdir()
        files = Dying(f"file://{root}", {})
        files.at, files.after = at, after
        with pytest.raises(Killed):
            put(ParquetDirectory("", files=files), range(4), file_row_groups=2, small_bytes=0)
        put(ParquetDirectory("", files=ObjectFiles(f"file://{root}", {})), range(6))
        columns = [pq.read_table(path)["n"].to_pylist() for path in root.glob("t/*")]
        assert sorted(n for column in columns for n in column) == numbers(range(6))


def test_a_file_in_the_way_is_never_overwritten(files: ObjectFiles) -> None:
    table = ParquetDirectory("", files=files)
    stranger = PurePosixPath(f"t/p0-{0:020}-{0:020}.parquet")
    files.put(stranger, b"mine")
    with pytest.raises(NotLandedError, match="exists, but is not in the log"):
        put(table, [0])
    assert files.read(stranger) == b"mine"
    assert files.names(PurePosixPath("_columnar/staged")) == []


def test_a_place_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(ConfigError, match=r"storage of s3://bucket/lake: .*'aws_regoin'"):
        ObjectFiles("s3://bucket/lake", {"aws_regoin": "x"})
    with pytest.raises(ConfigError, match=r"s3://bucket/lake cannot be opened: .*SecretAccessKey"):
        ObjectFiles("s3://bucket/lake", {"aws_access_key_id": "x"})


def test_a_store_that_does_not_answer_is_an_error_of_the_table() -> None:
    storage = {
        "aws_access_key_id": "x",
        "aws_secret_access_key": "x",
        "aws_endpoint_url": "http://127.0.0.1:9",
    }
    # http is not allowed, so nothing is sent or tried again.
    table = ParquetDirectory("s3://bucket/lake", files=ObjectFiles("s3://bucket/lake", storage))
    with pytest.raises(
        LakeError, match=r"the log of ParquetDirectory\('s3://bucket/lake'\): .*HEAD"
    ):
        table.fences()


def test_any_part_of_a_file_can_be_read(files: ObjectFiles) -> None:
    table = pa.table({"n": list(range(3000)), "m": ["a"] * 3000})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1000)
    write(files, ONE, sink.getvalue().to_pybytes()).finish()
    with pq.ParquetFile(files.open(ONE), buffer_size=1 << 10, pre_buffer=False) as opened:
        batches = opened.iter_batches(100, row_groups=[2], columns=["n"])
        assert pa.Table.from_batches(batches)["n"].to_pylist() == list(range(2000, 3000))
        assert opened.read() == table
    with pytest.raises(FileNotFoundError):
        files.open(OTHER)
