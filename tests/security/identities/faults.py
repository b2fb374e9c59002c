"""Planted faults, one at a time: the number of scripts until each is found.

`python -m tests.security.identities.faults [--seed N] [--scripts N] [NAME …]`. Faults of the catalog are planted in its
functions while the gateways run, those of gateways when these start.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.security.identities.judge import findings
from tests.security.identities.script import script_of
from tests.security.identities.stage import Side, started

Changed = Callable[[str], str]


def _replaced(before: str, after: str) -> Changed:
    def change(source: str) -> str:
        assert before in source, before
        return source.replace(before, after)

    return change


def _evaluating_defaults(source: str) -> str:
    """At the end of the function, which has the rights of sluice_metadata."""
    evaluated = """
    DECLARE expression text;
    BEGIN
        FOR expression IN SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
                          WHERE adrelid = (stage.change ->> 'relid')::oid LOOP
            BEGIN EXECUTE 'SELECT ' || expression; EXCEPTION WHEN OTHERS THEN NULL; END;
        END LOOP;
    END;
"""
    head, end, tail = source.rpartition("END")
    return f"{head}{evaluated}{end}{tail}"


def _planning(source: str) -> str:
    """At its beginning: users' code in constants of indexes is folded."""
    planned = """
    DECLARE planned record;
    BEGIN
        FOR planned IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
            BEGIN
                EXECUTE format('EXPLAIN SELECT FROM %s', (SELECT coalesce(i.indrelid, planned.objid)::regclass
                    FROM (SELECT) one LEFT JOIN pg_index i ON i.indexrelid = planned.objid));
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
    END;
"""
    head, begin, tail = source.partition("\nBEGIN\n")
    assert begin
    return f"{head}{begin}{planned}{tail}"


# Function of pg_sluice → what is made of its source.
_OF_CATALOG: Final[dict[str, tuple[str, Changed]]] = {
    "a step leaves held cursors for COMMIT": ("leave_nothing", _replaced("EXECUTE 'CLOSE ALL';", "")),
    "a step runs as the superuser in place of the owner": (
        "as_owner",
        _replaced("EXECUTE format('ALTER FUNCTION %s(text[]) OWNER TO %s', name, owner);", ""),
    ),
    "staging evaluates the table's defaults": ("stage", _evaluating_defaults),
    "an event trigger plans a query over the table": ("on_ddl", _planning),
    "an action of a key casts from text": (
        "put_as_owner",
        _replaced("'(SELECT v FROM json_to_record(json_build_object(''v'', c%s)) AS r (v %s))'", "'c%s::%s'"),
    ),
}
# Modules' names are replaced before any other module takes them over.
_OF_GATEWAYS: Final = {
    "a shadow is read with users' casts": """
import gateway.execution.shadow.shadow as shadow
right = shadow.kept_value
shadow.kept_value = lambda column, name: f"{name}::text" if column.labels else right(column, name)
""",
    "ANALYZE has values of the column's own type": """
import catalog.postgres.column_statistics as statistics
async def wrong(pool, column, values):
    async with pool.acquire() as connection:
        kind = await connection.fetchval("SELECT format_type($1::bigint::oid, -1)", column.type_oid)
        given = [column.labels[int(value)].text if column.labels and value else value for value in values]
        await connection.execute(f"SELECT u::{kind} FROM unnest($1::text[]) u", given)
    return {}
statistics.column_statistics = wrong
""",
}


@contextmanager
def _planted(connection: psycopg.Connection[Any], name: str) -> Iterator[None]:
    function, change = _OF_CATALOG[name]
    [(right,)] = connection.execute(
        b"SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = %s AND pronamespace = 'pg_sluice'::regnamespace",
        [function],
    ).fetchall()
    connection.execute(change(right).encode())
    try:
        yield
    finally:
        connection.execute(right.encode())


def _search(sides: tuple[Side, Side], name: str, seed: str, scripts: int) -> bool:
    oracle, lake = sides
    for number in range(scripts):
        script = script_of(seed, number)
        found = findings(script, oracle.run(script), lake.run(script))
        if found:
            print(f"{name}: found by script {number + 1}: {found[0]}", flush=True)
            return True
    print(f"{name}: not found in {scripts} scripts", flush=True)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seed", default="faults")
    parser.add_argument("--scripts", type=int, default=10)
    given = parser.parse_args()
    names = given.names or [*_OF_CATALOG, *_OF_GATEWAYS]
    missed = []
    of_catalog = [name for name in names if name in _OF_CATALOG]
    if of_catalog:
        with started() as sides:
            for name in of_catalog:
                with _planted(sides[1].witness.connection, name):
                    missed += [] if _search(sides, name, given.seed, given.scripts) else [name]
    for name in (name for name in names if name not in _OF_CATALOG):
        with tempfile.TemporaryDirectory() as folder:
            guarded = f"import sys\nif 'serve' in sys.orig_argv:\n    exec({_OF_GATEWAYS[name]!r})\n"
            (Path(folder) / "sitecustomize.py").write_text(guarded)
            with started({"PYTHONPATH": folder}) as sides:
                missed += [] if _search(sides, name, given.seed, given.scripts) else [name]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
