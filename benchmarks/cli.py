"""The command line: ask the questions, print the answers, write the documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import questions, report
from benchmarks.bench import Bench
from benchmarks.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.report import Answered

QUESTIONS = questions.load()
ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".bench"
SHORT_ROUNDS = 2

out = Console(highlight=False)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    *,
    full: Annotated[bool, typer.Option("--full", help="Also what takes long.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="A question; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 7,
    short: Annotated[
        bool, typer.Option("--short", help="Tiny sizes, to see that everything works.")
    ] = False,
    against: Annotated[str, typer.Option(help="A revision, for the question of that name.")] = "",
) -> None:
    """Measure, and write docs/benchmarks.md.

    A short run measures nothing that counts: it writes to .bench/short.
    """
    if unknown := set(only or ()) - QUESTIONS.keys():
        known = ", ".join(QUESTIONS)
        raise typer.BadParameter(f"unknown: {', '.join(sorted(unknown))}; there are {known}")
    asked = only or [
        name
        for name, question in QUESTIONS.items()
        if (full or not question.IS_LONG) and (against or name != "revision")
    ]
    if "revision" in asked and not against:
        raise typer.BadParameter("revision needs --against REVISION")
    rounds = SHORT_ROUNDS if short else rounds
    folder = KEPT / "short" if short else KEPT
    for name in asked:
        report.keep(
            folder / "answers.json", _ask(name, rounds=rounds, short=short, against=against)
        )
    answers = report.kept(folder / "answers.json", QUESTIONS)
    document = folder / "benchmarks.md" if short else ROOT / "docs" / "benchmarks.md"
    report.write(answers, document)
    _print_claims([answer for answer in answers if answer.name in asked])
    out.print(str(document), soft_wrap=True)


def _ask(name: str, *, rounds: int, short: bool, against: str) -> Answered:
    """Answer one question with a Kafka of its own, and print what was found."""
    question = QUESTIONS[name]
    machine = Machine.here(rounds)
    out.print(f"[bold]{question.TITLE}[/] ({name}; {rounds} rounds, load {machine.load})")
    with out.status("") as status:
        say = status.update
        with Bench(rounds=rounds, short=short, say=say, against=against) as bench:
            answer = question.answer(bench)
    answered = report.Answered(name, question.TITLE, question.ABOUT, answer, machine)
    header, rows = answered.table
    table = Table(*header)
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(table)
    return answered


def _print_claims(answers: Sequence[Answered]) -> None:
    """Print what was asked for, worst first, and where."""
    for title, claims in report.grouped(answers).items():
        table = Table("question", "what", "target", "measured", title=title, title_justify="left")
        for question, claim in claims:
            colour = "green" if claim.met and not claim.lost else "red"
            measured = Text(f"{claim.spread} {claim.unit}", colour)
            table.add_row(question, claim.what, claim.bound, measured)
        if claims:
            out.print(table)
    for line in dict.fromkeys(
        line
        for answer in answers
        for line in (
            answer.machine.processor,
            answer.machine.system,
            answer.machine.versions,
            f"native core {answer.machine.native_core}",
        )
    ):
        out.print(line)
