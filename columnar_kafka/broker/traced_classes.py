"""What lets tracers see this package's clients: OpenTelemetry, Datadog, New Relic and others.

Automatic instrumentation replaces `confluent_kafka.Producer` (`Consumer`, and so on) with a
subclass whose methods create a span and then call confluent-kafka's. Our clients derive from the
classes in C below, so that the messages they send and fetch inside are not traced. The user's calls
are: a client that is created while such a subclass is in place is an instance of it too, with the
classes in this order of calls:

    the user's subclass -> the tracer's class -> columnar_kafka.Producer -> the class in C

No tracer is imported. Without one, clients are created as usual and no call costs more.
"""

# ruff: noqa: SLF001 - a class of ours says by private names what is to be above it

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
from confluent_kafka import cimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer as StockConsumer
    from confluent_kafka import Producer as StockProducer
else:
    # New Relic replaces these names in `cimpl` itself, by subclasses.
    StockConsumer = cimpl.Consumer.__mro__[-2]
    StockProducer = cimpl.Producer.__mro__[-2]

__all__ = ["StockConsumer", "StockProducer", "put_in_place", "traced"]

_NAMES: Final = ("Consumer", "DeserializingConsumer", "Producer", "SerializingProducer")
BEFORE_OURS: Final = {name: getattr(confluent_kafka, name) for name in _NAMES}
"""What a class of ours has replaced in confluent-kafka; at import, if the user did that."""


def put_in_place(cls: Any) -> None:
    """Replace confluent-kafka's class of that name with a class of ours, which a tracer sees."""
    name = cls.__name__
    before = getattr(confluent_kafka, name)
    if not _is_ours(before):
        BEFORE_OURS[name] = before
    setattr(confluent_kafka, name, cls)


def _is_ours(cls: Any) -> bool:
    return any("_stock" in vars(base) for base in getattr(cls, "__mro__", ()))


def traced(cls: Any) -> Any:
    """Return `cls`, or the subclass of it whose calls a tracer sees.

    Our class is the first of `cls` and its bases that defines `_stock`, the class of
    confluent-kafka that it replaces; its `_above_tracer` are classes that go above a tracer's.
    Thread-safe.
    """
    ours: Any = next(base for base in cls.__mro__ if "_stock" in vars(base))
    name = ours._stock.__name__
    tracer = getattr(confluent_kafka, name)
    if isinstance(tracer, type) and issubclass(tracer, ours):
        tracer = BEFORE_OURS[name]
    if not (isinstance(tracer, type) and issubclass(tracer, ours._stock)):
        return cls
    kept = vars(cls).get("_seen_by")  # in a global cache `cls` would never be freed
    if kept is None or kept[0] is not tracer:
        cls._seen_by = kept = tracer, _seen_by(tracer, ours, cls)
    return kept[1]


def _seen_by(tracer: type, ours: Any, cls: type) -> type:
    """Create the subclass; New Relic's class may already be a base of ours."""
    bound = {base: names for base in tracer.__mro__ if (names := _early_bound(base))}
    late = {base: _class(base, (base,), _late(base, bound[base])) for base in bound}
    own = set(ours.__mro__)
    above = [late.get(base, base) for base in tracer.__mro__[:1] if base not in own]
    above += [late[base] for base in tracer.__mro__[1:] if base in late and base not in own]
    within = [late[base] for base in late if base in own]
    if not above and not within:
        return cls
    if above:
        below, bases = ours, (*ours._above_tracer, *above, ours, *within)
    else:
        below = next(base for base in ours.__mro__[1:] if "_stock" in vars(base))
        bases = (ours, *ours._above_tracer, *within)
    layer = _class(ours, bases, {"_below_tracer": below})
    return layer if cls is ours else _class(cls, (cls, layer), {})


def _early_bound(owner: type) -> list[str]:
    """Return the names of the inherited methods that wrapt has wrapped in this class.

    Such a wrapper calls the method of the class in C that it was created with, whatever class comes
    next in an instance's method resolution order: ours would be skipped.
    """
    return [
        name
        for name, member in vars(owner).items()
        if hasattr(member, "_self_wrapper")
        and any(vars(base).get(name) is member.__wrapped__ for base in owner.__mro__[1:])
    ]


def _late(owner: type, names: list[str]) -> dict[str, Callable[..., Any]]:
    """Return methods that wrap whichever method comes next in the method resolution order."""

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            function = getattr(super(owner, self), name)
            wrapper = getattr(vars(owner).get(name), "_self_wrapper", None)
            if wrapper is None:  # no longer traced
                return function(*args, **kwargs)
            return wrapper(function, self, args, kwargs)

        return call

    return {name: method(name) for name in names}


def _class(like: type, bases: tuple[type, ...], members: dict[str, Any]) -> type:
    shown = {"__module__": like.__module__, "__qualname__": like.__qualname__}
    return types.new_class(
        like.__name__, bases, exec_body=lambda body: body.update(shown | members)
    )
