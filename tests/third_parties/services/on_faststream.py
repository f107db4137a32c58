"""Takes orders from its input, and bills them; both on FastStream."""

import asyncio
import json
import os
import signal
import sys

from faststream import AckPolicy
from faststream.confluent import KafkaBroker, KafkaMessage

CONFIG = json.loads(os.environ["CONFIG"])
SERVERS, GROUP = CONFIG["bootstrap.servers"], CONFIG.get("group.id")
TOPIC = os.environ["TOPIC"]
broker = KafkaBroker(SERVERS, graceful_timeout=30, logger=None)


async def take_orders() -> None:
    """Publish each line of the input."""
    async with broker:
        await broker.start()
        orders = [json.loads(line) for line in sys.stdin]
        await asyncio.gather(
            *(broker.publish(order, TOPIC, key=str(order["id"]).encode()) for order in orders)
        )


async def bill() -> None:
    """Print each order and commit it, until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)

    @broker.subscriber(
        TOPIC,
        group_id=GROUP,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        ack_policy=AckPolicy.MANUAL,
    )
    async def billed(message: KafkaMessage) -> None:
        try:
            order = json.loads(message.body)
        except ValueError:
            os._exit(1)  # or FastStream would go on with the next message
        print(json.dumps([message.raw_message.key().decode(), order]), flush=True)
        # Not `message.ack()`, which waits for nothing: an order that is printed would come again.
        await message.consumer.commit(asynchronous=False)

    async with broker:
        await broker.start()
        await stopped.wait()


asyncio.run({"take_orders": take_orders, "bill": bill}[sys.argv[1]]())
