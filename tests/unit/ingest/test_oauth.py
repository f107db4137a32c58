"""A function that makes tokens, by its name."""

from __future__ import annotations

import logging
import pickle
import re
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest import oauth
from columnar_kafka.ingest.oauth import named_oauth_cb

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
import threading, time
token = lambda config: (f"token of {config}", time.time() + 60)
with_extensions = lambda config: ("t", time.time() + 60, "me", {"a": "b"})
a_name = "me"
def fails(config):
    raise PermissionError("the secret is wrong")
def fails_deep(config):
    fails(config)
def has_a_wrong_value(config):
    int("secret")
def not_ours(config):
    from columnar_kafka import ConfigError
    raise ConfigError("secret")
milliseconds = lambda config: ("t", 1000 * time.time() + 60_000)
expired = lambda config: ("t", time.time() - 1)
only_a_token = lambda config: "secret"
nothing = lambda config: None
empty = lambda config: ("", time.time() + 60)
class Nested:
    token = token
def exits(config):
    raise SystemExit("no")
principal = lambda config: ("t", time.time() + 60, 7)
extensions = lambda config: ("t", time.time() + 60, "me", {"a": 1})
too_many = lambda config: ("secret", time.time() + 60, "me", {}, 5)
never_expires = lambda config: ("t", float("nan"))
surrogate = lambda config: ("\\ud800", time.time() + 60)
null = lambda config: ("a\\0", time.time() + 60)
def blocks(config):
    threading.Event().wait(60)
"""


@pytest.fixture(autouse=True)
def _tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_tokens.py").write_text(MODULE)
    (tmp_path / "broken_tokens.py").write_text("import signer_that_is_not_installed")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_function_is_found_by_its_name_and_called() -> None:
    callback = named_oauth_cb("some_tokens:token")
    token, expiry = callback("what sasl.oauthbearer.config says")
    assert token == "token of what sasl.oauthbearer.config says"
    assert expiry > time.time()
    assert named_oauth_cb("some_tokens:with_extensions")(None)[2:] == ("me", {"a": "b"})
    assert named_oauth_cb("some_tokens:Nested.token")("x")[0] == "token of x"


def test_it_is_one_setting_in_every_process() -> None:
    """Spark pickles options, and a worker keeps one client for each configuration."""
    callback = named_oauth_cb("some_tokens:token")
    again = pickle.loads(pickle.dumps(callback))
    assert again == callback == named_oauth_cb(callback)
    assert hash(again) == hash(callback)
    assert again("x")[0] == "token of x"
    assert (str(callback), repr(callback)) == ("some_tokens:token", "<oauth_cb some_tokens:token>")


def test_a_process_that_cannot_import_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent = pickle.dumps(named_oauth_cb("some_tokens:token"))
    (tmp_path / "some_tokens.py").unlink()
    monkeypatch.delitem(sys.modules, "some_tokens")
    with pytest.raises(ConfigError, match=r"oauth_cb=some_tokens:token: .*No module named"):
        pickle.loads(sent)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("token", "oauth_cb is 'token': it must be MODULE:FUNCTION, such as my_tokens:msk"),
        (":token", "it must be MODULE:FUNCTION"),
        ("some_tokens:", "it must be MODULE:FUNCTION"),
        (7, "oauth_cb is 7: it must be MODULE:FUNCTION"),
        (
            "no_tokens:token",
            "its module cannot be imported: No module named 'no_tokens'.*PYTHONPATH",
        ),
        ("broken_tokens:x", "No module named 'signer_that_is_not_installed'"),
        (
            "some_tokens:missing",
            "oauth_cb=some_tokens:missing: module 'some_tokens' has no 'missing'",
        ),
        ("some_tokens:a_name", "oauth_cb=some_tokens:a_name is a str, and no function"),
    ],
)
def test_what_is_no_function_is_named(name: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        named_oauth_cb(name)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("fails", r"PermissionError in fails, line \d+ of .*some_tokens\.py \(its text"),
        ("fails_deep", r"PermissionError in fails, line \d+"),
        ("not_ours", r"ConfigError in not_ours, line \d+"),
        ("has_a_wrong_value", r"ValueError in has_a_wrong_value, line \d+"),
        (
            "milliseconds",
            r"expires at 1\d{12}: that must be in seconds since 1970, not milliseconds",
        ),
        ("expired", r"expires at 1\d{9}\.\d+, which is over"),
        ("only_a_token", r"returned a str: it must return \(token, seconds since 1970"),
        ("nothing", "returned a NoneType"),
        ("empty", "an empty token"),
        ("exits", r"SystemExit in exits, line \d+"),
        ("principal", r"returned \(str, float, int\): it must .* then principal and extensions"),
        ("extensions", "values of extensions must be texts in UTF-8"),
        ("too_many", r"returned \(str, float, str, dict, int\)"),
        ("never_expires", "expires at nan, which is over"),
        ("surrogate", "must be texts in UTF-8"),
        ("null", "must be texts in UTF-8"),
    ],
)
def test_what_librdkafka_would_not_say_is_logged(
    name: str, match: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It asks again later, and in the end says that no token was set in time."""
    callback = named_oauth_cb(f"some_tokens:{name}")
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises((PermissionError, ValueError, ConfigError, SystemExit)),
    ):
        callback(None)
    [message] = caplog.messages
    assert message.startswith(f"oauth_cb=some_tokens:{name}: no token: ")
    assert re.search(match, message)
    assert "secret" not in caplog.text


def test_a_client_does_not_wait_for_one_that_blocks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be closed meanwhile, and the process not end."""
    monkeypatch.setattr(oauth, "_WAIT", 0.01)
    callback = named_oauth_cb("some_tokens:blocks")
    with pytest.raises(ConfigError, match=r"has not returned within 0\.01 s"):
        callback(None)
    assert "oauth_cb=some_tokens:blocks: no token: " in caplog.text


def test_no_frame_shows_a_token_or_what_it_is_made_of() -> None:
    for name in ("too_many", "only_a_token", "fails", "has_a_wrong_value"):
        with pytest.raises((ConfigError, PermissionError, ValueError)) as raised:
            named_oauth_cb(f"some_tokens:{name}")("secret")
        report = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
        for frame in report.stack:
            if frame.filename == oauth.__file__:
                assert "secret" not in str(frame.locals)
