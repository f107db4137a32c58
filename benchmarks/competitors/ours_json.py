"""columnar-kafka with values in JSON: bytes in, bytes out, and nothing changed between them."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson

from benchmarks.competitors.base import Stock
from benchmarks.competitors.ours import Ours
from benchmarks.competitors.ready import Ready


class OursJson(Ours):
    """JSON that orjson has made before, into columns; and such bytes of these again."""

    settings: ClassVar[dict[str, Any]] = {"columnar.value.format": "json"}
    prepare = Ready.prepare
    rows_by_poll = Stock.rows_by_poll
    rows_by_consume = Stock.rows_by_consume
    decode = staticmethod(orjson.loads)

    def consumer(self, servers: str, config: dict[str, Any] | None = None) -> Any:
        """Return a consumer without an assignment."""
        return super().consumer(servers, {**self.settings, **(config or {})})
