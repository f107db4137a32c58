"""columnar-kafka, whose consumer makes JSON of records."""

from __future__ import annotations

from typing import Any

import orjson

from benchmarks.competitors.base import Stock
from benchmarks.competitors.ours import Ours


class OursAsJson(Ours):
    """A record's value is bytes, as that of any other message."""

    rows_by_poll = Stock.rows_by_poll
    rows_by_consume = Stock.rows_by_consume
    decode = staticmethod(orjson.loads)

    def consumer(self, servers: str, config: dict[str, Any] | None = None) -> Any:
        """Return a consumer without an assignment."""
        return super().consumer(servers, {"columnar.value.format": "json", **(config or {})})
