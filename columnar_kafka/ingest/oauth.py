"""``oauth_cb`` by its name: for clients that are configured with text, and in other processes."""

from __future__ import annotations

import logging
import pkgutil
import time
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NamedOauthCb", "named_oauth_cb"]

_log: Final = logging.getLogger(__name__)

_LONGEST: Final = 10 * 366 * 86_400.0
"""A token that is valid for longer has its expiry in milliseconds."""


class NamedOauthCb:
    """A function of a module, as confluent-kafka's ``oauth_cb``; pickled as its name.

    Two of one name are equal: they make equal configurations, for which a process keeps one client.
    """

    def __init__(self, name: str, function: Callable[[str | None], Any]) -> None:
        """Take the function that `name` means."""
        self._name = name
        self._function = function

    def __call__(self, config: str | None) -> Any:
        """Return a token, and what else the function says of it.

        Called by a thread of librdkafka's when a client is created, and before a token expires.

        Args:
            config: ``sasl.oauthbearer.config``.

        Raises:
            ConfigError: the function does not return what librdkafka takes.
            Exception: whatever the function raises. Either is logged: librdkafka tries again, and
                says only that it has got no token in time.
        """
        try:
            found = self._function(config)
            _check(found)
        except Exception as error:
            reason = error if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            _log.error("oauth_cb=%s: no token: %s", self._name, reason)
            raise
        return found

    def __reduce__(self) -> tuple[Callable[[str], NamedOauthCb], tuple[str]]:
        """Have another process import the function."""
        return named_oauth_cb, (self._name,)

    def __eq__(self, other: object) -> bool:
        """Compare the names."""
        return isinstance(other, NamedOauthCb) and str(other) == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<oauth_cb {self._name}>"


def named_oauth_cb(name: str | NamedOauthCb) -> NamedOauthCb:
    """Import a function ``module:function`` that makes tokens, and return it.

    It gets the text of ``sasl.oauthbearer.config``, or None, and returns a token and when it
    expires, in seconds since 1970; and if the broker needs them, a principal and a dict of
    extensions.

    Raises:
        ConfigError: it cannot be imported, or is no function.
    """
    module, _, path = str(name).partition(":")
    if not isinstance(name, str | NamedOauthCb) or not module or not path:
        raise ConfigError(
            f"oauth_cb is {name!r}: it must be MODULE:FUNCTION, such as my_tokens:msk"
        )
    try:
        found = pkgutil.resolve_name(f"{module}:")
    except Exception as error:
        raise ConfigError(
            f"oauth_cb={name}: its module cannot be imported: {error}. Install it, or put its "
            "folder in PYTHONPATH, in every process that connects"
        ) from error
    try:
        function = attrgetter(path)(found)
    except AttributeError as error:
        raise ConfigError(f"oauth_cb={name}: module {module!r} has no {path!r}") from error
    if not callable(function):
        raise ConfigError(f"oauth_cb={name} is a {type(function).__name__}, and no function")
    return NamedOauthCb(str(name), function)


def _check(found: Any) -> None:
    """Check a token that a function has returned; the text has nothing of it."""
    expected = "(token, seconds since 1970 when it expires)"
    if not isinstance(found, tuple) or len(found) < 2 or not isinstance(found[0], str):  # noqa: PLR2004
        raise ConfigError(
            f"the function has returned a {type(found).__name__}: it must return {expected}"
        )
    token, expiry = found[:2]
    if not token:
        raise ConfigError(f"the function has returned an empty token: it must return {expected}")
    if not isinstance(expiry, int | float):
        raise ConfigError(f"its expiry is a {type(expiry).__name__}: it must return {expected}")
    now = time.time()
    if expiry > now + _LONGEST:
        raise ConfigError(
            f"it expires at {expiry:.0f}: that must be in seconds since 1970, not milliseconds"
        )
    if expiry <= now:
        raise ConfigError(f"it expires at {expiry}, which is over")
