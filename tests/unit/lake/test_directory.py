"""The directory: names, the log, what is refused; killed, failing and racing committers."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from lakes import QuickFiles
from segments import ROWS, numbers, segments
from support import is_long

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land, stage
from columnar_kafka.lake.model import (
    CommitResult,
    Count,
    Fence,
    MayHaveLandedError,
    NotLandedError,
    StageResult,
    TopicGeneration,
)
from columnar_kafka.lake.plan import Layout, Mode, Planner
from columnar_kafka.lake.tables import base as base_module
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.lake.tables.local_files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GENERATIONS = {"t": TopicGeneration("cluster", "id")}
FENCE = "kafka:cluster:id:0"
F = TypeVar("F", bound="Callable[..., Any]")


@pytest.fixture
def table(tmp_path: Path) -> ParquetDirectory:
    return quick(tmp_path / "lake")


def quick(root: Path) -> ParquetDirectory:
    return ParquetDirectory(root, files=QuickFiles())


def staged(
    table: ParquetDirectory,
    offsets: Iterable[int],
    *,
    fences: dict[str, Fence] | None = None,
    place: dict[str, Any] | None = None,
    generation: TopicGeneration | None = None,
    **layout: Any,
) -> StageResult:
    planner = Planner(
        fences=table.fences() if fences is None else fences,
        generations={"t": generation} if generation else GENERATIONS,
        layout=Layout(**layout),
    )
    return stage(segments(offsets, **place or {}), table=table, planner=planner)


def put(table: ParquetDirectory, offsets: Iterable[int], **layout: Any) -> CommitResult:
    return land(segments(offsets), table=table, generations=GENERATIONS, layout=Layout(**layout))


def rows(table: ParquetDirectory) -> list[int]:
    """What a reader that lists the directory finds."""
    columns = [pq.read_table(path)["n"].to_pylist() for path in table.root.rglob("*.parquet")]
    return sorted(n for column in columns for n in column)


def names(table: ParquetDirectory, pattern: str = "t/*") -> list[str]:
    return sorted(str(path.relative_to(table.root)) for path in table.root.glob(pattern))


def name(first: int, last: int, *, folder: str = "t", partition: int = 0) -> str:
    return f"{folder}/p{partition}-{first:020}-{last:020}.parquet"


# --- what is there afterwards -------------------------------------------------------------------


def test_files_are_named_by_topic_partition_and_offsets(table: ParquetDirectory) -> None:
    result = put(table, [0, 1, 2, 5], file_row_groups=2, small_bytes=0)
    assert names(table) == [name(0, 1), name(2, 5)]
    assert result.files == (name(0, 1), name(2, 5))
    assert result.landed == Count(4, 4 * ROWS)
    assert result.nbytes == sum(path.stat().st_size for path in table.root.glob("t/*"))


def test_names_sort_by_offset(table: ParquetDirectory) -> None:
    put(table, range(9, 12), mode=Mode.VERBATIM)
    read = [pq.read_table(table.root / path)["n"][0].as_py() for path in names(table)]
    assert read == [90, 100, 110]


def test_fences_move_with_the_files(table: ParquetDirectory) -> None:
    assert table.fences() == {}
    put(table, [3, 4])
    put(table, [7])
    expected = Fence(topic="t", partition=0, first=3, next=8, segment="p-7")
    assert table.fences() == {FENCE: expected}


def test_what_has_landed_is_counted_and_reported(table: ParquetDirectory) -> None:
    put(table, [0, 1])
    result = put(table, [0, 1, 2])
    assert result.landed == Count(1, ROWS)
    assert result.landed_before == Count(2, 2 * ROWS)
    assert rows(table) == numbers([0, 1, 2])


def test_nothing_to_land_logs_nothing(table: ParquetDirectory) -> None:
    put(table, [0, 1])
    result = put(table, [0, 1])
    assert (result.files, result.landed_before) == ((), Count(2, 2 * ROWS))
    assert len(names(table, "_columnar/log/*")) == 1


def test_an_empty_commit_in_a_place_that_does_not_exist(table: ParquetDirectory) -> None:
    assert table.commit([]) == CommitResult()
    assert not table.root.exists()


def test_nothing_is_left_where_files_were_staged(table: ParquetDirectory) -> None:
    twice = [staged(table, [0, 1]), staged(table, [0, 1])]
    assert table.commit(twice).repeated == Count(2, 2 * ROWS)
    before = staged(table, [0, 1], fences={})
    assert table.commit([before]).landed_before == Count(2, 2 * ROWS)
    assert names(table, "_columnar/staged/*") == []
    assert rows(table) == numbers([0, 1])


def test_what_a_killed_process_left_is_removed_after_a_week(table: ParquetDirectory) -> None:
    old, young = (staged(table, [0, 1]).files[0].path for _ in range(2))
    put(table, [0])
    log = table.root / "_columnar/log"
    (log / "killed.draft").write_bytes(b"{")
    week_ago = time.time() - 7 * 24 * 3600
    for path in (table.root / old, log / "killed.draft", log / "00000000000000000001.json"):
        os.utime(path, (week_ago, week_ago))
    os.utime(table.root / young, (week_ago + 60, week_ago + 60))
    again = quick(table.root)
    put(again, [0])  # lands nothing, and looks for nothing
    assert names(table, "_columnar/staged/*") == sorted([old, young])
    put(again, [1])
    assert names(table, "_columnar/staged/*") == [young]
    assert names(table, "_columnar/log/*") == [f"_columnar/log/{n:020}.json" for n in (1, 2)]


def test_a_file_that_has_landed_is_never_a_leftover(tmp_path: Path) -> None:
    """Staged long ago, it waits for its final name. Its commit was the newest when that failed."""
    attempt = staged(quick(tmp_path), [0])
    with pytest.raises(MayHaveLandedError):
        ParquetDirectory(tmp_path, files=NothingAppears()).commit([attempt])
    os.utime(tmp_path / attempt.files[0].path, (0, 0))
    quick(tmp_path).remove_leftovers()
    assert names(quick(tmp_path), "_columnar/staged/*") == [attempt.files[0].path]


def test_one_result_given_twice_lands_once(table: ParquetDirectory) -> None:
    once = staged(table, [0, 1])
    table.commit([once, once])
    table.commit([once])
    assert rows(table) == numbers([0, 1])


def test_many_tasks_land_in_one_commit(table: ParquetDirectory) -> None:
    tasks = [
        staged(table, [4, 5]),
        staged(table, [0, 1, 3]),
        staged(table, [0, 2], place={"partition": 1}),
    ]
    table.commit(tasks)
    assert names(table) == [name(0, 3), name(4, 5), name(0, 2, partition=1)]
    assert names(table, "_columnar/log/*") == ["_columnar/log/00000000000000000001.json"]


@pytest.mark.parametrize(
    ("topic", "folder"),
    [("_schemas", "~_schemas"), (".hidden", "~.hidden"), ("..", "~.."), ("a_b.c", "a_b.c")],
)
def test_topics_that_readers_would_not_look_into_are_escaped(
    table: ParquetDirectory, topic: str, folder: str
) -> None:
    messages = [replace(segment, topic=topic) for segment in segments([0])]
    land(messages, table=table, generations={topic: TopicGeneration("c", "i")})
    assert names(table, "*/*.parquet") == [name(0, 0, folder=folder)]


def test_other_readers_find_the_rows(table: ParquetDirectory) -> None:
    put(table, range(4), file_row_groups=2, small_bytes=0)
    staged(table, [7, 8])  # not landed
    assert sorted(pl.read_parquet(table.root / "**/*.parquet")["n"]) == numbers(range(4))
    assert sorted(ds.dataset(table.root).to_table()["n"].to_pylist()) == numbers(range(4))


def test_a_table_is_picklable_and_stands_where_it_stood(tmp_path: Path) -> None:
    table = ParquetDirectory(tmp_path / "lake")
    put(table, [0])
    assert rows(pickle.loads(pickle.dumps(table))) == numbers([0])


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_a_path_or_a_file_uri(tmp_path: Path, form: str) -> None:
    assert ParquetDirectory(form.format(tmp_path / "a b%20")).root == tmp_path / "a b%20"


def test_a_relative_path_is_of_the_process_that_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ParquetDirectory("lake").root == tmp_path / "lake"


@pytest.mark.parametrize("root", ["s3://bucket/lake", "hdfs:/lake", "file://host/lake", ""])
def test_other_places_are_refused(root: str) -> None:
    with pytest.raises(LakeError, match="only local paths"):
        ParquetDirectory(root)


# --- what is refused ----------------------------------------------------------------------------


def refused(table: ParquetDirectory, attempts: list[StageResult], match: str) -> None:
    """The commit is refused, changes nothing, and its files can be discarded."""
    before = (rows(table), table.fences())
    with pytest.raises(NotLandedError, match=match):
        table.commit(attempts)
    assert (rows(table), table.fences()) == before
    table.discard(attempts)
    assert names(table, "_columnar/staged/*") == []


def test_a_topic_made_again_is_refused_and_never_called_landed(table: ParquetDirectory) -> None:
    put(table, range(5))
    again = staged(table, [0, 1], fences={}, generation=TopicGeneration("cluster", "new"))
    refused(table, [again], "the table has kafka:cluster:id:0, but this is kafka:cluster:new:0")


def test_half_of_a_file_never_lands(table: ParquetDirectory) -> None:
    put(table, [0, 1])
    refused(
        table, [staged(table, [0, 1, 2], fences={})], "the offsets up to 1 have landed meanwhile"
    )


def test_messages_spread_over_tasks_are_refused(table: ParquetDirectory) -> None:
    refused(table, [staged(table, [0, 2]), staged(table, [1, 3])], "were spread over tasks")


def test_files_removed_by_someone_are_not_called_landed(table: ParquetDirectory) -> None:
    put(table, [0, 1])
    put_elsewhere = staged(table, [0], place={"partition": 1})
    table.commit([put_elsewhere])
    (table.root / name(0, 1)).unlink()
    again = staged(table, [0, 1])
    refused(table, [again], f"{FENCE} has landed, but {name(0, 1)} is gone.*_columnar included")


def test_a_fence_that_is_gone_since_the_input_was_staged_is_noticed(
    table: ParquetDirectory, tmp_path: Path
) -> None:
    put(table, [0, 1])
    again = staged(table, [0, 1])
    with pytest.raises(NotLandedError, match=f"{FENCE} had landed, but the log no longer has it"):
        quick(tmp_path / "another").commit([again])


def test_files_of_the_newest_commit_that_are_gone_are_noticed(table: ParquetDirectory) -> None:
    put(table, [0, 1])
    (table.root / name(0, 1)).unlink()
    fresh = staged(table, [2])
    with pytest.raises(NotLandedError, match=r"p0-0+-0+1.parquet and .* are gone, although"):
        table.commit([fresh])


def test_a_lost_log_is_noticed(table: ParquetDirectory) -> None:
    put(table, range(4), file_row_groups=2, small_bytes=0)
    for path in table.root.glob("_columnar/log/*"):
        path.unlink()
    refused(table, [staged(table, range(4))], "exists, but is not in the log")


def test_a_file_in_the_way_is_never_overwritten(table: ParquetDirectory) -> None:
    put(table, [0])
    stranger = table.root / name(1, 1)
    stranger.write_bytes((table.root / name(0, 0)).read_bytes())
    refused(table, [staged(table, [1])], "exists, but is not in the log")


def test_a_file_put_in_the_way_of_one_that_has_landed_is_not_overwritten(tmp_path: Path) -> None:
    """The next commit goes on once it is out of the way."""
    with pytest.raises(MayHaveLandedError):
        put(ParquetDirectory(tmp_path, files=NothingAppears()), [0])
    stranger = tmp_path / name(0, 0)
    stranger.write_bytes(b"mine")
    with pytest.raises(
        NotLandedError,
        match=r"p0-0+-0+\.parquet is in the way of .*commit 1 of the log: move it elsewhere",
    ):
        put(quick(tmp_path), [0, 1])
    assert stranger.read_bytes() == b"mine"
    stranger.unlink()
    put(quick(tmp_path), [0, 1])
    assert rows(quick(tmp_path)) == numbers([0, 1])


def test_a_staged_file_that_is_gone_must_be_staged_again(table: ParquetDirectory) -> None:
    attempt = staged(table, [0])
    (table.root / attempt.files[0].path).unlink()
    refused(table, [attempt], "gone or cut short: stage the input again")


def test_a_staged_file_cut_short_must_be_staged_again(table: ParquetDirectory) -> None:
    attempt = staged(table, [0])
    os.truncate(table.root / attempt.files[0].path, 50)
    refused(table, [attempt], "gone or cut short: stage the input again")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 2}', b'{"version": 1}extra'])
def test_an_entry_that_cannot_be_read_stops_everything(
    table: ParquetDirectory, content: bytes
) -> None:
    put(table, [0])
    entry = table.root / "_columnar/log/00000000000000000002.json"
    entry.write_bytes(content)
    with pytest.raises(LakeError, match=r"2\.json is not an entry of the log"):
        table.fences()
    with pytest.raises(NotLandedError, match=r"2\.json is not an entry of the log"):
        table.commit([])


def test_a_table_that_cannot_be_written_lands_nothing(tmp_path: Path) -> None:
    (tmp_path / "lake").write_bytes(b"a file")
    with pytest.raises(LakeError, match=r"cannot read the log of .*Not a directory"):
        put(quick(tmp_path / "lake" / "below"), [0])


def test_land_leaves_nothing_of_what_it_could_not_land(table: ParquetDirectory) -> None:
    put(table, [0])
    (table.root / name(1, 1)).write_bytes(b"in the way")
    with pytest.raises(NotLandedError):
        put(table, [1])
    assert names(table, "_columnar/staged/*") == []


class NothingAppears(QuickFiles):
    """Files cannot get their final names."""

    def link(self, old: Path, new: Path) -> None:
        if new.suffix == ".parquet":
            raise OSError(28, "No space left on device")
        super().link(old, new)


def test_discard_never_removes_what_has_landed(tmp_path: Path) -> None:
    """Spark calls abort after a commit that raised, whatever the reason."""
    table = quick(tmp_path)
    attempt = staged(table, [0, 1])
    broken = ParquetDirectory(tmp_path, files=NothingAppears())
    with pytest.raises(MayHaveLandedError, match="commit 1 has landed, but not all"):
        broken.commit([attempt])
    table.discard([attempt])
    assert rows(table) == numbers([0, 1])


# --- every step can be the last -----------------------------------------------------------------


class Killed(BaseException):
    """What kill -9 is to the code: nothing after it runs."""


class HookedFiles(QuickFiles):
    """Counts the steps of the file system; subclasses interfere with one of them."""

    answers = False  # whether what comes after a step, and before the next, is one as well

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.steps: list[str] = []
        self.opened: list[Any] = []

    def step(self, what: str) -> None:
        self.steps.append(what)
        if len(self.steps) - 1 == self.at:
            self.reached()

    def reached(self) -> None:
        """Interfere."""

    def _around(self, what: str, do: Callable[[], Any]) -> Any:
        self.step(f"before {what}")
        result = do()
        if self.answers:
            self.step(f"after {what}")
        return result

    def __del__(self) -> None:
        for file in self.opened:
            file.close()

    def create(self, path: Path) -> Any:
        self.make_folder(path.parent)
        return self._around(f"create {path}", lambda: self._open(path))

    def _open(self, path: Path) -> Any:
        self.opened.append(path.open("xb", buffering=0))  # what is written is there when killed
        return self.opened[-1]

    def write(self, file: Any, data: Any) -> int:
        self.step("before write")
        half = len(memoryview(data)) // 2
        file.write(memoryview(data)[:half])
        self.step("within write")
        file.write(memoryview(data)[half:])
        return len(memoryview(data))

    def sync(self, file: Any) -> None:
        self._around("sync", lambda: QuickFiles.sync(self, file))

    def link(self, old: Path, new: Path) -> None:
        self._around(f"link {new}", lambda: LocalFiles.link(self, old, new))

    def remove(self, path: Path) -> None:
        self._around(f"remove {path}", lambda: LocalFiles.remove(self, path))

    def size(self, path: Path) -> int | None:
        nbytes: int | None = self._around(f"size {path}", lambda: LocalFiles.size(self, path))
        return nbytes

    def same(self, one: Path, other: Path) -> bool:
        return bool(self._around(f"same {other}", lambda: LocalFiles.same(self, one, other)))

    def read(self, path: Path) -> bytes:
        return bytes(self._around(f"read {path}", lambda: LocalFiles.read(self, path)))

    def names(self, folder: Path, after: str = "") -> list[str]:
        return list(self._around(f"names {folder}", lambda: LocalFiles.names(self, folder)))

    def make_folder(self, folder: Path) -> None:
        self._around(f"make {folder}", lambda: LocalFiles.make_folder(self, folder))

    def sync_folder(self, folder: Path) -> None:
        self._around(f"sync {folder}", lambda: QuickFiles.sync_folder(self, folder))


class KilledFiles(HookedFiles):
    """The process dies at one step: no step follows, whatever the code tries."""

    dead = False

    def step(self, what: str) -> None:
        if self.dead:
            raise Killed
        super().step(what)

    def reached(self) -> None:
        self.dead = True
        raise Killed


class FailingFiles(HookedFiles):
    """One step fails, or says that it failed though it was done."""

    answers = True

    def reached(self) -> None:
        raise OSError(5, "Input/output error")


class DyingDiskFiles(HookedFiles):
    """From one step on all fail."""

    def step(self, what: str) -> None:
        super().step(what)
        if 0 <= self.at < len(self.steps):
            raise OSError(5, "Input/output error")


class InterruptedFiles(HookedFiles):
    """Another committer comes in between, whole."""

    def __init__(self, at: int, other: Callable[[], object]) -> None:
        super().__init__(at)
        self.reached = other  # type: ignore[method-assign, assignment]


INPUT = range(8)


def base(root: Path) -> ParquetDirectory:
    """A table in which something has landed before."""
    table = quick(root)
    put(table, [0, 1], file_row_groups=1, small_bytes=0)
    return table


def attempt(table: ParquetDirectory) -> CommitResult:
    return put(table, INPUT, file_row_groups=4, small_bytes=0)


def steps_of(
    root: Path,
    run: Callable[[ParquetDirectory], object],
    kind: type[HookedFiles] = HookedFiles,
) -> list[str]:
    files = kind()
    base(root)
    run(ParquetDirectory(root, files=files))
    return files.steps


def _sort(step: str) -> tuple[str, str, str]:
    """What a step does, in which folder, and with which sort of file."""
    what, _, name = step.rpartition(" ")
    path = Path(name)
    return what, path.parent.name if path.suffix else path.name, path.suffix


def chosen(steps: list[str]) -> Iterable[int]:
    """Return which steps to disturb: all, or in `make test` the first and last of each sort."""
    if is_long():
        return range(len(steps))
    sorts = [_sort(step) for step in steps]
    last = {sort: k for k, sort in enumerate(sorts)}
    return sorted({*map(sorts.index, last), *last.values()})


def settle(root: Path, offsets: Iterable[int] = INPUT) -> None:
    """Land all again after a restart: in other files, for the grouping is not to be relied on."""
    table = quick(root)
    put(table, offsets, file_row_groups=3, small_bytes=0)
    put(table, offsets, file_row_groups=3, small_bytes=0)
    assert rows(table) == numbers(offsets)


def visible(root: Path) -> None:
    """What a reader finds in between: whole files, and nothing twice."""
    counts = Counter(rows(quick(root)))
    assert set(counts.values()) <= {1}
    assert set(counts) <= set(numbers(INPUT))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (KilledFiles, {"Killed"}),
        (FailingFiles, {"landed", "LakeError", "OSError", "NotLandedError", "MayHaveLandedError"}),
        (
            DyingDiskFiles,
            {"landed", "LakeError", "OSError", "NotLandedError", "MayHaveLandedError"},
        ),
    ],
)
def test_a_fault_at_any_step_loses_and_doubles_nothing(
    tmp_path: Path, kind: type[HookedFiles], expected: set[str]
) -> None:
    """Killed at every step of staging and committing, or each step failing, then tried again."""
    outcomes: Counter[str] = Counter()
    for k in chosen(steps_of(tmp_path / "count", attempt, kind)):
        root = tmp_path / str(k)
        base(root)
        try:
            attempt(ParquetDirectory(root, files=kind(at=k)))
            outcomes["landed"] += 1
        except (Killed, LakeError, OSError) as error:
            outcomes[type(error).__name__] += 1
            if isinstance(error, NotLandedError):
                assert rows(quick(root)) == numbers([0, 1])
        visible(root)
        settle(root)
    assert set(outcomes) == expected


@pytest.mark.long
def test_a_fault_in_rolling_forward_what_another_left(tmp_path: Path) -> None:
    """Killed between log and files, and whoever comes next is killed at every step as well."""
    count = steps_of(tmp_path / "count", attempt)
    logged = 1 + next(i for i, step in enumerate(count) if "link" in step and "json" in step)
    for k in chosen(count):
        root = tmp_path / str(k)
        base(root)
        with pytest.raises(Killed):
            attempt(ParquetDirectory(root, files=KilledFiles(at=logged)))
        with suppress(Killed):
            put(
                ParquetDirectory(root, files=KilledFiles(at=k)),
                range(10),
                file_row_groups=4,
                small_bytes=0,
            )
        settle(root, range(10))


@pytest.mark.long
@pytest.mark.parametrize("others", [INPUT, range(5), range(10), range(2)])
def test_another_commit_at_any_step(tmp_path: Path, others: range) -> None:
    """The same input, less or more, in other files; between any two steps of the first."""
    everything = range(max(len(INPUT), len(others)))
    for k in chosen(steps_of(tmp_path / "count", attempt)):
        root = tmp_path / str(k)
        base(root)
        files = InterruptedFiles(
            k, lambda root=root: put(quick(root), others, file_row_groups=3, small_bytes=0)
        )
        with suppress(NotLandedError):
            attempt(ParquetDirectory(root, files=files))
        counts = Counter(rows(quick(root)))
        assert set(counts.values()) == {1}
        settle(root, everything)


def compact(table: ParquetDirectory) -> object:
    put(quick(table.root), INPUT, file_row_groups=4, small_bytes=0)
    return table.compact(1 << 20)


@pytest.mark.long
@pytest.mark.parametrize("kind", [KilledFiles, FailingFiles])
def test_a_fault_at_any_step_of_compacting_loses_and_doubles_nothing(
    tmp_path: Path, kind: type[HookedFiles]
) -> None:
    for k in chosen(steps_of(tmp_path / "count", compact, kind)):
        root = tmp_path / str(k)
        base(root)
        with suppress(Killed, LakeError, OSError):
            compact(ParquetDirectory(root, files=kind(at=k)))
        visible(root)
        settle(root, range(10))
        quick(root).compact(1 << 20)
        assert rows(quick(root)) == numbers(range(10))


@pytest.mark.long
def test_a_landing_at_any_step_of_compacting(tmp_path: Path) -> None:
    for k in chosen(steps_of(tmp_path / "count", compact)):
        root = tmp_path / str(k)
        base(root)
        files = InterruptedFiles(
            k, lambda root=root: put(quick(root), range(10), file_row_groups=3, small_bytes=0)
        )
        compact(ParquetDirectory(root, files=files))
        assert rows(quick(root)) == numbers(range(10))
        settle(root, range(10))


@pytest.mark.long
def test_another_commit_of_the_very_same_files_at_any_step(tmp_path: Path) -> None:
    """A driver that was taken for dead: both say what is true, that the files have landed."""

    def commit(table: ParquetDirectory) -> CommitResult:
        return table.commit([staged(quick(table.root), INPUT, file_row_groups=4, small_bytes=0)])

    for k in chosen(steps_of(tmp_path / "count", commit)):
        root = tmp_path / str(k)
        shared = staged(base(root), INPUT, file_row_groups=4, small_bytes=0)
        files = InterruptedFiles(k, lambda: quick(root).commit([shared]))  # noqa: B023 - used here
        result = ParquetDirectory(root, files=files).commit([shared])
        assert result.landed.plus(result.landed_before) == Count(8, 8 * ROWS)
        assert rows(quick(root)) == numbers(INPUT)


def test_two_at_once_one_lands_and_the_other_is_told(tmp_path: Path) -> None:
    """Both have read the same log when they add to it."""
    barrier = threading.Barrier(2, timeout=60)

    class Together(QuickFiles):
        met = False

        def link(self, old: Path, new: Path) -> None:
            if new.suffix == ".json" and not self.met:
                self.met = True
                barrier.wait()
            super().link(old, new)

    results: list[CommitResult | NotLandedError] = []

    def commit(offsets: range) -> None:
        try:
            results.append(put(ParquetDirectory(tmp_path, files=Together()), offsets))
        except NotLandedError as error:
            results.append(error)

    threads = [threading.Thread(target=commit, args=(offsets,)) for offsets in (range(5), range(8))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert rows(quick(tmp_path)) in (numbers(range(5)), numbers(range(8)))
    settle(tmp_path)


def test_nothing_is_logged_before_it_is_durable(tmp_path: Path) -> None:
    """And nothing is removed from where it was staged before its new name is."""
    steps = steps_of(tmp_path, attempt)
    log = next(i for i, step in enumerate(steps) if "link" in step and "json" in step)
    before, after = steps[:log], steps[log:]
    assert before.count("before sync") == len([s for s in before if "before create" in s])
    assert f"before sync {tmp_path / '_columnar/staged'}" in before
    folders = [after.index(f"before sync {tmp_path / folder}") for folder in ("_columnar/log", "t")]
    links = [i for i, step in enumerate(after) if "before link" in step]
    removed = [i for i, s in enumerate(after) if "before remove" in s and "segment" in s]
    assert links[0] < folders[0] < links[1] < links[-1] < folders[1] < removed[0]


# --- a commit whose outcome is open -------------------------------------------------------------


class Unanswered(QuickFiles):
    """The log's link is done or not, and no answer comes; reading it may fail as well."""

    def __init__(self, *, done: bool, readable: bool) -> None:
        self.done, self.readable, self.asked = done, readable, False

    def link(self, old: Path, new: Path) -> None:
        if new.suffix == ".json" and not self.asked:
            self.asked = True
            if self.done:
                super().link(old, new)
            raise OSError(110, "Connection timed out")
        super().link(old, new)

    def size(self, path: Path) -> int | None:
        if self.asked and not self.readable:
            raise OSError(110, "Connection timed out")
        return super().size(path)


