"""Makes tokens for a Kafka that checks no signature: `oauth_cb=tokens_made:token`."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

_SECONDS = 6


def token(_: str | None) -> tuple[str, float]:
    """Return a token that is valid for a moment, and when it expires."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": "lander", "iat": now, "exp": now + _SECONDS})
    return ".".join([*map(_encoded, parts), ""]), now + _SECONDS


def refused(_: str | None) -> tuple[str, float]:
    """Return nothing."""
    raise PermissionError("no role here")


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
