"""columnar-kafka with values in JSON: a service that has serialized them changes no line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.competitors.ours import Ours
from benchmarks.competitors.ready import Ready

if TYPE_CHECKING:
    from benchmarks.data import Row


class OursJson(Ours):
    """JSON that orjson has made before, into columns."""

    settings: ClassVar[dict[str, Any]] = {"columnar.value.format": "json"}
    prepare = Ready.prepare

    @staticmethod
    def decode(value: Any) -> Row:
        """Return a record's row; there must be no rest of it."""
        assert value.pop("_rest") is None
        return value  # type: ignore[no-any-return]
