"""confluent-kafka with orjson: JSON, as most services send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from benchmarks.competitors.base import Stock

if TYPE_CHECKING:
    from benchmarks.data import Dataset


class Orjson(Stock):
    """`orjson.dumps` and `orjson.loads`."""

    def __init__(self, data: Dataset) -> None:
        super().__init__(data)
        self.encode, self.decode = orjson.dumps, orjson.loads
