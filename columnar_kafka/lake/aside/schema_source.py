"""Where the schema of plain messages comes from, if nobody has written it.

A schema that was guessed is kept with the table, so that a restart and a second process have the
same one. Where two guess at the same time, the one that is kept first counts. The table's own
columns lead: what is kept only adds to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable  # noqa: TC003 - fields of a dataclass are looked up
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from columnar_kafka.errors import LakeError, SchemaError, SegmentError
from columnar_kafka.lake.aside.decoding import PlainDecoder, SchemaSource
from columnar_kafka.lake.aside.kept_columns import (
    as_kept,
    columns_and_kept,
    kept_columns,
    own_columns,
    row_columns,
)
from columnar_kafka.lake.model import UnlandableError
from columnar_kafka.schema.inference import MAX_COLUMNS, Inference
from columnar_kafka.schema.kept import to_kept
from columnar_kafka.schema.leading import led_by, nullable, of_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from columnar_kafka.lake.aside.decoding import Decoding, Sample
    from columnar_kafka.lake.model import SourceMessage
    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.schema.inference import FieldReport

__all__ = ["Guess", "Infer", "OfTable", "log_guess"]

_log = logging.getLogger(__name__)


class Guess(NamedTuple):
    """A schema that was guessed, and is kept: what was seen of how many objects.

    `passed_over` counts plain messages that are no object. `is_kept` is false if another process
    was faster, whose schema counts.
    """

    kept: str
    reports: Sequence[FieldReport]
    objects: int
    passed_over: int
    is_kept: bool


def log_guess(guess: Guess, log: Callable[[str], None] = _log.info) -> None:
    """Log a schema that was guessed, and what was seen of each field."""
    log(f"schema of plain messages, guessed from {guess.objects} objects: {guess.kept}")
    for report in guess.reports:
        seen = ", ".join(f"{count} {kind}" for kind, count in report.types.items())
        column = report.column or "no column"
        log(f"{report.path}: {column}; {seen}; missing in {report.missing}. {report.note}")


@dataclass(frozen=True, slots=True)
class OfTable(SchemaSource):
    """The columns of the table."""

    def decide(self, decoding: Decoding, table: LakeTable, sample: Sample | None) -> RecordSchema:
        """See `SchemaSource.decide`."""
        leading, kept = columns_and_kept(table, decoding.rest_column)
        if leading is None:
            raise LakeError(
                f"{table}: there is no table yet that plain messages could have the columns of: "
                "name a schema, or have it inferred"
            )
        return leading if kept is None else as_kept(table, kept, leading)


@dataclass(frozen=True, slots=True, kw_only=True)
class Infer(SchemaSource):
    """The schema that is kept with the table. If none is, the first messages tell one.

    `messages` is how many of each partition are read, segments among them, whose columns lead.
    With `times` texts that are all times in ISO 8601 make columns of times. A schema that was
    guessed is `told`, once.
    """

    messages: int = 10_000
    times: bool = False
    told: Callable[[Guess], None] = log_guess

    def decide(self, decoding: Decoding, table: LakeTable, sample: Sample | None) -> RecordSchema:
        """See `SchemaSource.decide`."""
        leading, kept = columns_and_kept(table, decoding.rest_column)
        if kept is None:
            if sample is None:
                raise LakeError(
                    f"{table} keeps no schema of plain messages: a landing that infers one keeps "
                    "it, or name one"
                )
            first = self._keep(decoding, table, leading, sample(self.messages))
            leading, kept = columns_and_kept(table, decoding.rest_column)
        return kept_columns(table, kept or first, leading)

    def _keep(
        self,
        decoding: Decoding,
        table: LakeTable,
        leading: RecordSchema | None,
        messages: Iterable[SourceMessage],
    ) -> str:
        """Guess a schema and keep it; return the one that is kept."""
        most = decoding.lenient.max_columns if decoding.lenient is not None else MAX_COLUMNS
        own = own_columns(decoding.rest_column)
        inference = Inference(times=self.times, reserved=own, max_columns=most)
        passed_over = 0
        segments: dict[Any, SourceMessage] = {}  # the last one of each partition
        for message in messages:
            if not message.is_plain:
                segments[message.topic, message.partition] = message
            elif message.value is not None:
                passed_over += not inference.add_json(bytes(message.value), decoding.tokens)
        schemas = [] if leading is None else [leading]
        schemas += [*_columns_of(segments.values(), decoding), *_guessed(inference)]
        if not schemas:
            raise LakeError(
                f"{table}: no column can be guessed from {inference.rows} objects and "
                f"{passed_over} other plain messages: name a schema"
            )
        schema = reduce(lambda leading, other: led_by(other, leading), schemas)
        try:
            kept, is_kept = _kept(decoding, table, schema)
        except UnlandableError as error:
            if leading is None:
                raise
            _log.warning("%s gets no columns for fields: %s", table, error)
            kept, is_kept = _kept(decoding, table, leading)
        self.told(Guess(kept, inference.reports, inference.rows, passed_over, is_kept=is_kept))
        return kept


def _kept(decoding: Decoding, table: LakeTable, schema: RecordSchema) -> tuple[str, bool]:
    """Keep a schema, unless another process was faster; return the one that is kept, and if so."""
    text = to_kept(schema)
    kept = table.keep_schema(text, PlainDecoder(replace(decoding, schema=schema)).schema)
    return kept, kept == text


def _columns_of(segments: Iterable[SourceMessage], decoding: Decoding) -> Iterator[RecordSchema]:
    """Yield the columns of segments, as plain messages may have them."""
    for message in segments:
        try:
            schema = message.segment().schema
        except SegmentError:
            continue  # it does not land either
        if (
            columns := row_columns(nullable(schema), decoding.rest_column, str(message))
        ) is not None:
            yield columns


def _guessed(inference: Inference) -> Iterator[RecordSchema]:
    try:
        schema, _ = inference.result()
    except SchemaError:  # nothing is known yet
        return
    yield of_columns(schema.arrow, schema.json_texts)
