"""Finds the tables of which no code but their owners' decides what a statement sees.

The keys that functions look up are learnt from plans that PostgreSQL prints (`sought_keys`). Code of users can hide
plans: it sets client_min_messages, in words that no search finds, and has other plans printed that never run. Functions
of others that are called then would miss rows. So a table's keys are sought only if all code that may run before its
owner's is the owner's own, or of a role that may act as the owner: this could remove the rows, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement
from planner.tree.named_code import NamedCode

if TYPE_CHECKING:
    from gateway.backend.connection import Result

# The client may be the owner; or all of these functions, types and changed relations are of who may, and with them the
# tables that foreign keys bring in, and the functions of triggers. A condition of a trigger's may be anybody's.
_OF_OWNERS: Final = """
WITH RECURSIVE changed (oid) AS (
    SELECT o FROM pg_catalog.unnest($4::pg_catalog.oid[]) AS u (o)
    UNION SELECT c.conrelid FROM changed h JOIN pg_catalog.pg_constraint c ON c.confrelid OPERATOR(pg_catalog.=) h.oid
    WHERE c.contype OPERATOR(pg_catalog.=) 'f'
), triggers (function, is_sure) AS (
    SELECT t.tgfoid, t.tgqual IS NULL FROM changed h
    JOIN pg_catalog.pg_trigger t ON t.tgrelid OPERATOR(pg_catalog.=) h.oid WHERE NOT t.tgisinternal
), code (owner) AS (
    SELECT p.proowner FROM pg_catalog.pg_proc p
    WHERE p.oid OPERATOR(pg_catalog.=) ANY ($2::pg_catalog.oid[])
        AND p.pronamespace OPERATOR(pg_catalog.<>) 'pg_sluice'::pg_catalog.regnamespace
    UNION SELECT p.proowner FROM triggers t JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.function
    UNION SELECT t.typowner FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) ANY ($3::pg_catalog.oid[])
    UNION SELECT c.relowner FROM changed h JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) h.oid
)
SELECT c.oid::pg_catalog.int8 FROM pg_catalog.pg_class c
WHERE c.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])
    AND (pg_catalog.pg_has_role(c.relowner, 'USAGE') OR $5::pg_catalog.bool
        AND NOT EXISTS (SELECT FROM triggers t WHERE NOT t.is_sure)
        AND NOT EXISTS (SELECT FROM code WHERE NOT pg_catalog.pg_has_role(code.owner, c.relowner, 'USAGE')))
"""
_NONE: Final = NamedCode(frozenset(), frozenset(), frozenset())


def of_owners(code: NamedCode | None, oids: Collection[int]) -> Statement:
    """The question for those of these tables of which a statement with this code runs no code of strangers first. If
    its code is not known (None), they are the client's own."""
    given = code or _NONE
    listed = (number_array(each) for each in (oids, given.functions, given.types, given.changed))
    return Statement(_OF_OWNERS, (*listed, "f" if code is None else "t"))


def tables_of_owners(answer: Result) -> set[int]:
    """The tables, by OID, of the answer to `of_owners`."""
    return {int(oid or 0) for (oid,) in answer.rows}
