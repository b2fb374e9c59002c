"""The statements of a PL/pgSQL body, as far as its control flow goes. Places are offsets in the body's text.

Source: PostgreSQL documentation, "PL/pgSQL", "Structure of PL/pgSQL" and "Control Structures".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


@dataclass(slots=True)
class Span:
    """A part of the text, without its end."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]


@dataclass(slots=True)
class Plain(Span):
    """A statement without other statements inside. `word` is its first one."""

    word: str


class Jump(Enum):
    """How a statement leaves others."""

    EXIT = "EXIT"
    CONTINUE = "CONTINUE"
    RETURN = "RETURN"
    RAISE = "RAISE"  # of the error that a handler has caught, by itself


@dataclass(slots=True)
class Leaving(Span):
    """EXIT, CONTINUE or RETURN, with the label and the condition behind WHEN; or RAISE without anything."""

    jump: Jump
    label: str | None = None
    condition: Span | None = None


@dataclass(slots=True)
class Ending(Span):
    """COMMIT or ROLLBACK, maybe AND CHAIN."""

    commits: bool
    chains: bool


@dataclass(slots=True)
class Argument(Span):
    """An argument of CALL, maybe with its parameter's name. `is_bare`: a string without a type, or NULL."""

    name: str | None
    is_bare: bool
    is_variadic: bool


@dataclass(slots=True)
class Calling(Span):
    """CALL of a procedure: its name as written, the last part of that name, and the arguments."""

    procedure: Span
    name: str
    arguments: list[Argument]


@dataclass(slots=True)
class Diagnosing(Span):
    """GET STACKED DIAGNOSTICS: each target, as written, and the item that it gets."""

    items: list[tuple[Span, str]]


@dataclass(slots=True)
class Characteristics(Span):
    """SET TRANSACTION."""


class Kind(Enum):
    """The kind of a declaration."""

    VALUE = "value"
    RECORD = "record"
    CURSOR = "cursor"
    ALIAS = "alias"


@dataclass(frozen=True, slots=True)
class Variable:
    """`declared` is a variable's declaration without a value and semicolon, on one line. `given` is the value with
    DEFAULT or what stands for it. `is_fixed`: CONSTANT or NOT NULL, so that it needs its value in the declaration.
    """

    name: str
    kind: Kind
    declared: str
    given: str = ""
    is_fixed: bool = False


@dataclass(slots=True)
class Branch:
    """Statements under a condition. `body` is their place."""

    body: Span
    statements: list[Statement]


@dataclass(slots=True)
class Block(Span):
    """A block. `begin` is where BEGIN stands; `end` is behind its semicolon. `handlers` are those of EXCEPTION."""

    label: str | None
    variables: list[Variable]
    begin: int
    body: list[Statement]
    handlers: list[Branch]


@dataclass(slots=True)
class Choice(Span):
    """IF or CASE, with its branches in their order; the last one may be ELSE."""

    branches: list[Branch]


class Iteration(Enum):
    """The kind of a loop."""

    ENDLESS = "LOOP"
    WHILE = "WHILE"
    INTEGER = "FOR with integer loop variable"
    QUERY = "FOR over SELECT rows"
    DYNAMIC = "FOR over EXECUTE statement"
    CURSOR = "FOR over cursor"
    ARRAY = "FOREACH over array"


@dataclass(slots=True)
class Loop(Span):
    """A loop. `header` is what stands between its first word or IN and LOOP; `target` the variables of FOR.

    `bounds` are those of an integer loop, with the step; it may be `reverse`. `slices`: FOREACH with SLICE.
    """

    label: str | None
    kind: Iteration
    header: Span
    branch: Branch
    target: Span | None = None
    name: str = ""
    bounds: list[Span] = field(default_factory=list)
    reverse: bool = False
    slices: bool = False


Statement = Plain | Leaving | Ending | Calling | Diagnosing | Characteristics | Block | Choice | Loop


@dataclass(slots=True)
class Body:
    """A whole body: its options (lines that begin with #) and its block."""

    text: str
    options: str
    block: Block


def inner(statement: Statement) -> Iterator[list[Statement]]:
    """The lists of statements inside of a statement."""
    match statement:
        case Block():
            yield statement.body
            yield from (handler.statements for handler in statement.handlers)
        case Choice():
            yield from (branch.statements for branch in statement.branches)
        case Loop():
            yield statement.branch.statements
        case _:
            return


def walk(statement: Statement) -> Iterator[Statement]:
    """A statement and all inside of it."""
    yield statement
    for statements in inner(statement):
        for each in statements:
            yield from walk(each)
