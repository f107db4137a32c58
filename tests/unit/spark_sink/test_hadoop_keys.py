"""Spark's keys for `s3a` become options of the sink."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import spark_sink


def options(**s3a: str) -> dict[str, str]:
    """Return the options that a Spark with these keys gives, without their prefix."""
    config = {"spark.hadoop.fs.s3a." + key.replace("_", "."): value for key, value in s3a.items()}
    spark: Any = SimpleNamespace(conf=config)
    prefixed = spark_sink.storage_options(spark)
    assert all(key.startswith("table.storage.aws_") for key in prefixed)
    return {key.removeprefix("table.storage.aws_"): value for key, value in prefixed.items()}


def test_what_spark_does_not_know_is_left_to_the_environment() -> None:
    assert options() == {}


def test_credentials_and_region_keep_their_values() -> None:
    assert options(
        access_key="a", secret_key="b", session_token="c", endpoint_region="eu-central-1"
    ) == {
        "access_key_id": "a",
        "secret_access_key": "b",
        "session_token": "c",
        "region": "eu-central-1",
    }


@pytest.mark.parametrize(
    ("s3a", "expected"),
    [
        ({"endpoint": "s3.example.org"}, {"endpoint_url": "https://s3.example.org"}),
        (
            {"endpoint": "store:9000", "connection_ssl_enabled": "False"},
            {"endpoint_url": "http://store:9000", "allow_http": "true"},
        ),
        (
            {"endpoint": "http://store:9000"},
            {"endpoint_url": "http://store:9000", "allow_http": "true"},
        ),
        ({"path_style_access": "true"}, {"virtual_hosted_style_request": "false"}),
        ({"path_style_access": "false"}, {"virtual_hosted_style_request": "true"}),
    ],
)
def test_endpoints_are_urls(s3a: dict[str, str], expected: dict[str, str]) -> None:
    assert options(**s3a) == expected
