"""Carries code out: statements that end no transaction by PostgreSQL, in steps, and the control flow around the ends.

A step is executed under the function guard, so it reads and changes lake tables as any function does. Conditions,
bounds and queries of opened statements are evaluated by PostgreSQL too: a step has the statement itself, with a note
of the branch in place of each branch. So names, types, errors and their contexts are PostgreSQL's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, too_deep
from gateway.execution.procedures import called_code
from gateway.execution.procedures.called_code import Code, Given, Parameter, Procedure
from gateway.execution.procedures.code_steps import CodeSteps, Contexts
from gateway.execution.procedures.loop_rows import LoopRows
from planner.plpgsql.nodes import (
    Block,
    Body,
    Calling,
    Characteristics,
    Choice,
    Ending,
    Iteration,
    Jump,
    Kind,
    Leaving,
    Loop,
    Plain,
    Span,
    Statement,
    Variable,
)
from planner.plpgsql.parser import is_variable
from planner.plpgsql.step import (
    CAUGHT,
    Column,
    Part,
    Scope,
    Value,
    catch,
    caught_scope,
    line_at,
    literal,
    scope_of,
    selected,
    slicing,
    spliced,
    text_of,
)
from planner.syntax.lexer import quoted

if TYPE_CHECKING:
    from gateway.execution.procedures.step_execution import Answer, Steps

# Calls within each other.
_DEPTH_MAX: Final = 25


class Frame:
    """An execution of a procedure or code block. `scopes` begin with the parameters; `depth` counts calls."""

    def __init__(self, steps: Steps, code: Code, scope: Scope, depth: int = 0) -> None:
        self._steps = CodeSteps(steps, code, scope)
        self._shared = steps
        self._code = code
        self._body = code.body
        self._names = steps.names
        self._depth = depth
        self._handling = 0  # opened handlers around the present statement

    @property
    def ended(self) -> bool:
        """Whether a transaction has been ended."""
        return self._shared.ended

    async def run(self) -> dict[str, Value]:
        """Carry everything out; return the values of the parameters."""
        await self._block(self._body.block)
        if self._steps.scopes[0].fresh:
            await self._steps.execute(Part("", 0))
        return self._steps.scopes[0].values

    # Statements.

    async def _statements(self, statements: Sequence[Statement]) -> Leaving | None:
        """Carry statements out, until one leaves them."""
        waiting = list[Statement]()
        for statement in statements:
            if statement not in self._code.opened:
                waiting.append(statement)
                continue
            left = await self._opened(statement, waiting)
            waiting = []
            if left is not None:
                return left
        return await self._execute(waiting)

    async def _execute(self, waiting: Sequence[Statement]) -> Leaving | None:
        """Have PostgreSQL execute statements that are not opened."""
        if not waiting:
            return None
        part = await self._part(waiting)
        return _left(part, await self._steps.execute(part))

    async def _part(self, statements: Sequence[Statement]) -> Part:
        return await self._steps.part(statements, handles=self._handling > 0)

    async def _opened(self, statement: Statement, waiting: Sequence[Statement]) -> Leaving | None:
        if isinstance(statement, Choice):
            return await self._choice(statement, waiting)
        left = await self._execute(waiting)
        if left is not None:
            return left
        match statement:
            case Block():
                return await self._block(statement)
            case Loop(kind=Iteration.ENDLESS):
                return await self._endless(statement)
            case Loop(kind=Iteration.WHILE):
                return await self._while(statement)
            case Loop():
                return await self._for(statement)
            case Ending():
                await self._end(statement)
            case Characteristics():
                await self._set(statement)
            case Calling():
                await self._call(statement)
            case Plain():
                await self._nested(statement)
        return None

    async def _choice(self, choice: Choice, waiting: Sequence[Statement]) -> Leaving | None:
        part = await self._part(waiting)
        notes = [(each.body, f" {self._names('branch')} := {n};") for n, each in enumerate(choice.branches, 1)]
        answer = await self._steps.execute(self._with(part, choice, spliced(self._body.text, choice, notes)))
        if (left := _left(part, answer)) is not None:
            return left
        return await self._statements(choice.branches[answer.branch - 1].statements) if answer.branch else None

    def _with(self, part: Part, statement: Span, text: str) -> Part:
        """The part with one more statement, on its own line."""
        line = line_at(self._body.text, statement.start)
        if not part.text:
            return Part(text, line)
        lines = "\n" * max(0, line - part.line - part.text.count("\n"))
        return Part(f"{part.text}{lines} {text}", part.line, part.leaving, refused=part.refused, changing=part.changing)

    async def _block(self, block: Block) -> Leaving | None:
        with self._steps.within(scope_of(self._body, block, block.label or self._steps.label())) as scope:
            if block.handlers:
                left = await self._handled(block)
            else:
                left = await self._statements(block.body)
                if scope.fresh and scope.variables:  # their values are computed in any case
                    await self._steps.execute(Part("", 0))
        return None if _is_exit(left, block.label, is_loop=False) else left

    async def _handled(self, block: Block) -> Leaving | None:
        """A block whose handlers are opened: PostgreSQL says which one catches."""
        notes = [(each.body, catch(self._names, n)) for n, each in enumerate(block.handlers, 1)]
        part = await self._part(block.body)
        first = block.body[0].start if block.body else block.begin
        last = block.body[-1].end if block.body else first
        inner = [*notes, *([(Span(first, last), part.text)] if block.body else [])]
        text = spliced(self._body.text, Span(block.begin, block.end), inner)
        if not text.rstrip().endswith(";"):
            text += ";"
        answer = await self._steps.execute(
            Part(
                text, line_at(self._body.text, block.begin), part.leaving, refused=part.refused, changing=part.changing
            )
        )
        if (left := _left(part, answer)) is not None or not answer.branch:
            return left
        handler = block.handlers[answer.branch - 1]
        if context := answer.caught["pg_exception_context"]:
            answer.caught["pg_exception_context"] = Contexts(self._code.signature, {})(context)
        with self._steps.within(caught_scope(self._names, self._steps.label(), answer.caught)):
            self._handling += 1
            left = await self._statements(handler.statements)
            self._handling -= 1
        if left is not None and left.jump is Jump.RAISE:
            raise _raised(answer.caught)
        return left

    # Loops.

    async def _endless(self, loop: Loop) -> Leaving | None:
        while True:
            await self._shared.turn()
            left = await self._statements(loop.branch.statements)
            if (ends := _ends(left, loop)) is not None:
                return ends.left

    async def _while(self, loop: Loop) -> Leaving | None:
        note = [(loop.branch.body, f" {self._names('branch')} := 1; EXIT;")]
        text = spliced(self._body.text, loop, note)
        while True:
            await self._shared.turn()
            answer = await self._steps.execute(self._with(Part("", 0), loop, text))
            if not answer.branch:
                return None
            left = await self._statements(loop.branch.statements)
            if (ends := _ends(left, loop)) is not None:
                return ends.left

    async def _for(self, loop: Loop) -> Leaving | None:
        if loop.kind is Iteration.INTEGER:
            return await self._integers(loop)
        assert loop.target is not None
        target = loop.target.of(self._body.text)
        if loop.slices:
            left, found = await self._each(loop, self._slices(loop, target))
            self._steps.state.found = found
            return left
        rows = await self._rows(loop)
        record = Variable(loop.name, Kind.RECORD, f"{target} record")
        own = [record] if loop.kind is Iteration.CURSOR else []  # such a loop declares its record
        try:
            with self._steps.within(Scope(loop.label or self._steps.label(), own, fresh=False)):
                left, found = await self._each(loop, (f"{selected(each)} INTO {target};" async for each in rows))
        finally:
            rows.close()
        if loop.kind is Iteration.CURSOR:
            await self._steps.assign(*([f"{_cursor(self._body, loop)} := NULL;"] if left is None else []))
        elif not found and loop.kind is not Iteration.ARRAY:
            await self._steps.assign(f"{selected(rows.nothing)} INTO {target};")
        self._steps.state.found = found
        return left

    async def _each(self, loop: Loop, assignments: AsyncIterator[str]) -> tuple[Leaving | None, bool]:
        """Carry the statements out after each assignment; return what has left more than the loop, and whether there
        was one.
        """
        found = False
        async for assignment in assignments:
            await self._shared.turn()
            found = True
            self._steps.state.assignments.append(assignment)
            left = await self._statements(loop.branch.statements)
            await self._steps.assign()
            if (ends := _ends(left, loop)) is not None:
                return ends.left, True
        return None, found

    async def _slices(self, loop: Loop, target: str) -> AsyncIterator[str]:
        """Assignments of an array's slices, which PostgreSQL computes in the loop itself."""
        text = spliced(self._body.text, loop, [(loop.branch.body, slicing(self._names, target))])
        answer = await self._steps.execute(Part(text, line_at(self._body.text, loop.start)))
        for each in answer.slices:
            yield f"{target} :={literal(each)};"

    async def _rows(self, loop: Loop) -> LoopRows:
        """Have PostgreSQL compute the rows of a loop. They are kept, because cursors end with the transaction."""
        header, rows = loop.header.of(self._body.text), self._names("rows")
        line = line_at(self._body.text, loop.start)
        match loop.kind:
            case Iteration.CURSOR:
                code = f"OPEN {header}; {rows} := {_cursor(self._body, loop)};"
            case Iteration.ARRAY:
                code = (
                    f"OPEN {rows} NO SCROLL FOR SELECT u.v, u.n, a.a IS NULL FROM (SELECT ({header}) AS a"
                    " OFFSET 0) a LEFT JOIN LATERAL pg_catalog.unnest(a.a) WITH ORDINALITY AS u (v, n) ON true;"
                )
            case _:
                code = f"OPEN {rows} NO SCROLL FOR {header};"
        part = Part(code, line, renamed={(line, "OPEN"): loop.kind.value})
        found = await self._steps.query(part, line, loop.kind.value)
        if loop.kind is Iteration.ARRAY and await found.of_array():
            found.close()
            error = SluiceError(SqlState.NULL_VALUE_NOT_ALLOWED, "FOREACH expression must not be null")
            raise self._steps.told(error, line, loop.kind.value)
        return found

    async def _integers(self, loop: Loop) -> Leaving | None:
        lower, upper, by = (self._names(each) for each in ("lower", "upper", "by"))
        text, reverse = self._body.text, "REVERSE " if loop.reverse else ""
        bounds = [each.of(text) for each in loop.bounds]
        code = f"{lower} := {bounds[0]}; {upper} := {bounds[1]}; {by} := {bounds[2] if len(bounds) > 2 else 1};"
        code += f" FOR {self._names('number')} IN {reverse}{lower}..{upper} BY {by} LOOP EXIT; END LOOP;"
        line = line_at(text, loop.start)
        answer = await self._steps.execute(Part(code, line, renamed={(line, "assignment"): loop.kind.value}))
        first, last, step = answer.bounds
        if loop.reverse:
            step = -step
        variable = Variable(loop.name, Kind.VALUE, f"{quoted(loop.name)} pg_catalog.int4")
        number, found = first, False
        with self._steps.within(Scope(loop.label or self._steps.label(), [variable], fresh=False)) as scope:
            while number >= last if step < 0 else number <= last:
                await self._shared.turn()
                scope.values[loop.name], found = str(number), True
                left = await self._statements(loop.branch.statements)
                if (ends := _ends(left, loop)) is not None:
                    self._steps.state.found = True
                    return ends.left
                number += step
        self._steps.state.found = found
        return None

    # Ends of transactions, and calls.

    async def _end(self, ending: Ending) -> None:
        name = "COMMIT" if ending.commits else "ROLLBACK"
        try:
            await self._shared.end(commits=ending.commits, chains=ending.chains)
        except SluiceError as error:
            raise self._steps.told(error, line_at(self._body.text, ending.start), name) from error

    async def _set(self, statement: Characteristics) -> None:
        line, sql = line_at(self._body.text, statement.start), _written(statement, self._body.text)
        try:
            await self._shared.set_characteristics(sql)
        except SluiceError as error:
            error.fields.pop("W", None)
            raise self._steps.told(error, line, "SQL statement", sql) from error

    async def _call(self, statement: Calling) -> None:
        text, line = self._body.text, line_at(self._body.text, statement.start)
        given, written = await self.arguments(statement), _written(statement, text)
        try:
            oid = await self._shared.resolve(statement.procedure.of(text), given)
        except SluiceError as error:
            if (position := error.fields.pop("P", None)) is not None:
                error.fields |= {"p": position, "q": written}
            raise self._steps.told(error, line, "CALL") from error
        called = await called_code.procedure(self._shared.session, oid, self._shared.began)
        outputs = [(each, argument) for each, argument in called.matched(given) if each.is_output and argument]
        for parameter, argument in outputs:
            if not is_variable(argument.target):
                raise self._steps.told(_unwritable(parameter), line, "CALL")
        if called.code is None:
            listed = _passed(called, given)
            await self._steps.execute(Part(f"CALL {statement.procedure.of(text)}({listed});", line))
            return
        try:
            values = await self.inside(called.code, called_code.parameter_scope(called, called.code.label, given)).run()
        except SluiceError as error:
            raise self._steps.told(error, line, "CALL", written) from error
        await self._steps.assign(
            *(f"{argument.target} :={literal(text_of(values[each.name]))};" for each, argument in outputs)
        )

    async def arguments(self, statement: Calling) -> list[Given]:
        """Have PostgreSQL evaluate the arguments of CALL."""
        text, line = self._body.text, line_at(self._body.text, statement.start)
        values: Iterator[Column] = iter(())
        if evaluated := [each for each in statement.arguments if not each.is_bare]:
            listed = ", ".join(f"({each.of(text)}) AS a{n}" for n, each in enumerate(evaluated))
            code = f"OPEN {self._names('rows')} NO SCROLL FOR SELECT {listed};"
            rows = await self._steps.query(
                Part(code, line, renamed={(line, "OPEN"): "CALL"}), line, "CALL", _written(statement, text)
            )
            values = iter(await anext(aiter(rows)))
            rows.close()
        return [
            Given(
                each.name,
                each.of(text) if each.is_bare else None,
                None if each.is_bare else next(values),
                each.of(text),
                is_variadic=each.is_variadic,
            )
            for each in statement.arguments
        ]

    async def _nested(self, statement: Plain) -> None:
        """A code block within the code."""
        text, line = self._body.text, line_at(self._body.text, statement.start)
        sql, session = _written(statement, text), self._shared.session
        await session.transaction.begin()
        body = await called_code.block_text(session, sql)
        code = None if body is None else await called_code.code_block(session, body, self._shared.began)
        if code is None:
            await self._execute([statement])
            return
        try:
            await self.inside(code, Scope(code.label, [])).run()
        except SluiceError as error:
            raise self._steps.told(error, line, "DO", sql) from error

    def inside(self, code: Code, scope: Scope) -> Frame:
        """A frame for code that this one calls."""
        if self._depth >= _DEPTH_MAX:
            raise too_deep()
        return Frame(self._shared, code, scope, self._depth + 1)


