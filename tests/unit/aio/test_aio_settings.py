"""How both asyncio clients are made, and the settings that they cannot work with."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from columnar_kafka.aio import AIOConsumer, AIOProducer
from columnar_kafka.errors import ConfigError

BOTH = pytest.mark.parametrize("client", [AIOConsumer, AIOProducer])
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
CONFIG: dict[Any, dict[str, Any]] = {
    AIOConsumer: {**NOWHERE, "group.id": "g", "on_commit": print},
    AIOProducer: {**NOWHERE, "on_delivery": print},
}


@BOTH
def test_it_is_made_inside_a_loop(client: Any) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        client(CONFIG[client])


@pytest.mark.parametrize(
    ("client", "setting", "match"),
    [
        (AIOConsumer, {"oauth_cb": asyncio.sleep}, "oauth_cb must not be async"),
        (AIOProducer, {"oauth_cb": asyncio.sleep}, "oauth_cb must not be async"),
        (AIOConsumer, {"columnar.encodin": "parquet"}, "no such key"),
        (AIOProducer, {"columnar.encodin": "parquet"}, "no such key"),
        (AIOProducer, {"delivery.report.only.error": True}, "delivery.report.only.error=true"),
    ],
)
async def test_settings_that_it_cannot_work_with_are_refused(
    client: Any, setting: Any, match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        client(CONFIG[client] | setting)


@BOTH
async def test_the_configuration_it_was_given_is_not_changed(client: Any) -> None:
    given = CONFIG[client] | {"error_cb": print, "logger": logging.getLogger("x")}

    copy = dict(given)
    async with client(given):
        assert given == copy
