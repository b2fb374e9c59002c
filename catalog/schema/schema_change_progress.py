"""How far a change of a schema is, in what takes time. Pure; `Store.report` tells everybody."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """Of the `step` that the change takes now: files and rows that it has gone through, of all that there are.

    `looking`: Spark looks at the rows of all files together; how many it has read is its to say, and files are done
    when it is.
    """

    step: str = "begin"
    files_done: int = 0
    files_total: int = 0
    rows_done: int = 0
    rows_total: int = 0
    looking: bool = False

    def begin(self, step: str, files: int, rows: int, *, looking: bool = False) -> None:
        """A step begins that goes through so many files with so many rows."""
        self.step, self.looking = step, looking
        self.files_total, self.rows_total = files, rows
        self.files_done = self.rows_done = 0

    def did(self, files: int, rows: int) -> None:
        """So many more are done."""
        self.files_done += files
        self.rows_done += rows

    def has_read(self, rows: int) -> None:
        """So many rows have been read by now; more than there are may be, for deleted ones are read too."""
        self.rows_done = max(self.rows_done, min(rows, self.rows_total))

    def end(self) -> None:
        """The step is done, with all of them."""
        self.files_done, self.rows_done, self.looking = self.files_total, self.rows_total, False

    @property
    def text(self) -> str:
        """In a clause."""
        if not self.files_total:
            return self.step
        return f"{self.step}: {self.files_done} of {self.files_total} files, {self.rows_done} of {self.rows_total} rows"
