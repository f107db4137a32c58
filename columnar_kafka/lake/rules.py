"""What may land, and what becomes of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from columnar_kafka.errors import ConfigError
from columnar_kafka.segment.verification import VERIFICATIONS

if TYPE_CHECKING:
    from columnar_kafka.segment.verification import Verification

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How closely a segment is looked at before it lands.

    Raises:
        ConfigError: a value is not allowed.
    """

    verify: Verification = "pages"

    def __post_init__(self) -> None:
        if self.verify not in VERIFICATIONS:
            raise ConfigError(f"verify is {self.verify!r}: it must be {' or '.join(VERIFICATIONS)}")
