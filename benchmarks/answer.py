"""What a question finds: figures for tables, and claims with targets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.measured import Claim, ratios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.child import Cost

OURS = "ours"
CPU, THREAD, WALL = "CPU µs", "of it the calling thread", "wall µs"
_COSTS = {CPU: "cpu", THREAD: "thread", WALL: "wall"}


@dataclass(frozen=True)
class Figure:
    """One cell of a table: a value for each round."""

    case: str
    who: str
    metric: str
    values: tuple[float, ...]


@dataclass
class Answer:
    """Everything that a question has found."""

    figures: list[Figure] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def add(self, case: str, who: str, metric: str, values: Sequence[float] | float) -> None:
        """Add one cell."""
        rounds = tuple(values) if not isinstance(values, float | int) else (values,)
        self.figures.append(Figure(case, who, metric, rounds))

    def add_costs(self, case: str, costs: Mapping[str, Sequence[Cost]], records: int) -> None:
        """Add what one record costs each competitor, in µs."""
        for who, rounds in costs.items():
            for metric, name in _COSTS.items():
                self.add(
                    case, who, metric, [getattr(cost, name) * 1e6 / records for cost in rounds]
                )

    def values(self, case: str, who: str, metric: str = CPU) -> tuple[float, ...]:
        """Return a cell. Raises KeyError when there is none."""
        for figure in self.figures:
            if (figure.case, figure.who, figure.metric) == (case, who, metric):
                return figure.values
        raise KeyError((case, who, metric))

    def compare(
        self,
        case: str,
        them: str,
        metric: str = CPU,
        *,
        at_least: float | None = None,
        us: str = OURS,
    ) -> None:
        """Claim that a competitor has so many times our figure, in each round."""
        factors = ratios(self.values(case, them, metric), self.values(case, us, metric))
        what = f"{case}: {metric}" if case else metric
        self.claims.append(Claim(f"{what}, {them} / {us}", factors, at_least=at_least))

    def limit(
        self,
        what: str,
        values: Sequence[float],
        at_most: float,
        unit: str,
        low: float | None = None,
    ) -> None:
        """Claim that a figure is at most so large, and at least `low`."""
        self.claims.append(Claim(what, tuple(values), at_least=low, at_most=at_most, unit=unit))

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Answer:
        """Return the answer that `to_json` was called on."""

        def rounds(row: dict[str, Any]) -> dict[str, Any]:
            return {**row, "values": tuple(row["values"])}

        return cls(
            [Figure(**rounds(figure)) for figure in saved["figures"]],
            [Claim(**rounds(claim)) for claim in saved["claims"]],
        )
