"""The tests run in the environment of one framework; the servers are there already."""

from __future__ import annotations

import itertools
import os

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def servers() -> str:
    """Where Kafka is: `make third-parties` starts one for all."""
    return os.environ["THIRD_PARTIES_SERVERS"]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has; brokers create topics."""
    test = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return f"{os.getpid()}-{next(_numbers)}-{test}"


@pytest.fixture(scope="module")
def stock_topic(request: pytest.FixtureRequest) -> str:
    """The same for what a module compares the others with."""
    return f"{os.getpid()}-stock-{request.node.name.removesuffix('.py')}"
