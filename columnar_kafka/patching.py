"""Our clients in the place of confluent-kafka's, for frameworks that create their own."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka

from columnar_kafka import serializing
from columnar_kafka.broker import traced_classes
from columnar_kafka.config import Arguments, Hidden
from columnar_kafka.consuming.consumer import Consumer
from columnar_kafka.consuming.settings import ConsumerConfig
from columnar_kafka.producing.producer import Producer
from columnar_kafka.producing.settings import ProducerConfig

if TYPE_CHECKING:
    from columnar_kafka.config import Config

__all__ = ["patch_confluent_kafka"]

_log: Final = logging.getLogger(__name__)
_PACKAGES: Final = ("confluent_kafka", "columnar_kafka")


def patch_confluent_kafka(
    *, producer: Config | None = None, consumer: Config | None = None
) -> None:
    """Replace confluent-kafka's classes with this package's, for whoever imports them from now on.

    A framework gets ours by ``from confluent_kafka import Consumer, Producer`` then, with what it
    configures and with the keys that are given here. What has imported a class before goes on with
    that one, and a warning in the log names it. Tracers come first: what they have put there stays
    above ours. A later call takes the place of an earlier one. For the main thread, at the start.

    Args:
        producer: keys for every `Producer` and `SerializingProducer`; None leaves both classes.
        consumer: keys for every `Consumer` and `DeserializingConsumer`; None leaves both.

    Raises:
        ConfigError: an unknown ``columnar.`` key, or a value that is not allowed.
    """
    ProducerConfig.parse(producer or {})
    ConsumerConfig.parse(consumer or {})
    for own, *classes in (
        (producer, Producer, serializing.SerializingProducer),
        (consumer, Consumer, serializing.DeserializingConsumer),
    ):
        if own is not None:
            for cls in classes:
                _replace(_configured(cls, Hidden(own)))


def _configured(base: Any, own: Hidden) -> Any:
    def create(self: Any, *args: Any, **kwargs: Any) -> None:
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show passwords
        super(configured, self).__init__(arguments.merged() | own)  # a tracer's may come next

    configured: Any = type(base.__name__, (base,), {"__init__": create, "__doc__": base.__doc__})
    return configured


def _replace(ours: type) -> None:
    before = getattr(confluent_kafka, ours.__name__)
    traced_classes.put_in_place(ours)
    late = [name for name, module in list(sys.modules.items()) if _holds(name, module, before)]
    if late:
        text = (
            "%s had imported confluent_kafka.%s before patch_confluent_kafka was called, and goes "
            "on with it: call it earlier"
        )
        _log.warning(text, ", ".join(sorted(late)), ours.__name__)


def _holds(name: str, module: Any, cls: type) -> bool:
    """Whether a module has imported `cls`; confluent-kafka, we and the tracer of `cls` may."""
    if name.partition(".")[0] in _PACKAGES or name == cls.__module__:
        return False
    return any(member is cls for member in list(getattr(module, "__dict__", {}).values()))
