"""How JSON that differs from its schema becomes rows: what is done with what finds no column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from columnar_kafka.errors import ConfigError

__all__ = ["MISFIT", "UNKNOWN", "Lenient", "tokens_of"]

UNKNOWN: Final = ("rest", "ignore", "grow")
MISFIT: Final = ("rest", "dead-letter")
_POINTER: Final = re.compile(r"(/([^~/]|~[01])*)*")


@dataclass(frozen=True, slots=True)
class Lenient:
    """What becomes of objects that differ from their schema. Picklable.

    Attributes:
        unknown: what becomes of a field that the schema does not have, at any level: it goes to the
            rest, or is ignored. Or the table grows a column for it; until it has, the rest has it.
        misfit: what becomes of a value that its column cannot hold: it goes to the rest, and the
            column is null, or the message is a dead letter.
        coerce: whether texts are numbers and booleans where columns are, and numbers are texts.
        rest_column: the name of the last column, which has the rest as JSON text. It is there
            unless nothing goes to the rest.
        path: a JSON pointer (RFC 6901) to the object in a message that is the row.
        max_columns: how many columns of values a schema that is guessed may have, and a table may
            grow to.

    Raises:
        ConfigError: a value is not allowed.
    """

    unknown: str = "rest"
    misfit: str = "rest"
    coerce: bool = False
    rest_column: str = "_rest"
    path: str = ""
    max_columns: int = 1000

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("unknown", self.unknown, UNKNOWN),
            ("misfit", self.misfit, MISFIT),
        ):
            if value not in allowed:
                raise ConfigError(f"{name} is {value!r}: it must be {' or '.join(allowed)}")
        if self.max_columns < 1:
            raise ConfigError(f"max_columns is {self.max_columns}: it must be positive")
        if not self.rest_column:
            raise ConfigError("rest_column is empty: a column needs a name")
        if not _POINTER.fullmatch(self.path):
            raise ConfigError(
                f"path is {self.path!r}: it must be a JSON pointer such as /payload, with ~1 for a "
                "slash in a name and ~0 for a tilde"
            )

    @property
    def has_rest(self) -> bool:
        """Whether there is a column of the rest."""
        return self.unknown != "ignore" or self.misfit == "rest"


def tokens_of(path: str) -> list[str]:
    """Return the names in a JSON pointer."""
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
