"""What an ingesting process says about itself over HTTP, for Kubernetes and others.

    GET /health    200 while every ingestor is at work, or has ended, else 503: start it again
    GET /ready     200 if those at work also know their partitions, else 503

Both answer with the counts of every topic as JSON.
"""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from columnar_kafka.ingest.service import IngestService

__all__ = ["HealthServer"]


class HealthServer:
    """A server in a thread of its own, from `with` on until its end."""

    def __init__(
        self, service: IngestService, port: int, *, host: str = "", late_seconds: float = 300.0
    ) -> None:
        """Listen; `port` 0 takes a free one. Without `host` it answers on all addresses.

        An ingestor is not at work if one message or one commit takes more than `late_seconds`.

        Raises:
            OSError: there is no such host, or the port cannot be had.
        """

        class Handler(_Handler):
            answer = staticmethod(lambda path: _answer(service, path, late_seconds))

        self._server = _Server((host, port), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="columnar-health", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _answer(service: IngestService, path: str, late_seconds: float) -> tuple[int, dict[str, Any]]:
    topics = {}
    is_well = True
    for ingestor in service.ingestors:
        seconds = ingestor.seconds_since_turn
        topics[ingestor.topic] = {
            **asdict(ingestor.stats),
            "has_ended": ingestor.has_ended,
            "is_assigned": ingestor.is_assigned,
            "seconds_since_turn": round(seconds, 3),
        }
        is_at_work = seconds <= late_seconds and (ingestor.is_assigned or path != "/ready")
        is_well &= ingestor.has_ended or is_at_work
    if path not in ("/health", "/ready"):
        return 404, {"error": "the paths are /health and /ready"}
    return 200 if is_well else 503, {"topics": topics}


class _Server(ThreadingHTTPServer):
    """Listens on addresses of both families if no host is named."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        host, port = address
        if not host and socket.has_dualstack_ipv6():
            host = "::"
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family = addresses[0][0]
        super().__init__(addresses[0][4][:2], handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(BaseHTTPRequestHandler):
    """Answers GET; `answer` returns the status and the content for a path."""

    answer: Any

    def do_GET(self) -> None:
        """Answer a request."""
        status, content = self.answer(self.path)
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: a probe comes every few seconds."""
