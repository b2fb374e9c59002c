"""Effects of statements that call functions, other than rows of the shadows that they use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from gateway.backend import catalog_calls
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.own_text import escaped
from gateway.execution.reading.function_tables import QUALIFIED, name_arrays
from gateway.execution.reading.function_text import TEXT

if TYPE_CHECKING:
    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext

# How many rows the transaction has changed.
_CHANGED: Final = """pg_catalog.sum(pg_catalog.pg_stat_get_xact_tuples_inserted(oid)
    OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_updated(oid)
    OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_deleted(oid))"""
# Countable effects other than rows of these shadows: rows of any other table, PostgreSQL's catalogs included,
# advisory locks, cursors. The client's portal without a name lasts until its next one.
_BESIDE: Final = f"""
SELECT (SELECT {_CHANGED}
    FROM pg_catalog.pg_class
    WHERE relkind OPERATOR(pg_catalog.=) 'r' AND oid OPERATOR(pg_catalog.<>) ALL ($1::pg_catalog.oid[])
        AND relnamespace OPERATOR(pg_catalog.<>) 'pg_sluice'::pg_catalog.regnamespace),
    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks
     WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()),
    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_cursors
     WHERE pg_catalog.length(name) OPERATOR(pg_catalog.>) 0 AND NOT pg_catalog.starts_with(name, $2))
"""
# Where texts name none of the others, these are left: rows of catalogs and of temporary tables.
_ELSEWHERE: Final = f"""
SELECT {_CHANGED}
FROM pg_catalog.pg_class
WHERE relkind OPERATOR(pg_catalog.=) 'r' AND relnamespace OPERATOR(pg_catalog.=) ANY (
    ARRAY['pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid, pg_catalog.pg_my_temp_schema()])
"""
# Effects that are not counted, as they are written in the statement or in functions called implicitly, as by
# triggers: settings, notifications, prepared statements, table locks.
_ACTS: Final = escaped(
    r"set_config|notify|listen|pg_export_snapshot|\m(lock|prepare|deallocate|discard|load)\M"
    r"|(^|;|\mbegin|\mthen|\melse|\mloop|'|\$|\*/|--[^\n]*\n)\s*(set|reset)\M"
)
# What may take numbers of sequences, and what may do else with them.
_NUMBERING: Final = frozenset({"nextval", "insert", "merge", "update", "copy", "execute"})
_OF_SEQUENCES: Final = frozenset(
    {"setval", "last_value", "pg_sequences", "pg_sequence_last_value", "pg_get_sequence_data"}
)
_MAY_ACT: Final = f"""
SELECT $1::pg_catalog.text OPERATOR(pg_catalog.~*) {_ACTS} OR EXISTS (
    SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) pronamespace
    WHERE p.oid OPERATOR(pg_catalog.>=) {FIRST_USER_OID}
        AND (proname OPERATOR(pg_catalog.=) ANY ($2::pg_catalog.name[]) AND (pg_catalog.pg_function_is_visible(p.oid)
            OR {QUALIFIED.format(column="proname", names="$3")}) OR EXISTS (
            SELECT FROM pg_catalog.pg_depend d
            WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
                AND d.refobjid OPERATOR(pg_catalog.=) p.oid))
        AND pronamespace OPERATOR(pg_catalog.<>) 'pg_sluice'::pg_catalog.regnamespace
        AND {TEXT} OPERATOR(pg_catalog.~*) {_ACTS})
"""


def counted(shadows: str) -> Statement:
    """The question how many effects there are so far, besides rows of these shadows (an array of OIDs)."""
    return Statement(_BESIDE, (shadows, OWN))


ELSEWHERE: Final = Statement(_ELSEWHERE)


def names_counted(words: Collection[str]) -> bool:
    """Whether texts of these words may have countable effects, besides rows of tables: they lock, open cursors, or make
    large objects."""
    names = (word.rpartition(".")[2] for word in words)
    return any(
        name == "open" or name.startswith("lo_") or name.endswith("cursor") or "advisory" in name for name in names
    )


def uncounted(sql: str, names: Sequence[str]) -> Statement:
    """The question whether a statement, or functions of these names (`name_arrays`), may have effects that are not
    counted."""
    return Statement(_MAY_ACT, (sql, *names))


async def numbering(session: SessionContext, words: Collection[str], tables: Iterable[int]) -> list[Statement]:
    """The question for the use of sequences before a statement of these words and tables that may be undone; its answer
    is for `rewind`. None if it takes no numbers, or may read sequences as well."""
    names = {word.rpartition(".")[2] for word in words}
    if names.isdisjoint(_NUMBERING) or not names.isdisjoint(_OF_SEQUENCES):
        return []
    found, _ = await name_arrays(session, words)
    return [catalog_calls.sequences_used(tables, found, others="execute" in names)]


def rewind(answers: Sequence[Result]) -> list[Statement]:
    """What gives numbers again that were taken since these `answers`, once all else is undone."""
    return [catalog_calls.rewind_sequences(used) for each in answers if (used := each.rows[0][0]) is not None]
