"""The progress of a schema change in its long steps. Pure; `Store.report` publishes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Files and rows that the current `step` has processed, of all.

    `looking`: Spark reads the rows of all files together. It reports how many it has read; the files count as done when
    it ends.
    """

    step: str = "begin"
    files_done: int = 0
    files_total: int = 0
    rows_done: int = 0
    rows_total: int = 0
    looking: bool = False

    def begin(self, step: str, files: int, rows: int, *, looking: bool = False) -> None:
        """Begin a step over so many files with so many rows."""
        self.step, self.looking = step, looking
        self.files_total, self.rows_total = files, rows
        self.files_done = self.rows_done = 0

    def did(self, files: int, rows: int) -> None:
        """Count so many more as done."""
        self.files_done += files
        self.rows_done += rows

    def has_read(self, rows: int) -> None:
        """Record how many rows were read so far; it may exceed the total, because deleted rows are read too."""
        self.rows_done = max(self.rows_done, min(rows, self.rows_total))

    def end(self) -> None:
        """End the step, with all files and rows done."""
        self.files_done, self.rows_done, self.looking = self.files_total, self.rows_total, False
