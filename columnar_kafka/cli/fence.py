"""`columnar-kafka fence`: how far each partition has landed, shown and moved."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from columnar_kafka.cli.options import AsJson, TablePlace, offsets, takes
from columnar_kafka.cli.outcome import fail, failures
from columnar_kafka.ingest import FenceTable
from columnar_kafka.lake.options import TableOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.ingest import TableFences

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="Show or move a table's fences: the offsets up to which each partition has landed.",
)

_Topic = Annotated[str | None, typer.Option(help="Only this topic.")]
_TopicOfTo = Annotated[
    str | None, typer.Option(help="The topic of --to; needed if the table has several.")
]
_To = Annotated[
    str | None,
    typer.Option(
        help="The next offset of each partition to move, such as 0:100,1:250. Without it no fence"
        " moves; after a restore, landing goes on."
    ),
]
_Force = Annotated[
    bool,
    typer.Option("--force", help="Move back too: the rows from there on are not in the table."),
]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@app.command()
@takes
def show(
    *,
    table: TablePlace,
    options: TableOptions,
    topic: _Topic = None,
    as_json: AsJson = False,
) -> None:
    """Show how far each partition has landed, and whether anything keeps more from landing.

    Ends with 1 if something does: the table was restored, or cannot take files.
    """
    with failures():
        table_fences = _open(table, options).read()
    if as_json:
        typer.echo(json.dumps(_described(table_fences, topic)))
    else:
        typer.echo(
            f"version {table_fences.version}" if table_fences.fences else "nothing has landed"
        )
        for name in _selected(table_fences, topic):
            where = table_fences.fences[name].partition_address
            typer.echo(
                "{where}  from {first}, next {next}, last segment {segment}, "
                "topic id {topic_id}, cluster {cluster}".format(
                    where=where, **_fields(table_fences, name)
                )
            )
    if table_fences.problem:
        fail(table_fences.problem)


@app.command()
@takes
def reset(
    *,
    table: TablePlace,
    options: TableOptions,
    topic: _TopicOfTo = None,
    to: _To = None,
    force: _Force = False,
    yes: _Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move fences in a commit of their own, and have landing go on after a restore.

    Forward gives up what lies between. Backward would land rows twice that are in the table: it
    needs --force.
    """
    if topic is not None and to is None:
        raise typer.BadParameter("only with --to: without it no fence moves", param_hint="--topic")
    with failures():
        opened = _open(table, options)
        before = opened.read()
        moves = {}
        if to is not None:
            name = _only_topic(before, topic)
            moves = {(name, number): offset for number, offset in offsets(to, "--to").items()}
        after = opened.reset(moves, force=force, dry=True)
        for name, fence in after.items():
            typer.echo(
                _move(fence.partition_address, before.fences[name].next, fence.next),
                err=True,
            )
        if not yes:
            typer.confirm("Commit this?", abort=True, err=True)
        opened.reset(moves, force=force)
        table_fences = opened.read()
    typer.echo(
        json.dumps(_described(table_fences, None)) if as_json else f"version {table_fences.version}"
    )


def _open(table: str, options: TableOptions) -> FenceTable:
    return FenceTable(options.format, table, **options.opening())


def _only_topic(table_fences: TableFences, topic: str | None) -> str:
    topics = {fence.topic for fence in table_fences.fences.values()} if topic is None else {topic}
    if len(topics) != 1:
        raise typer.BadParameter(
            f"the table has {', '.join(sorted(topics)) or 'no topic'}: name one",
            param_hint="--topic",
        )
    return topics.pop()


def _move(place: str, before: int, after: int) -> str:
    if after > before:
        return f"{place}  {before} -> {after}: gives up offsets {before} to {after - 1}"
    if after < before:
        return f"{place}  {before} -> {after}: lands offsets {after} to {before - 1} again"
    return f"{place}  {before}: stays"


def _selected(table_fences: TableFences, topic: str | None) -> list[str]:
    names = [name for name, fence in table_fences.fences.items() if topic in (None, fence.topic)]
    return sorted(
        names,
        key=lambda name: (table_fences.fences[name].topic, table_fences.fences[name].partition),
    )


def _fields(table_fences: TableFences, name: str) -> dict[str, Any]:
    _, cluster, topic_id, _ = name.split(":")
    return {**asdict(table_fences.fences[name]), "topic_id": topic_id, "cluster": cluster}


def _described(table_fences: TableFences, topic: str | None) -> Mapping[str, Any]:
    fences = [_fields(table_fences, name) for name in _selected(table_fences, topic)]
    return {
        "version": table_fences.version,
        "problem": table_fences.problem or None,
        "fences": fences,
    }
