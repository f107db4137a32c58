"""What user threads and the sender share: the native core's objects, or such in Python.

One kind is used in a producer, whichever engines its topics have: the core appends to open batches
and charges their records by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from columnar_kafka import native
from columnar_kafka.producing.accepting.memory_bound import PureUsage
from columnar_kafka.producing.accepting.open_batches import PureOpenBatches

if TYPE_CHECKING:
    from collections.abc import Callable

    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.producing.partitioner import Partitioner

    Relayed = tuple[Callable[..., Any], KafkaError | None, confluent_kafka.Message]

__all__ = ["Shared", "shared"]


class _Abandoned:
    error: Exception | None = None


def _relay(
    append: Callable[[Relayed], None],
    callback: Callable[..., Any],
    error: KafkaError | None,
    source: confluent_kafka.Message,
) -> None:
    """Append a report. What a signal handler raises before loses it."""
    append((callback, error, source))


class Shared(NamedTuple):
    """What makes these objects."""

    usage: Any
    """Counts what is accepted, against the bounds."""
    open_batches: Callable[..., Any]
    """Has the open batches of all topics, by the `Usage`, a partitioner, and three callbacks."""
    abandoned: Any
    """Has an `error`: once it is set, it is raised in place of the next report."""
    relay: Callable[..., None]
    """Appends a plain message's report; in the native core no signal handler runs before."""


def _pure_open_batches(_: Any, partitioner: Partitioner, *__: Any) -> PureOpenBatches:
    return PureOpenBatches(partitioner)


def _native_open_batches(usage: Any, partitioner: Partitioner, *callbacks: Any) -> Any:
    return native.core.OpenBatches(usage, partitioner.name, *callbacks)


_PURE = Shared(PureUsage, _pure_open_batches, _Abandoned, _relay)


def shared() -> Shared:
    """Return what makes the native core's, if it is on, or Python's."""
    if not native.enabled:
        return _PURE
    core = native.core
    return Shared(core.Usage, _native_open_batches, core.Abandoned, core.relay)
