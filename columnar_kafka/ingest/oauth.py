"""``oauth_cb`` by its name: for clients that are configured with text, and in other processes."""

from __future__ import annotations

import logging
import pkgutil
import threading
import time
import traceback
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NamedOauthCb", "named_oauth_cb"]

_log: Final = logging.getLogger(__name__)

_WAIT: Final = 10.0
"""Seconds; so long confluent-kafka's clients wait for their first token."""
_LONGEST: Final = 10 * 366 * 86_400.0
"""A token that is valid for longer has its expiry in milliseconds."""


class _NoTokenError(ConfigError):
    """What the function does is not what librdkafka takes. The text is ours, and has no secret."""


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

        Called by a thread of librdkafka's when a client is created, and before a token expires. The
        function has a thread of its own, and is waited for as long as a client waits for a token: a
        client cannot be closed meanwhile.

        Args:
            config: ``sasl.oauthbearer.config``.

        Raises:
            ConfigError: the function does not return what librdkafka takes, or not in time.
            BaseException: whatever the function raises. Either is logged: librdkafka tries again,
                and says only that it has got no token in time. The log leaves out the exception's
                text, which may hold a token or a secret.
        """
        given = Hidden({"config": config})
        del config
        try:
            return _call(self._function, given)["token"]
        except BaseException as error:
            _log.error("oauth_cb=%s: no token: %s", self._name, _reason(error))
            raise

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
        imported = pkgutil.resolve_name(f"{module}:")
    except Exception as error:
        raise ConfigError(
            f"oauth_cb={name}: its module cannot be imported: {error}. Install it, or put its "
            "folder in PYTHONPATH, in every process that connects"
        ) from error
    try:
        function = attrgetter(path)(imported)
    except AttributeError as error:
        raise ConfigError(f"oauth_cb={name}: module {module!r} has no {path!r}") from error
    if not callable(function):
        raise ConfigError(f"oauth_cb={name} is a {type(function).__name__}, and no function")
    return NamedOauthCb(str(name), function)


def _reason(error: BaseException) -> str:
    """Say why there is no token: in our own words, or by what was raised where."""
    if isinstance(error, _NoTokenError):
        return error.reason
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    code = frame.f_code
    return (
        f"{type(error).__name__} in {code.co_name}, line {line} of {code.co_filename} (its text "
        "is not logged, as a token may be in it: have the function log what it may)"
    )


def _call(function: Callable[[str | None], Any], given: Hidden) -> Hidden:
    """Call a function in a thread of its own; return its result as `token`, if it is one."""
    outcome = Hidden()

    def call() -> None:
        try:
            outcome["token"] = function(given["config"])
        except BaseException as error:  # noqa: BLE001 - it is raised below
            outcome["error"] = error

    thread = threading.Thread(target=call, name="columnar-kafka-oauth", daemon=True)
    thread.start()
    thread.join(_WAIT)
    if "error" in outcome:
        raise outcome["error"]
    if "token" not in outcome:
        raise _NoTokenError(f"the function has not returned within {_WAIT:g} s")
    if (wrong := _what_is_wrong(outcome["token"])) is not None:
        raise _NoTokenError(wrong)
    return outcome


def _what_is_wrong(token: Any) -> str | None:
    """Say what librdkafka would not take of a function's result; the text has nothing of it.

    This frame is gone when that is raised.
    """
    expected = "it must return (token, seconds since 1970 when it expires)"
    match token:
        case (str(text), int() | float() as expiry):
            texts = [text]
        case (str(text), int() | float() as expiry, str(principal)):
            texts = [text, principal]
        case (str(text), int() | float() as expiry, str(principal), dict(extensions)):
            texts = [text, principal, *extensions, *extensions.values()]
        case tuple():
            types = ", ".join(type(part).__name__ for part in token)
            return f"the function has returned ({types}): {expected}, then principal and extensions"
        case _:
            return f"the function has returned a {type(token).__name__}: {expected}"
    if not text:
        return f"the function has returned an empty token: {expected}"
    if not all(map(_can_be_sent, texts)):
        return "token, principal, and names and values of extensions must be texts in UTF-8"
    now = time.time()
    if expiry > now + _LONGEST:
        return f"it expires at {expiry:.0f}: that must be in seconds since 1970, not milliseconds"
    return None if expiry > now else f"it expires at {expiry}, which is over"


def _can_be_sent(text: Any) -> bool:
    try:
        return b"\0" not in text.encode()
    except (AttributeError, UnicodeEncodeError):
        return False
