"""The form of ISO 8601 in which the times of a column were written, and are written again."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeVar

__all__ = ["TimeForm"]

_SEEN: Final = re.compile(
    r"(?:\d{4}-\d{2}-\d{2}([T ]))?\d{2}:\d{2}:\d{2}(?:\.(\d{1,9}))?(Z|\+00:00)?", re.ASCII
)
_SAID: Final = re.compile(r"([T ]?)(?:(\[)?\.(0{1,9})(?(2)\]))?(Z|\+00:00)?", re.ASCII)
_MICROSECONDS: Final = 6  # digits

T = TypeVar("T")


class TimeForm(NamedTuple):
    """A form, or what is known of it.

    Attributes:
        separator: what stands between date and time of day; empty for times of day.
        digits: those of a fraction of a second; None: nobody knows, or six, or nine if it needs so
            many.
        shows_zeros: whether a whole second has them, too; None: nobody knows.
        zone: how UTC is written: ``Z``, ``+00:00`` or not at all.
    """

    separator: str
    digits: int | None = None
    shows_zeros: bool | None = None
    zone: str = ""

    @classmethod
    def seen(cls, text: str) -> TimeForm | None:
        """Return what a time tells of its form; None: it has one that is not written."""
        found = _SEEN.fullmatch(text)
        if found is None:
            return None
        separator, fraction, zone = (part or "" for part in found.groups())
        shows_zeros = None if fraction.strip("0") else fraction != ""
        return cls(separator, len(fraction) or None, shows_zeros, zone)

    @classmethod
    def parse(cls, text: str) -> TimeForm | None:
        """Return the form that `text` has returned."""
        found = _SAID.fullmatch(text)
        if found is None:
            return None
        separator, bracket, zeros, zone = found.groups()
        if zeros is None:
            return cls(separator, zone=zone or "")
        return cls(separator, len(zeros), bracket is None, zone or "")

    def is_usual(self, *, has_zone: bool) -> bool:
        """Return whether a column's times are written so where nothing is said."""
        is_bare = self.digits in (None, _MICROSECONDS) and not self.shows_zeros
        return is_bare and self.separator != " " and self.zone == ("Z" if has_zone else "")

    def text(self) -> str:
        """Return the form as a segment's footer says it, such as ``T[.000]Z``.

        A fraction in brackets is none where it is zero.
        """
        fraction = "" if self.digits is None else f".{'0' * self.digits}"
        if fraction and not self.shows_zeros:
            fraction = f"[{fraction}]"
        return f"{self.separator}{fraction}{self.zone}"

    def joined(self, other: TimeForm) -> TimeForm | None:
        """Return what is known from both, or None if no form is both."""
        if (self.separator, self.zone) != (other.separator, other.zone):
            return None
        digits, shows_zeros = {self.digits, other.digits}, {self.shows_zeros, other.shows_zeros}
        if len(digits - {None}) > 1 or len(shows_zeros - {None}) > 1:
            return None
        return TimeForm(self.separator, _known(digits), _known(shows_zeros), self.zone)

    def fraction(self, nanos: int) -> str:
        """Return the fraction of a second that is so many nanoseconds, with its point."""
        if not nanos:
            return f".{'0' * (self.digits or 0)}" if self.shows_zeros else ""
        digits = self.digits or _MICROSECONDS
        if nanos % 10 ** (9 - digits):
            digits = 9 if nanos % 1000 else _MICROSECONDS
        return f".{nanos // 10 ** (9 - digits):0{digits}}"


def _known(those: set[T | None]) -> T | None:
    return next(iter(those - {None}), None)
