"""An object store or catalog does its work, and its answer is lost: every row lands once."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from http_proxy import HttpProxy
from lakes import DeltaLake, DirectoryLake, IcebergLake, put, rows
from segments import numbers

from columnar_kafka.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNS = 34  # of six cases: 204

TARGETS = {
    # the kind of table, its server, the field of `Bucket` that names it, and what commits
    "directory": (DirectoryLake, "minio", "endpoint", ("PUT", ".json")),
    "delta": (DeltaLake, "minio", "endpoint", ("PUT", ".json")),
    "iceberg": (IcebergLake, "iceberg_rest", "catalog", ("POST", "/tables/t")),
}


class Lossy:
    """Places on a server, and the same ones behind a proxy that loses answers."""

    def __init__(self, target: str, server: Any, folder: Path) -> None:
        self._kind, _, self._field, self.commit = TARGETS[target]
        self._server = server
        self._folder = folder
        self.proxy = HttpProxy(getattr(server.place("any"), self._field))

    def lake(self, name: str) -> Any:
        return self._kind(self._folder, self._server.place(name))

    def behind(self, name: str) -> Any:
        proxied = {self._field: self.proxy.endpoint}
        return self._kind(self._folder, self._server.place(name)._replace(**proxied))


@pytest.fixture(params=list(TARGETS))
def lossy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lossy]:
    server = request.getfixturevalue(TARGETS[request.param][1])
    places = Lossy(request.param, server, tmp_path)
    with places.proxy:
        yield places


def after(lake: Any, offsets: range, method: Any, *arguments: Any) -> Any:
    put(lake.table(), offsets)
    return method(*arguments)


@pytest.mark.parametrize("on_top", [False, True])
def test_the_answer_of_every_commit_is_lost(lossy: Lossy, *, on_top: bool) -> None:
    """With `on_top` another commit lands before the loser of the answer asks what became of it."""
    name = uuid.uuid4().hex
    lake = lossy.lake(name)
    put(lake.table(), [0])
    end = 1
    for _ in range(RUNS):
        table, step = lossy.behind(name).table(), range(end, end + 2)
        end = step.stop + on_top
        if on_top:
            table.has_landed = partial(after, lake, range(step.stop, end), table.has_landed)
        lossy.proxy.lose(*lossy.commit)
        assert put(table, step).landed.messages == 2
    assert rows(lake) == numbers(range(end))
    assert lossy.proxy.lose(*lossy.commit)[1] == RUNS


def test_the_answer_of_any_one_request_is_lost(lossy: Lossy) -> None:
    name = uuid.uuid4().hex
    put(lossy.lake(name).table(), [0])
    before, _ = lossy.proxy.lose("", "", 1000)
    put(lossy.behind(name).table(), range(4), file_row_groups=2, small_bytes=0)
    after, _ = lossy.proxy.lose("", "", 1000)
    for at in range(after - before):
        name = uuid.uuid4().hex
        lake = lossy.lake(name)
        put(lake.table(), [0])
        lossy.proxy.lose("", "", at)
        with suppress(LakeError, OSError):
            put(lossy.behind(name).table(), range(4), file_row_groups=2, small_bytes=0)
        assert rows(lake) in (numbers([0]), numbers(range(4)))
        put(lake.table(), range(6))
        assert rows(lake) == numbers(range(6))
    assert lossy.proxy.lose("", "", 1000)[1] == after - before
