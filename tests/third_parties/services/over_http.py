"""Takes orders over HTTP, as JSON, and bills them."""

import http.server
import json
import os
import signal
import sys
import threading

from confluent_kafka import Consumer, Producer

CONFIG = json.loads(os.environ["CONFIG"])
TOPIC = os.environ["TOPIC"]


def take_orders() -> None:
    """Produce what is posted, until the input ends."""
    producer = Producer(CONFIG)
    failed = []

    def report(error, message) -> None:
        if error is not None:
            failed.append((error, message.value()))

    class Orders(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            producer.produce(TOPIC, json.dumps(order), key=str(order["id"]), on_delivery=report)
            producer.poll(0)
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Orders)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()
    producer.flush()
    assert not failed, failed


def bill() -> None:
    """Print each order and commit it, until SIGTERM."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    consumer = Consumer(CONFIG)
    consumer.subscribe([TOPIC])
    while not stopped.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            raise RuntimeError(message.error())
        order = json.loads(message.value())
        print(json.dumps([message.key().decode(), order]), flush=True)
        consumer.commit(message=message, asynchronous=False)
    consumer.close()


{"take_orders": take_orders, "bill": bill}[sys.argv[1]]()
