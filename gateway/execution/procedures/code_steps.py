"""Executes parts of one code in steps: its variables, and the contexts of its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.session.offload import offloaded
from planner.plpgsql.opening import CHANGING_LOOP, CODES
from planner.plpgsql.step import Part, Scope, State, part_of, step_text

if TYPE_CHECKING:
    from gateway.execution.procedures.called_code import Code
    from gateway.execution.procedures.loop_rows import LoopRows
    from gateway.execution.procedures.step_execution import Answer, Steps
    from planner.plpgsql.nodes import Statement

# PostgreSQL's message where no transaction can be ended at all.
_ATOMIC: Final = "invalid transaction termination"
_LINE: Final = "PL/pgSQL function inline_code_block line "
# Characters of a code and its variables.
_SIZE_MAX: Final = 64 << 20


class CodeSteps:
    """The steps of one code. `scopes` are those around the present statement, the parameters first."""

    def __init__(self, steps: Steps, code: Code, scope: Scope) -> None:
        self.shared = steps
        self.code = code
        self.names = steps.names
        self.scopes = [scope]
        self.state = State()
        self._labels = 0
        self._parts: dict[tuple[int, int, bool], Part] = {}

    async def part(self, statements: Sequence[Statement], *, handles: bool) -> Part:
        """Statements as a part; see `part_of`."""
        if not statements:
            return Part("", 0)
        key = statements[0].start, statements[-1].end, handles
        if key not in self._parts:
            make = partial(part_of, self.code.body, self.names, statements, self.code.opened, handles=handles)
            self._parts[key] = await offloaded(self.shared.session, key[1] - key[0], make)
        return self._parts[key]

    @contextmanager
    def within(self, scope: Scope) -> Iterator[Scope]:
        """While it lasts, statements are in a block with these variables."""
        if any(each.label == scope.label for each in self.scopes):
            raise unsupported("blocks of one label within each other around COMMIT or ROLLBACK")
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    def label(self) -> str:
        """A label for a block that has none."""
        self._labels += 1
        return self.names(f"block_{self._labels}")

    async def execute(self, part: Part, *, opens: bool = False) -> Answer:
        """Execute a part, and keep the values that it leaves. If it `opens` a cursor, its rows come with the answer."""
        size = len(self.code.body.text) + sum(scope.size for scope in self.scopes)
        if size > _SIZE_MAX:
            raise SluiceError(SqlState.PROGRAM_LIMIT_EXCEEDED, "variables are too large beside COMMIT or ROLLBACK")
        session, told = self.shared.session, Contexts(self.code.signature, part.renamed)
        text = await offloaded(session, size, step_text, self.code.body, self.names, self.scopes, self.state, part)
        try:
            answer = await self.shared.execute(text, part, self.scopes, told, opens=opens)
        except SluiceError as error:
            if error.message in CODES:
                told = Contexts(self.code.signature, {(line, "RAISE"): name for line, name in part.refused.items()})
            elif error.message == _ATOMIC and line_of(error) in part.changing:
                error.fields |= {"C": CODES[CHANGING_LOOP], "M": CHANGING_LOOP}
                error.sqlstate, error.message = CODES[CHANGING_LOOP], CHANGING_LOOP
            if "W" in error.fields:
                error.fields["W"] = told(error.fields["W"])
            raise
        self.state = State(answer.found, answer.count)
        return answer

    async def query(self, part: Part, line: int, name: str, statement: str = "") -> LoopRows:
        """The rows of the query that a part opens. Contexts of its errors name the line, and the `statement`, so."""
        try:
            answer = await self.execute(part, opens=True)
        except SluiceError as error:
            context = error.fields.get("W", "")
            opening = f"{self.where} line {line} at {name}"
            if context.endswith(opening) and not statement:
                raise
            if not self.code.signature or context.endswith(opening):  # PostgreSQL has no such query
                error.fields["W"] = context.rpartition('SQL statement "')[0].rstrip("\n")
            raise self.told(error, line, name, statement) from error
        assert answer.rows is not None
        return answer.rows

    def told(self, error: SluiceError, line: int, name: str, statement: str = "") -> SluiceError:
        """The error with this line of the code in its context, and the SQL `statement` on it, if there is one."""
        told = [error.fields.get("W")]
        if self.code.signature:
            told += [f'SQL statement "{statement}"' if statement else "", f"{self.where} line {line} at {name}"]
        error.fields["W"] = "\n".join(filter(None, told))
        if not error.fields["W"]:
            del error.fields["W"]
        return error

    async def assign(self, *assignments: str) -> None:
        """Make assignments, besides those that still wait for a step."""
        self.state.assignments += assignments
        if self.state.assignments:
            await self.execute(Part("", 0))

    @property
    def where(self) -> str:
        """What begins a line of context."""
        return f"PL/pgSQL function {self.code.signature}"


class Contexts:
    """Turns the context of a step's message into that of the procedure's."""

    def __init__(self, signature: str, renamed: dict[tuple[int, str], str]) -> None:
        self._signature = signature
        self._renamed = renamed

    def __call__(self, context: str) -> str:
        before, found, after = context.rpartition(_LINE)
        if not found or not self._signature:
            return before.rstrip("\n") if found else context
        number, _, name = after.partition(" at ")
        line = int(number) if number.isdecimal() else 0
        name = self._renamed.get((line, name), name)
        return f"{before}PL/pgSQL function {self._signature} line {number} at {name}"


def line_of(error: SluiceError) -> int:
    """The line of a step at which an error was raised; 0 if it is not known."""
    number = error.fields.get("W", "").rpartition(_LINE)[2].partition(" ")[0]
    return int(number) if number.isdecimal() else 0
