"""What both clients' settings have in common: unknown keys, and the constructor's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from columnar_kafka.config import Arguments
from columnar_kafka.consuming.settings import ConsumerConfig
from columnar_kafka.errors import ConfigError
from columnar_kafka.producing.settings import ProducerConfig


@pytest.mark.parametrize("parse", [ProducerConfig.parse, ConsumerConfig.parse])
def test_an_unknown_columnar_key_is_an_error_that_lists_the_known_keys(parse: Any) -> None:
    with pytest.raises(ConfigError, match=r"^columnar\.lingerms: no such key; there are columnar"):
        parse({"columnar.lingerms": 5})


def test_keywords_win_over_the_dict() -> None:
    assert Arguments(({"a": 1, "b": 1},), {"b": 2}).merged() == {"a": 1, "b": 2}


@pytest.mark.parametrize("args", [(), ({}, {}), ("x",), (None,)])
def test_anything_but_one_dict_is_a_type_error(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="expected"):
        Arguments(args, {}).merged()
