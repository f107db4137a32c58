"""Partitions: where librdkafka would send a key, and free where librdkafka is free."""

from __future__ import annotations

import pytest

from columnar_kafka.producing.partitioner import PARTITIONERS, Partitioner

HASHED = ["consistent", "murmur2", "fnv1a"]


def test_all_of_librdkafkas_partitioners_are_known() -> None:
    hashed = {*HASHED, *(f"{name}_random" for name in HASHED)}
    assert {"random"} | hashed == PARTITIONERS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("consistent", [166, 594, 818, 91]),
        ("murmur2", [568, 553, 24, 887]),
        ("fnv1a", [752, 48, 183, 573]),
    ],
)
@pytest.mark.parametrize("form", ["", "_random"])
def test_keys_go_where_librdkafka_sends_them(name: str, form: str, expected: list[int]) -> None:
    keys = [b"N14228", b"\x00\xff", "ключ".encode(), b"a" * 1000]
    assert [Partitioner(name + form).choose(key, 1000) for key in keys] == expected


@pytest.mark.parametrize(("name", "expected"), [("consistent", 0), ("murmur2", 681), ("fnv1a", 35)])
def test_null_keys_of_the_plain_forms_go_where_empty_keys_go(name: str, expected: int) -> None:
    partitioner = Partitioner(name)
    assert partitioner.choose(None, 1000) == partitioner.choose(b"", 1000) == expected


@pytest.mark.parametrize("name", ["random", *(f"{name}_random" for name in HASHED)])
def test_null_keys_of_the_random_forms_may_go_anywhere(name: str) -> None:
    assert Partitioner(name).choose(None, 1000) is None


def test_only_consistent_random_lets_empty_keys_go_anywhere() -> None:
    free = [name for name in sorted(PARTITIONERS) if Partitioner(name).choose(b"", 1000) is None]
    assert free == ["consistent_random", "random"]


def test_random_ignores_keys() -> None:
    assert Partitioner("random").choose(b"N14228", 1000) is None


def test_anywhere_is_every_partition_and_no_other() -> None:
    assert {Partitioner.any(3) for _ in range(200)} == {0, 1, 2}


def test_one_partition_is_everywhere() -> None:
    assert {Partitioner(name).choose(b"k", 1) for name in PARTITIONERS} == {0, None}
