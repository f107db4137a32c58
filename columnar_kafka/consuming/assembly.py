"""The parts of a consumer that unwraps segments, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.consuming.arrow_output import ArrowOutput
from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.consuming.feed.value_forms import VALUE_FORMS
from columnar_kafka.consuming.group.commits import Commits
from columnar_kafka.consuming.group.membership import GroupMembership
from columnar_kafka.consuming.positions import Positions
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.isolated import IsolatedDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.broker.traced_classes import StockConsumer
    from columnar_kafka.consuming.group.callback_errors import CallbackErrors
    from columnar_kafka.consuming.settings import ClientSettings, ConsumerConfig
    from columnar_kafka.segment.decoder import Decoder

__all__ = ["Parts", "assemble", "guarded_callbacks"]

_CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb")


def guarded_callbacks(
    errors: CallbackErrors,
    inner: Mapping[str, Any],
    settings: ConsumerConfig,
    on_commit: Callable[..., None],
) -> dict[str, Any]:
    """Return the callbacks in librdkafka's configuration, whose exceptions go to `errors`.

    `on_commit` takes the place of the user's, unless librdkafka is to refuse that.
    """
    guarded = {key: errors.guard(inner[key]) for key in _CALLBACKS if callable(inner.get(key))}
    if settings.on_commit is None or callable(settings.on_commit):
        guarded["on_commit"] = errors.guard(on_commit)
    return guarded


class Parts(NamedTuple):
    """What a consumer that unwraps segments has, beside what every `Consumer` has."""

    decoder: Decoder
    feed: Feed
    commits: Commits
    group: GroupMembership
    positions: Positions
    arrow: ArrowOutput


def assemble(
    base: StockConsumer,
    broker: ConsumerBroker,
    settings: ConsumerConfig,
    client: ClientSettings,
    errors: CallbackErrors,
) -> Parts:
    """Return the parts of one consumer; `base` has its own stock methods, as its `super()` does.

    Raises:
        ConfigError: librdkafka has accepted a setting that this package cannot use.
    """
    if settings.deferred_error is not None:
        raise settings.deferred_error
    decoder: Decoder = (IsolatedDecoder if settings.isolated else InlineDecoder)(
        settings.read_options
    )
    feed = Feed(
        broker,
        OffsetStore(auto_store=settings.auto_store),
        decoder=decoder,
        form=VALUE_FORMS[settings.value_format],
        partition_eof=client.partition_eof,
        before_serving=errors.guard(lambda: commits.commit_if_due()),  # noqa: PLW0108 - set below
        after_serving=errors.raise_pending,
    )
    commits = Commits(base, broker, feed, settings, errors)
    group = GroupMembership(base, broker, feed, commits, client, errors)
    arrow = ArrowOutput(
        broker, feed, group, settings.read_options, partition_eof=client.partition_eof
    )
    positions = Positions(base, broker, feed, group.check_open)
    return Parts(decoder, feed, commits, group, positions, arrow)
