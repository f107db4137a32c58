"""The tests run in the environment of one framework. A Kafka is running already."""

from __future__ import annotations

import itertools
import os

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def servers() -> str:
    """The bootstrap servers of the one Kafka that `make third-parties` starts."""
    return os.environ["THIRD_PARTIES_SERVERS"]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses. The broker creates the topic."""
    test = "".join(character if character.isalnum() else "-" for character in request.node.name)
    return f"{os.getpid()}-{next(_numbers)}-{test}"


@pytest.fixture(scope="module")
def stock_topic(request: pytest.FixtureRequest) -> str:
    """The same, for the run with stock clients that a module compares the others with."""
    return f"{os.getpid()}-stock-{request.node.name.removesuffix('.py')}"
