"""A call with translated arguments, and the rows of the allow-list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from catalog.errors import unsupported
from planner.spark.builders import Expression
from planner.spark.values import Value

if TYPE_CHECKING:
    from planner.spark.plan import SessionValues


_DEFAULT_COLLATION: Final = 100
# None, the default (the catalog's is C.UTF-8) and pg_c_utf8, as opposed to C, POSIX and ucs_basic.
_UNICODE_COLLATIONS: Final = frozenset({0, _DEFAULT_COLLATION, 811})


class Aggregation(Protocol):
    """How to compute an aggregate's parts in its place: grouped, filtered, or over a window."""

    distinct: bool
    ordered: bool
    # Whether WITHIN GROUP (or the aggregate's own ORDER BY) begins with the greatest.
    descending: bool

    def __call__(self, function: str, *arguments: Expression) -> Expression:
        """Return a reference to the result of one Spark aggregate of these arguments."""

    def sorted_list(self, element: Expression) -> Expression:
        """Return an ARRAY of the elements, NULLs included, in the aggregate's ORDER BY; NULL if there are none."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an allowed function: its arguments, and the result type that PostgreSQL resolved."""

    signature: str
    arguments: tuple[Value, ...]
    result_type: int
    session: SessionValues
    aggregate: Aggregation | None = None
    collation: int = _DEFAULT_COLLATION

    def result(self, sql: Expression) -> Value:
        """Return a result of PostgreSQL's type, without typmod; not for numeric."""
        return Value(sql, self.result_type)

    @property
    def sql(self) -> tuple[Expression, ...]:
        """The arguments' Spark expressions."""
        return tuple(argument.sql for argument in self.arguments)

    def constant(self, index: int, what: str) -> object:
        """Return the argument's value, which must be known while planning; `what` names it in the refusal."""
        value = self.arguments[index]
        if not value.is_constant:
            raise unsupported(f"{self.signature} with {what} that is not constant")
        return value.constant

    def check_letters(self) -> None:
        """Refuse collations in which only ASCII has letters: here all of Unicode has."""
        if self.collation not in _UNICODE_COLLATIONS:
            raise unsupported(f"{self.signature} in the collation with OID {self.collation}")

    def parts(self) -> Aggregation:
        """How to compute the parts of an aggregate."""
        assert self.aggregate is not None, "not an aggregate"
        return self.aggregate


Build = Callable[[Call], Value]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the allow-list: PostgreSQL's signature, the builder of its Spark form, and the SQL that probes it.

    `build` is called only if all collations involved are C collations. Tests run probes on Spark and on PostgreSQL;
    `planner.functions.probes` describes the tables that they may use.
    """

    signature: str
    build: Build
    probes: tuple[str, ...]


def row(signature: str, build: Build, *probes: str) -> Row:
    return Row(signature, build, probes)
