"""Functions of random statements: trees that print themselves as PL/pgSQL, and get simpler step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.answers.tree import OPTIONAL, Node, some, switch


def _lines(statements: Sequence[Node]) -> str:
    return "\n".join(each.sql() for each in statements) or "NULL;"


@dataclass(frozen=True)
class Line(Node):
    """One statement."""

    text: str

    def sql(self) -> str:
        return f"{self.text};"


@dataclass(frozen=True)
class Lines(Node):
    """What is left of a statement around others."""

    statements: tuple[Node, ...]

    def sql(self) -> str:
        return _lines(self.statements)


@dataclass(frozen=True)
class Branch(Node):
    """IF."""

    condition: str
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()

    def sql(self) -> str:
        otherwise = f"\nELSE\n{_lines(self.otherwise)}" if self.otherwise else ""
        return f"IF {self.condition} THEN\n{_lines(self.then)}{otherwise}\nEND IF;"

    def simpler(self) -> Iterator[Node]:
        yield Lines(self.then)
        yield Lines(self.otherwise)


@dataclass(frozen=True)
class Loop(Node):
    """FOR or WHILE, by its head."""

    head: str
    body: tuple[Node, ...]

    def sql(self) -> str:
        return f"{self.head} LOOP\n{_lines(self.body)}\nEND LOOP;"

    def simpler(self) -> Iterator[Node]:
        yield Lines(self.body)


@dataclass(frozen=True)
class Handler(Node):
    """WHEN … THEN of an EXCEPTION block."""

    condition: str
    body: tuple[Node, ...]

    def sql(self) -> str:
        return f"WHEN {self.condition} THEN\n{_lines(self.body)}"


@dataclass(frozen=True)
class Caught(Node):
    """BEGIN … EXCEPTION … END."""

    body: tuple[Node, ...]
    handlers: tuple[Handler, ...] = some()

    def sql(self) -> str:
        return f"BEGIN\n{_lines(self.body)}\nEXCEPTION\n{_lines(self.handlers)}\nEND;"

    def simpler(self) -> Iterator[Node]:
        yield Lines(self.body)


@dataclass(frozen=True)
class Body(Node):
    """A whole block, its variables before it."""

    variables: str
    statements: tuple[Node, ...]
    end: tuple[Node, ...] = field(metadata={"kept": True})

    def sql(self) -> str:
        return f"DECLARE\n{self.variables}\nBEGIN\n{_lines((*self.statements, *self.end))}\nEND"


@dataclass(frozen=True)
class Queries(Node):
    """The text of a function in SQL; the last statement gives its result."""

    statements: tuple[Node, ...]
    end: Node
    atomic: bool = switch()

    def sql(self) -> str:
        return "\n".join(each.sql() for each in (*self.statements, self.end))


@dataclass(frozen=True)
class Function(Node):
    """CREATE FUNCTION or PROCEDURE. `head` is its name, arguments and result."""

    head: str
    options: str
    body: Body | Queries

    def sql(self) -> str:
        if isinstance(self.body, Body):
            return f"CREATE {self.head} LANGUAGE plpgsql {self.options} AS $f$\n{self.body.sql()} $f$"
        if self.body.atomic:
            return f"CREATE {self.head} LANGUAGE sql {self.options} BEGIN ATOMIC\n{self.body.sql()}\nEND"
        return f"CREATE {self.head} LANGUAGE sql {self.options} AS $f$\n{self.body.sql()} $f$"


@dataclass(frozen=True)
class Do(Node):
    """DO."""

    body: Body

    def sql(self) -> str:
        return f"DO $f$\n{self.body.sql()} $f$"


@dataclass(frozen=True)
class Call(Node):
    """A statement of the client, with parameters if it has some."""

    text: str
    parameters: tuple[int | str | None, ...] = field(default=(), metadata={"kept": True})

    def sql(self) -> str:
        return self.text


@dataclass(frozen=True)
class Case(Node):
    """Tables, functions and triggers over them, and what the client sends then."""

    tables: tuple[str, ...] = field(metadata={"kept": True})
    functions: tuple[Function, ...]
    triggers: tuple[Call, ...]
    calls: tuple[Node, ...] = some()
    settings: Call | None = field(default=None, metadata=OPTIONAL)

    def setup(self) -> str:
        """All before the calls, as one text."""
        return ";\n".join((*self.tables, *(each.sql() for each in (*self.functions, *self.triggers))))

    def sql(self) -> str:
        return ";\n".join((self.setup(), *(each.sql() for each in self.calls)))
