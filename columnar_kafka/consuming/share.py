"""`confluent_kafka.ShareConsumer`, which takes segments as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka

from columnar_kafka.config import Arguments
from columnar_kafka.consuming.settings import ConsumerConfig
from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka import ShareConsumer as StockShareConsumer
else:
    StockShareConsumer = getattr(confluent_kafka, "ShareConsumer", object)

__all__ = ["ShareConsumer"]


class ShareConsumer(StockShareConsumer):
    """`confluent_kafka.ShareConsumer`; a segment is one message whose value is a Parquet file.

    A share group acknowledges, redelivers and rejects whole Kafka messages, so the records of a
    segment cannot be given out one by one: ``columnar.encoding=parquet`` is refused.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take confluent-kafka's configuration.

        Raises:
            ConfigError: ``columnar.encoding=parquet`` without ``fetch.raw.bytes=true``; or as
                `Consumer`.
            KafkaException, TypeError: as confluent-kafka.
            NotImplementedError: confluent-kafka 2.14 or older, which have no such class.
        """
        if StockShareConsumer is object:
            raise NotImplementedError(
                "ShareConsumer needs confluent-kafka 2.15 or later; "
                f"{confluent_kafka.__version__} is installed"
            )
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show passwords
        settings, inner = ConsumerConfig.parse(arguments.merged())
        if settings.unwraps:
            raise ConfigError(
                f"columnar.encoding={settings.encoding}: not possible with a ShareConsumer: a "
                "share group acknowledges whole Kafka messages, not the records of a segment; use "
                "Consumer, or configure fetch.raw.bytes=true and take segments as Parquet files"
            )
        super().__init__(inner)
