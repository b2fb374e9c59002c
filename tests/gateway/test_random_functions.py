"""Functions of random statements over three tables, with exceptions caught at random: as in PostgreSQL.

A seed makes the same functions again: `SLUICE_FUNCTIONS_SEED=N SLUICE_FUNCTIONS=1000 pytest …`.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import pytest

from tests.servers import Server

_SEED = int(os.environ.get("SLUICE_FUNCTIONS_SEED", datetime.now(UTC).toordinal()))
_COUNT = int(os.environ.get("SLUICE_FUNCTIONS", "40"))
_TOGETHER = 20
_MADE = """
CREATE TABLE a (id integer PRIMARY KEY, n integer CHECK (n < 90), t text);
CREATE TABLE b (id integer PRIMARY KEY, a integer REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE, u integer UNIQUE);
CREATE TABLE c (a integer, b integer REFERENCES b ON DELETE SET NULL, m integer DEFAULT 7);
INSERT INTO a SELECT g, g * 7 % 50, 'a' || g FROM generate_series(1, 12) g;
INSERT INTO b SELECT g, 1 + g % 12, g * 3 FROM generate_series(1, 10) g;
INSERT INTO c SELECT g % 5, 1 + g % 10, g FROM generate_series(1, 15) g;
"""
# An expression that has failed before in the transaction PostgreSQL plans anew, and says so where that fails.
_FOLDED = re.compile(r'PL/pgSQL (?:assignment|expression) ".*"\n')
_CAUGHT = ("unique_violation", "foreign_key_violation", "check_violation", "OTHERS", "division_by_zero")
SHOWN = (
    "SELECT 'a', a::text FROM a UNION ALL SELECT 'b', b::text FROM b UNION ALL SELECT 'c', c::text FROM c ORDER BY 1, 2"
)


def _number(choose: random.Random) -> str:
    return choose.choice([str(choose.randint(1, 14)), "p", "v", "v % 9 + 1"])


def _statement(choose: random.Random, depth: int) -> str:
    number = _number(choose)
    match choose.randint(0, 17):
        case 0:
            return f"INSERT INTO a VALUES ({number}, {number} * 3, 'new') RETURNING n INTO v;"
        case 1:
            return f"INSERT INTO a VALUES ({number}, 5, 'new') ON CONFLICT (id) DO UPDATE SET n = a.n + 1;"
        case 2:
            return f"INSERT INTO b VALUES ({number}, {_number(choose)}, {_number(choose)});"
        case 3:
            return f"INSERT INTO c (a, b) VALUES ({number}, {_number(choose)});"
        case 4:
            return f"UPDATE a SET n = n + {number} WHERE id <= {_number(choose)}; GET DIAGNOSTICS v = ROW_COUNT;"
        case 5:
            return f"UPDATE a SET id = id + 20 WHERE id = {number};"
        case 6:
            return f"UPDATE b SET u = {number} WHERE id = {_number(choose)};"
        case 7:
            return f"DELETE FROM a WHERE id = {number};"
        case 8:
            return f"DELETE FROM b WHERE u > {number} * 3; IF FOUND THEN v := v + 1; END IF;"
        case 9:
            return f"SELECT count(*) INTO v FROM b JOIN a ON a.id = b.a WHERE a.n > {number};"
        case 10:
            return "SELECT coalesce(sum(m), 0) INTO v FROM c; RAISE NOTICE 'sum %', v;"
        case 11:
            return f"v := v / ({number} - {_number(choose)});"
        case 12:
            return "EXECUTE 'SELECT count(*) FROM ' || quote_ident(CASE WHEN v % 2 = 0 THEN 'a' ELSE 'c' END) INTO v;"
        case 13:
            return f"MERGE INTO c USING b ON c.b = b.id AND b.id = {number} WHEN MATCHED THEN DELETE;"
        case 14 if depth:
            return f"IF v % 2 = 0 THEN {block(choose, depth - 1)} ELSE {_statement(choose, depth - 1)} END IF;"
        case 15 if depth:
            each = _statement(choose, depth - 1)
            return f"FOR r IN SELECT id FROM b ORDER BY id LIMIT 3 LOOP v := r.id; {each} END LOOP;"
        case 16:
            return f"IF v > {choose.randint(5, 60)} THEN RAISE EXCEPTION 'too much: %', v; END IF;"
        case _ if depth:
            return block(choose, depth - 1)
        case _:
            return "v := v + 1;"


def block(choose: random.Random, depth: int) -> str:
    body = "\n".join(_statement(choose, depth) for _ in range(choose.randint(1, 4)))
    if choose.random() < 0.6:
        caught = choose.choice(_CAUGHT)
        body += f"\nEXCEPTION WHEN {caught} THEN v := -1; RAISE NOTICE 'caught % %', SQLSTATE, SQLERRM;"
        if choose.random() < 0.3:
            body += f"\nINSERT INTO c (m) VALUES ({_number(choose)});"
    return f"BEGIN\n{body}\nEND;"


def _script(seed: int) -> str:
    """A function, and how it is called: alone, in a block, twice, undone."""
    choose = random.Random(seed)
    name = f"f{seed}"
    made = (
        f"CREATE FUNCTION {name}(p integer) RETURNS integer LANGUAGE plpgsql AS $$\nDECLARE v integer := p; r record;\n"
        f"BEGIN\n{block(choose, 3)}\nRETURN v;\nEND $$;"
    )
    call = f"SELECT {name}({choose.randint(1, 12)});"
    ways = (
        call,
        f"BEGIN; {call} SELECT sum(n), count(*) FROM a; {call} COMMIT;",
        f"BEGIN ISOLATION LEVEL REPEATABLE READ; {call} SAVEPOINT s; {call} ROLLBACK TO s; {call} COMMIT;",
        f"BEGIN; {call} ROLLBACK; {call}",
        f"DO $$ BEGIN PERFORM {name}(3); PERFORM {name}(4); END $$;",
    )
    return f"\\echo\n\\echo function {seed}\n{made}\n{choose.choice(ways)}\n{SHOWN};\n"


def assert_alike(
    both: tuple[Server, Server], schema: str, seeds: Iterable[int], script: Callable[[int], str], word: str
) -> None:
    """PostgreSQL, the first of both, prints the same for the scripts, each of which says its `word` and seed."""
    whole = f"SET search_path = {schema};\n{_MADE}\n" + "".join(map(script, seeds))
    oracle, _ = both
    oracle.psql("-qc", f"CREATE SCHEMA {schema}")
    try:
        answers = [server.psql("-qAt", sql=whole, merge_output=True).stdout for server in both]
    finally:
        oracle.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    shown = [_FOLDED.sub("", answer).split(f"\n{word} ") for answer in answers]
    for expected, found in zip(*shown, strict=True):
        assert found == expected


@pytest.mark.parametrize("first", range(0, _COUNT, _TOGETHER))
def test_as_in_postgresql(oracle: Server, gateway: Server, schema: str, first: int) -> None:
    seeds = [_SEED * 100_000 + number for number in range(first, min(first + _TOGETHER, _COUNT))]
    assert_alike((oracle, gateway), schema, seeds, _script, "function")