def test_an_unanswered_commit_that_is_in_the_log_has_landed(tmp_path: Path) -> None:
    result = put(ParquetDirectory(tmp_path, files=Unanswered(done=True, readable=True)), INPUT)
    assert result.landed == Count(8, 8 * ROWS)
    assert rows(quick(tmp_path)) == numbers(INPUT)


def test_an_unanswered_commit_that_is_not_in_the_log_has_not_landed(tmp_path: Path) -> None:
    with pytest.raises(NotLandedError, match="nothing has landed"):
        put(ParquetDirectory(tmp_path, files=Unanswered(done=False, readable=True)), INPUT)
    settle(tmp_path)


@pytest.mark.parametrize("done", [False, True])
def test_an_unanswered_commit_that_cannot_be_asked_for_may_have_landed(
    tmp_path: Path, *, done: bool
) -> None:
    with pytest.raises(MayHaveLandedError, match="may have been written"):
        put(ParquetDirectory(tmp_path, files=Unanswered(done=done, readable=False)), INPUT)
    settle(tmp_path)


def test_a_place_where_others_always_come_first_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_module, "_TRIES", 3)
    offsets = iter(range(100, 200))

    class Busy(QuickFiles):
        def link(self, old: Path, new: Path) -> None:
            if new.suffix == ".json":
                other = staged(quick(tmp_path), [0], fences={}, place={"partition": next(offsets)})
                quick(tmp_path).commit([other])
            super().link(old, new)

    with pytest.raises(
        NotLandedError, match="in 3 attempts; the last one: another commit took entry 3 of the log"
    ):
        put(ParquetDirectory(tmp_path, files=Busy()), INPUT)
    assert names(quick(tmp_path), "_columnar/staged/*") == []
