"""What was found, as docs/benchmarks.md.

The answers of earlier runs are kept in a file, so that questions can be asked one at a time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2

from benchmarks.answer import Answer
from benchmarks.machine import Machine
from benchmarks.measured import Claim, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Answered:
    """A question with its answer, and where it was answered."""

    name: str
    title: str
    about: str
    answer: Answer
    machine: Machine

    @property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """The header and the rows of its table: a line for each case and competitor."""
        metrics = list(dict.fromkeys(figure.metric for figure in self.answer.figures))
        lines: dict[tuple[str, str], dict[str, str]] = {}
        for figure in self.answer.figures:
            lines.setdefault((figure.case, figure.who), {})[figure.metric] = str(
                Spread.of(figure.values)
            )
        rows = [
            [case, who, *(cells.get(metric, "") for metric in metrics)]
            for (case, who), cells in lines.items()
        ]
        return ["", "", *metrics], rows


def keep(path: Path, answered: Answered) -> None:
    """Put an answer into the file of answers, in place of an earlier one."""
    answers = json.loads(path.read_text()) if path.exists() else {}
    answers[answered.name] = {
        "answer": answered.answer.to_json(),
        "machine": answered.machine.to_json(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(answers))


def kept(path: Path, questions: Mapping[str, Any]) -> list[Answered]:
    """Return the answers that the file has, in the order of the questions."""
    answers = json.loads(path.read_text()) if path.exists() else {}
    return [
        Answered(
            name,
            question.TITLE,
            question.ABOUT.replace("\n", " "),
            Answer.from_json(answers[name]["answer"]),
            Machine(**answers[name]["machine"]),
        )
        for name, question in questions.items()
        if name in answers
    ]


def write(answers: Sequence[Answered], document: Path) -> None:
    """Write the document; an existing file is replaced."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("benchmarks", ""),
        autoescape=False,  # noqa: S701 - it is no HTML
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.md.j2")
    document.parent.mkdir(parents=True, exist_ok=True)
    text = template.render(answers=answers, groups=grouped(answers))
    document.write_text(text, encoding="utf-8")


def grouped(answers: Sequence[Answered]) -> dict[str, list[tuple[str, Claim]]]:
    """Return the claims with their questions: what is lost, what is missed, and the rest."""
    every = [(answered.title, claim) for answered in answers for claim in answered.answer.claims]
    every.sort(key=lambda pair: pair[1].margin)
    return {
        "Where we lose": [pair for pair in every if pair[1].lost],
        "Targets that are missed": [p for p in every if not p[1].met and not p[1].lost],
        "Targets that are met": [p for p in every if p[1].met and p[1].bound and not p[1].lost],
        "Ratios without a target": [p for p in every if not p[1].bound and not p[1].lost],
    }
