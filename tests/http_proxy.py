"""A proxy in front of an HTTP server that keeps an answer back, or is slow.

Where an answer is kept back, the server did what was asked.

It is a process of its own: some libraries hold the GIL while they wait for an answer.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HttpProxy"]


class HttpProxy:
    """Serves at `endpoint` while a `with` block lasts, and takes so many bytes a second."""

    def __init__(self, endpoint: str, bytes_per_second: float = float("inf")) -> None:
        self._address = endpoint.removeprefix("http://")
        self._speed = bytes_per_second

    def __enter__(self) -> Self:
        line = [sys.executable, __file__, self._address, str(self._speed)]
        self._process = Popen(line, stdin=PIPE, stdout=PIPE, text=True)
        self.endpoint = f"http://127.0.0.1:{self._answer()}"
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()  # which ends at the end of its input

    def lose(self, method: str, path: str, after: int = 0) -> list[int]:
        """Keep back the answer to a request of a method whose path has this text in it.

        Of several such requests the answers to the first `after` are given. Returns how many
        requests there have been so far, and how many answers were lost.
        """
        assert self._process.stdin is not None
        print(json.dumps([method, path, after]), file=self._process.stdin, flush=True)
        counts: list[int] = self._answer()
        return counts

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


class _Handler(BaseHTTPRequestHandler):
    """Hands on requests to `address`."""

    protocol_version = "HTTP/1.1"
    address, speed = "", 0.0
    lock, slow = threading.Lock(), threading.Lock()
    requests = lost = 0
    method, path_part, after = "", "", -1

    def forward(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        with self.slow:  # as through one wire
            time.sleep(size / self.speed)
            body = self.rfile.read(size)
        server = HTTPConnection(self.address)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            server.putheader(name, value)
        server.endheaders(body)
        answer = server.getresponse()
        data = answer.read()
        server.close()
        if self._is_lost():
            self.close_connection = True
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "connection"}:
                self.send_header(name, value)
        if answer.getheader("Content-Length") is None:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = forward  # noqa: N815 - names of the library

    def _is_lost(self) -> bool:
        kind = type(self)
        with self.lock:
            kind.requests += 1
            if not (self.command.startswith(kind.method) and kind.path_part in self.path):
                return False
            kind.after -= 1
            kind.lost += kind.after == -1
            return kind.after == -1

    def log_message(self, *_: object) -> None:
        pass


def main(address: str, speed: str) -> None:
    _Handler.address, _Handler.speed = address, float(speed)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        _say(server.server_port)
        for line in sys.stdin:
            with _Handler.lock:
                _Handler.method, _Handler.path_part, _Handler.after = json.loads(line)
                _say([_Handler.requests, _Handler.lost])
        server.shutdown()


def _say(what: object) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
