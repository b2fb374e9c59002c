"""PostgreSQL's functions and types by OID, as its catalog has them.

Immutable and without I/O: a caller with a connection runs `FUNCTIONS_QUERY` and `TYPES_QUERY` once per catalog and
calls `Builtins.from_rows`. Later functions (CREATE FUNCTION) are unknown here and therefore refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from catalog.errors import unsupported

FUNCTIONS_QUERY: Final = """\
SELECT p.oid::bigint, n.nspname::text, p.proname::text,
       ARRAY(SELECT a.oid::bigint FROM unnest(p.proargtypes) WITH ORDINALITY AS a(oid, i) ORDER BY i),
       p.prorettype::bigint, p.prokind::text, p.provolatile::text, p.proisstrict
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"""

TYPES_QUERY: Final = """\
SELECT t.oid::bigint, n.nspname::text, t.typname::text, t.typtype::text, t.typarray::bigint
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname = 'pg_catalog' OR t.typtype IN ('b', 'd', 'e')"""


@dataclass(frozen=True, slots=True)
class Function:
    """A row of pg_proc. `kind` is prokind (f, a, w, p), `volatility` is provolatile (i, s, v), `is_strict` proisstrict:
    NULL for an argument that is NULL."""

    oid: int
    schema: str
    name: str
    arguments: tuple[int, ...]
    result: int
    kind: str
    volatility: str
    is_strict: bool


@dataclass(frozen=True, slots=True)
class Type:
    """A row of pg_type. `kind` is typtype."""

    oid: int
    schema: str
    name: str
    kind: str
    array: int


@dataclass(frozen=True, slots=True)
class Builtins:
    """Functions and types by OID. `signatures` caches the results of `signature`."""

    functions: Mapping[int, Function]
    types: Mapping[int, Type]
    signatures: dict[int, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_rows(cls, functions: Iterable[Sequence[Any]], types: Iterable[Sequence[Any]]) -> Builtins:
        """Read the rows of `FUNCTIONS_QUERY` and `TYPES_QUERY`, columns in their order."""
        return cls(
            {row[0]: Function(row[0], row[1], row[2], tuple(row[3]), *row[4:]) for row in functions},
            {row[0]: Type(*row) for row in types},
        )

    def type_name(self, oid: int) -> str:
        """Return the type's name, with its schema unless that is pg_catalog."""
        found = self.types.get(oid)
        if found is None:
            return f"type {oid}"
        return found.name if found.schema == "pg_catalog" else f"{found.schema}.{found.name}"

    def signature(self, oid: int) -> str:
        """Return a signature such as `numeric_add(numeric,numeric)`, the key of the allow-list. 0A000 for an unknown
        function."""
        cached = self.signatures.get(oid)
        if cached is None:
            function = self.functions.get(oid)
            if function is None:
                raise unsupported(f"the function with OID {oid}")
            name = function.name if function.schema == "pg_catalog" else f"{function.schema}.{function.name}"
            cached = f"{name}({','.join(self.type_name(argument) for argument in function.arguments)})"
            self.signatures[oid] = cached
        return cached
