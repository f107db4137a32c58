"""What is measured: one file for each question, in the order in which they are answered.

A question has `TITLE`, `ABOUT`, `IS_LONG` (only `--full` asks it) and `answer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benchmarks.questions import (
    consume,
    freshness,
    idle,
    imports,
    ingest,
    latency,
    memory,
    objects,
    passthrough,
    plain,
    produce,
    read_back,
    revision,
    rows,
    scale,
    shared_consumer,
    size,
    small,
    stitch,
)

if TYPE_CHECKING:
    from types import ModuleType

ALL: Final[dict[str, ModuleType | Any]] = {
    each.__name__.rpartition(".")[2]: each
    for each in (
        produce,
        objects,
        size,
        consume,
        small,
        latency,
        scale,
        idle,
        imports,
        plain,
        rows,
        memory,
        passthrough,
        shared_consumer,
        ingest,
        stitch,
        read_back,
        freshness,
        revision,
    )
}