def _raised(caught: Mapping[str, str | None]) -> SluiceError:
    """The error that a handler has caught."""
    error = SluiceError(caught["returned_sqlstate"] or "", caught["message_text"] or "")
    error.fields |= {CAUGHT[name]: text for name, text in caught.items() if text}
    return error


class _Ends:
    """A loop has ended; `left` is what leaves more than it."""

    def __init__(self, left: Leaving | None) -> None:
        self.left = left


def _ends(left: Leaving | None, loop: Loop) -> _Ends | None:
    """Whether a loop ends when its statements have been left so."""
    if left is None:
        return None
    if left.jump is Jump.CONTINUE and left.label in (None, loop.label):
        return None
    return _Ends(None if _is_exit(left, loop.label, is_loop=True) else left)


def _is_exit(left: Leaving | None, label: str | None, *, is_loop: bool) -> bool:
    """Whether it is the EXIT of a loop or block with this label."""
    if left is None or left.jump is not Jump.EXIT:
        return False
    return left.label == label if left.label is not None else is_loop


def _unwritable(parameter: Parameter) -> SluiceError:
    named = parameter.name[1:] if parameter.name.startswith("$") else f'"{parameter.name}"'
    message = f"procedure parameter {named} is an output parameter but corresponding argument is not writable"
    return SluiceError(SqlState.SYNTAX_ERROR, message)


def _written(statement: Span, text: str) -> str:
    """A statement without its semicolon."""
    return statement.of(text).removesuffix(";").rstrip()


def _cursor(body: Body, loop: Loop) -> str:
    """The cursor variable of a loop."""
    return loop.header.of(body.text).split("(", 1)[0].strip()


def _passed(called: Procedure, given: Sequence[Given]) -> str:
    """The arguments of a CALL that PostgreSQL carries out: values, and variables for outputs."""
    outputs = {id(argument) for parameter, argument in called.matched(given) if parameter.is_output}
    return ", ".join(each.prefix + (each.target if id(each) in outputs else each.expression(None)) for each in given)


def _left(part: Part, answer: Answer) -> Leaving | None:
    return part.leaving[-answer.branch - 1] if answer.branch < 0 else None
