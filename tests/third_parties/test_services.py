"""Services change their import and their configuration, one process after the other, and back.

What is billed is what was ordered: all of it, once, with equal values.
"""

from __future__ import annotations

import threading
from contextlib import closing
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING

import migrating
import pytest
import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), migrating.Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=list(migrating.SERVICES))
def service(
    request: pytest.FixtureRequest, topic: str, servers: str, registry: str, tmp_path: Path
) -> Iterator[migrating.Service]:
    with closing(migrating.Service(request.param, topic, servers, registry, tmp_path)) as service:
        yield service


def test_consumers_first_and_back(service: migrating.Service) -> None:
    """At every step all orders are billed, whoever takes them."""
    for producer_is_ours, consumer_is_ours in (
        (False, False),
        (False, True),
        (True, True),
        (False, True),
        (False, False),
    ):
        service.take_orders(ours=producer_is_ours)
        service.bill(ours=consumer_is_ours)
        service.check()
    kinds = traffic.kinds_of_messages(service.topic, service.servers)
    assert kinds.count("plain") >= 3 * migrating.COUNT
    assert "segment" in kinds


def test_a_producer_first_and_back(service: migrating.Service) -> None:
    """Stock fails at the first segment, and our consumer continues there."""
    service.take_orders(ours=False)
    service.bill(ours=False)
    service.take_orders(ours=False)
    service.take_orders(ours=True)
    service.fail_to_bill()
    assert migrating.COUNT <= len(service.billed) < len(service.ordered)
    service.bill(ours=True)
    service.check()
    service.take_orders(ours=True)
    service.fail_to_bill()  # back, too early
    service.bill(ours=True)
    service.take_orders(ours=False)
    service.bill(ours=False)
    service.check()


def test_another_group_reads_both_kinds_of_messages_from_the_beginning(
    service: migrating.Service,
) -> None:
    for ours in (False, True, False, True):
        service.take_orders(ours=ours)
    for group in ("audit", "again"):
        with service.process("bill", ours=True, group=f"{service.topic}-{group}") as process:
            service.billed = process.lines(len(service.ordered))
        service.check()
