"""A producer whose `produce` a tracer has replaced (see `broker.traced_classes`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from columnar_kafka.producing.pipeline import Pipeline

__all__ = ["AboveTracer"]


class AboveTracer:
    """Keeps a tracer from records whose segments do not store the headers that it adds."""

    _pipeline: Pipeline
    _below_tracer: Any

    def produce(self, topic: str, *args: Any, **kwargs: Any) -> None:
        """Produce with the tracer, or below it."""
        topic_format = self._pipeline.formats.get(topic) if isinstance(topic, str) else None
        if topic_format is None or "headers" in topic_format.kafka.members:
            super().produce(topic, *args, **kwargs)  # type: ignore[misc]
        else:
            self._below_tracer.produce(self, topic, *args, **kwargs)
