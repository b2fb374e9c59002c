"""The table that is printed: a figure of ours, one of the other side, their ratio, and what is aimed at."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """`ratio_max` is the aim for ours / other; None where there is none. Numbers are in `unit`."""

    name: str
    ours: float
    other: float | None
    unit: str
    against: str = ""
    ratio_max: float | None = None
    ours_max: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours over the other side's."""
        return None if not self.other else self.ours / self.other

    @property
    def verdict(self) -> str:
        """The aim, and whether it was met."""
        if self.ratio_max is not None and self.ratio is not None:
            return f"≤ {self.ratio_max:.2f} x: {'met' if self.ratio <= self.ratio_max else 'missed'}"
        if self.ours_max is not None:
            return f"≤ {self.ours_max:g} {self.unit}: {'met' if self.ours <= self.ours_max else 'missed'}"
        return ""


@dataclass
class Report:
    """Figures, printed as they come."""

    figures: list[Figure] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A line above figures of one kind."""
        print(f"\n{text}", flush=True)
        print(f"  {'':38} {'Sluice':>12} {'other':>12} {'ratio':>7}  aim", flush=True)

    def add(self, figure: Figure) -> None:
        """Print a figure and keep it."""
        self.figures.append(figure)
        other = "" if figure.other is None else f"{figure.other:.3f} {figure.unit}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        ours = f"{figure.ours:.3f} {figure.unit}"
        label = f"{figure.name}{f' / {figure.against}' if figure.against else ''}"
        print(f"  {label:38} {ours:>12} {other:>12} {ratio:>7}  {figure.verdict}", flush=True)
