"""Correlated subqueries with LIMIT over many blocks on two workers: only the order decides which row comes first.

The expected answers are computed by window functions, in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.workers import LOOPBACK, Cluster
from tests.servers import GatewayProcess, Server, open_directory

pytestmark = pytest.mark.turns(together=True)

ROWS = 300_000
GROUPS = 60

TABLES = f"""
CREATE TABLE o (id int PRIMARY KEY);
CREATE TABLE i (boss int, name text, pay int);
INSERT INTO o SELECT n FROM generate_series(1, {GROUPS}) n;
INSERT INTO i SELECT n % {GROUPS} + 1, 'n' || n, (n::bigint * 7919 % 100003)::int
    FROM generate_series(1, {ROWS / 2:.0f}) n;
INSERT INTO i SELECT n % {GROUPS} + 1, 'n' || n, (n::bigint * 7919 % 100003)::int
    FROM generate_series({ROWS / 2 + 1:.0f}, {ROWS}) n;
CREATE TABLE ranked AS SELECT boss, name, pay, row_number() OVER (PARTITION BY boss ORDER BY pay DESC, name) AS r,
    row_number() OVER (PARTITION BY boss ORDER BY pay, name) AS s FROM i;
"""

# (what it is, a query of the number of outer rows, and of those that are answered right)
_FIRST = "JOIN ranked r ON r.boss = q.id AND r.r"
SHAPES = {
    "scalar": f"""SELECT count(*), count(*) FILTER (WHERE r.name = q.x) FROM (SELECT o.id, (SELECT name FROM i
        WHERE i.boss = o.id ORDER BY pay DESC, name LIMIT 1) AS x FROM o) q {_FIRST} = 1""",
    "scalar by an expression": f"""SELECT count(*), count(*) FILTER (WHERE r.name = q.x) FROM (SELECT o.id, (SELECT name
        FROM i WHERE i.boss + 1 = o.id + 1 ORDER BY pay DESC, name LIMIT 1) AS x FROM o) q {_FIRST} = 1""",
    "scalar, OFFSET": f"""SELECT count(*), count(*) FILTER (WHERE r.name = q.x) FROM (SELECT o.id, (SELECT name FROM i
        WHERE i.boss = o.id ORDER BY pay DESC, name OFFSET 4 LIMIT 1) AS x FROM o) q {_FIRST} = 5""",
    "not an equality": f"""SELECT count(*), count(*) FILTER (WHERE r.name = q.x) FROM (SELECT o.id, (SELECT name FROM i
        WHERE i.boss IS NOT DISTINCT FROM o.id ORDER BY pay DESC, name LIMIT 1) AS x FROM o) q {_FIRST} = 1""",
    "LATERAL": """SELECT count(*), count(*) FILTER (WHERE r.r <= 3) FROM o CROSS JOIN LATERAL (SELECT name FROM i
        WHERE i.boss = o.id ORDER BY pay DESC, name LIMIT 3) q JOIN ranked r ON r.boss = o.id AND r.name = q.name""",
    "left LATERAL over UNION ALL": """SELECT count(*), count(*) FILTER (WHERE r.r = 1) FROM o LEFT JOIN LATERAL
        (SELECT * FROM (SELECT name, pay FROM i WHERE i.boss = o.id UNION ALL SELECT 'nobody', -1) u
        ORDER BY pay DESC, name LIMIT 1) q ON true LEFT JOIN ranked r ON r.boss = o.id AND r.name = q.name""",
    "in WHERE": """SELECT count(*), count(*) FROM o JOIN ranked r ON r.boss = o.id AND r.r = 1 WHERE r.name =
        (SELECT name FROM i WHERE i.boss = o.id ORDER BY pay DESC, name LIMIT 1)""",
    "in HAVING": """SELECT count(*), count(*) FROM (SELECT r.boss FROM ranked r WHERE r.r = 1 GROUP BY r.boss, r.name
        HAVING r.name = (SELECT name FROM i WHERE i.boss = r.boss ORDER BY pay DESC, name LIMIT 1)) q""",
    "in a group": """SELECT count(*), count(*) FILTER (WHERE r.name = q.x) FROM (SELECT o.id - 1 AS g, (SELECT name
        FROM i WHERE i.boss = o.id - 1 + 1 ORDER BY pay DESC, name LIMIT 1) AS x FROM o GROUP BY o.id) q
        JOIN ranked r ON r.boss = q.g + 1 AND r.r = 1""",
    "in HAVING by an expression": """SELECT count(*), count(*) FROM (SELECT r.boss FROM ranked r WHERE r.r = 1
        GROUP BY r.boss, r.name
        HAVING r.name = (SELECT name FROM i WHERE i.boss + 1 = r.boss + 1 ORDER BY pay DESC, name LIMIT 1)) q""",
    "left LATERAL, not an equality": """SELECT count(*), count(*) FILTER (WHERE r.r = 1) FROM o LEFT JOIN LATERAL
        (SELECT name FROM i WHERE i.boss IS NOT DISTINCT FROM o.id ORDER BY pay DESC, name LIMIT 1) q ON true
        LEFT JOIN ranked r ON r.boss = o.id AND r.name = q.name""",
    "any of the best": """SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM i WHERE i.boss = q.id AND
        i.name = q.x AND i.pay = (SELECT max(pay) FROM i m WHERE m.boss = q.id))) FROM
        (SELECT o.id, (SELECT name FROM i WHERE i.boss = o.id ORDER BY pay DESC LIMIT 1) AS x FROM o) q""",
    "in a recursive query": f"""WITH RECURSIVE s (n, x) AS (SELECT 1, (SELECT name FROM i WHERE i.boss = 1
        ORDER BY pay DESC, name LIMIT 1) UNION ALL SELECT n + 1, (SELECT name FROM i WHERE i.boss = n + 1
        ORDER BY pay DESC, name LIMIT 1) FROM s WHERE n < 4)
        SELECT count(*), count(*) FILTER (WHERE r.name = s.x) FROM s {_FIRST.replace("q.id", "s.n")} = 1""",
    "within another": """SELECT count(*), count(*) FILTER (WHERE r.name = q.x) FROM (SELECT o.id, (SELECT (SELECT j.name
        FROM i j WHERE j.boss = i.boss ORDER BY j.pay, j.name LIMIT 1) FROM i WHERE i.boss = o.id
        ORDER BY i.pay DESC, i.name LIMIT 1) AS x FROM o) q JOIN ranked r ON r.boss = q.id AND r.s = 1""",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with open_directory("cluster") as directory, Cluster(directory / "spark") as cluster:
        arguments = ("--engine", "spark", "--spark", cluster.url)
        with GatewayProcess(directory / "data", arguments=arguments, environment=LOOPBACK) as gateway:
            gateway.server.psql("-q", "-v", "ON_ERROR_STOP=1", sql=TABLES)
            yield gateway.server


@pytest.mark.parametrize("shape", SHAPES)
def test_every_outer_row_has_its_own_first(server: Server, shape: str) -> None:
    [[rows, right]] = server.query(SHAPES[shape])
    expected = {"LATERAL": 3 * GROUPS, "in a recursive query": 4}.get(shape, GROUPS)
    assert (int(rows), int(right)) == (expected, expected)
