"""Triggers of random statements over three tables, fired by random changes: as in PostgreSQL.

A seed makes the same triggers again: `SLUICE_TRIGGERS_SEED=N SLUICE_TRIGGERS=1000 pytest …`.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime

import pytest

from tests.gateway.test_random_functions import SHOWN, assert_alike, block
from tests.servers import Server

_SEED = int(os.environ.get("SLUICE_TRIGGERS_SEED", datetime.now(UTC).toordinal()))
_COUNT = int(os.environ.get("SLUICE_TRIGGERS", "20"))
_TOGETHER = 20
_DEPTH_MAX = 1
_FIRE = "SET CONSTRAINTS ALL IMMEDIATE;"


def _change(choose: random.Random) -> str:
    """A statement that changes one row of its own, so that the order of rows does not matter."""
    number, other = choose.randint(1, 14), choose.randint(1, 14)
    merging = f"MERGE INTO a USING (VALUES ({number})) v (id) ON a.id = v.id"
    return choose.choice([
        f"INSERT INTO a VALUES ({number}, {other}, 'x');",
        f"INSERT INTO a VALUES ({number}, 5, 'y') ON CONFLICT (id) DO UPDATE SET n = a.n + 1 RETURNING *;",
        f"INSERT INTO b VALUES ({number}, {other}, {other * 5}) ON CONFLICT DO NOTHING;",
        f"INSERT INTO c (a, b) VALUES ({number}, {other}) RETURNING m;",
        f"UPDATE a SET n = n + 1 WHERE id = {number};",
        f"UPDATE a SET id = {number} + 20 WHERE id = {number};",
        f"UPDATE b SET u = u + 1, a = {other} WHERE id = {number} RETURNING a, u;",
        f"DELETE FROM b WHERE id = {number};",
        f"DELETE FROM a WHERE id = {number};",
        f"{merging} WHEN MATCHED THEN UPDATE SET n = {other} WHEN NOT MATCHED THEN INSERT VALUES (v.id, 1, 'm');",
        f"COPY c (a, m) FROM STDIN;\n{number}\t{other}\n\\.\n",
        f"DO $$ BEGIN UPDATE a SET t = 'do' WHERE id = {number}; DELETE FROM b WHERE id = {other}; END $$;",
    ])  # fmt: skip


def _script(seed: int) -> str:
    choose = random.Random(seed)
    name, table = f"g{seed}", choose.choice("abc")
    events = " OR ".join(choose.sample(["INSERT", "UPDATE", "DELETE"], choose.randint(1, 3)))
    timing, level = choose.choice(["BEFORE", "AFTER"]), choose.choice(["ROW", "ROW", "STATEMENT"])
    late, kind = "", ""
    if (timing, level) == ("AFTER", "ROW") and choose.random() < 0.7:
        kind = "CONSTRAINT "
        late = f"DEFERRABLE INITIALLY {choose.choice(['DEFERRED', 'DEFERRED', 'IMMEDIATE'])} "
    made = (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$\n"
        f"DECLARE p integer := pg_trigger_depth(); v integer := {choose.randint(1, 9)}; r record;\nBEGIN\n"
        f"IF p > {_DEPTH_MAX} THEN RETURN coalesce(NEW, OLD); END IF;\n"
        f"RAISE NOTICE '% % % %', TG_WHEN, TG_OP, OLD, NEW;\n{block(choose, 2)}\n"
        f"IF v % 5 = 4 THEN RETURN NULL; END IF;\nRETURN coalesce(NEW, OLD);\nEND $$;\n"
        f"CREATE {kind}TRIGGER {name} {timing} {events} ON {table} {late}FOR EACH {level} EXECUTE FUNCTION {name}();"
    )
    changes = [_change(choose) for _ in range(4)]
    first, second, third, fourth = changes
    way = choose.choice([
        "\n".join(changes),
        f"BEGIN;\n{first}\nSAVEPOINT s;\n{second}\nROLLBACK TO s;\n{third}\nCOMMIT;\n{fourth}",
        f"BEGIN ISOLATION LEVEL REPEATABLE READ;\n{first}\n{second}\nCOMMIT;\n{third}",
        f"{first}\nBEGIN;\n{second}\nROLLBACK;\n{third}\n{fourth}",
        f"BEGIN;\n{first}\nSAVEPOINT s;\n{second}\n{_FIRE}\n{third}\nROLLBACK TO s;\n{fourth}\nCOMMIT;",
        f"BEGIN;\nSET CONSTRAINTS ALL DEFERRED;\n{first}\n{second}\n{_FIRE}\n{third}\nCOMMIT;\n{fourth}",
    ])  # fmt: skip
    return f"\\echo\n\\echo trigger {seed}\n{made}\n{way}\n{SHOWN};\nDROP FUNCTION {name} CASCADE;\n"


@pytest.mark.parametrize("first", range(0, _COUNT, _TOGETHER))
def test_as_in_postgresql(oracle: Server, gateway: Server, schema: str, first: int) -> None:
    seeds = [_SEED * 100_000 + number for number in range(first, min(first + _TOGETHER, _COUNT))]
    assert_alike((oracle, gateway), schema, seeds, _script, "trigger")
