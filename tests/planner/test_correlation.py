"""Correlated subqueries of every kind and in every place, against PostgreSQL; none is left to Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import parse_one

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from planner.spark.builders import DIALECT
from planner.translate.correlation.check import require_uncorrelated
from tests.planner.differential import Laboratory, spark_session
from tests.planner.test_allow_list import same

TABLES = """
CREATE TABLE o (id int, g int, w text, n numeric, f float8, d date, a int[], c char(3));
INSERT INTO o SELECT n, n % 5, CASE n % 4 WHEN 0 THEN NULL ELSE 'w' || n % 3 END, CASE WHEN n % 3 > 0 THEN n % 4 + 0.50 END,
    CASE n % 4 WHEN 0 THEN '-0' WHEN 1 THEN '0' WHEN 2 THEN 'NaN' ELSE n / 2::float8 END, date '2024-01-01' + n % 3,
    ARRAY[n, n % 3], CASE n % 3 WHEN 0 THEN 'a' ELSE 'ab' END FROM generate_series(1, 12) n;
INSERT INTO o VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, 1, 'w1', 1.5, 0, '2024-01-02', '{}', 'b');
CREATE TABLE i (boss int, big bigint, name text, pay int, n numeric, f float8, c char(3), d timestamp);
INSERT INTO i SELECT CASE WHEN n % 7 > 0 THEN n % 20 END, n % 6, 'w' || n % 3, CASE WHEN n % 5 > 0 THEN n * 7919 % 103 END,
    n % 4 + CASE n % 2 WHEN 0 THEN 0.5 ELSE 0.50 END, CASE n % 3 WHEN 0 THEN '-0' WHEN 1 THEN 'NaN' ELSE n::float8 END,
    CASE n % 3 WHEN 0 THEN 'a' ELSE 'ab' END, timestamp '2024-01-01' + n % 5 * interval '12 hours'
    FROM generate_series(1, 60) n;
CREATE TABLE e (x int, y text);
"""

# Each gives one answer: whatever is cut has a total order.
QUERIES = r"""
SELECT id, (SELECT i.name FROM i WHERE i.boss = o.id + 3 ORDER BY i.pay, i.name, i.n LIMIT 1) FROM o
SELECT id, (SELECT i.pay FROM i WHERE i.boss = o.id ORDER BY i.pay DESC NULLS LAST LIMIT 1) FROM o
SELECT id, (SELECT i.pay FROM i WHERE i.boss = o.id ORDER BY i.pay OFFSET 1 LIMIT 1) FROM o
SELECT id, (SELECT i.pay FROM i WHERE i.boss IS NOT DISTINCT FROM o.id ORDER BY i.pay LIMIT 1) FROM o
SELECT id, (SELECT i.pay FROM i WHERE i.boss < o.id ORDER BY i.pay, i.boss LIMIT 1) FROM o
SELECT id, (SELECT i.pay FROM i WHERE coalesce(i.boss, 3) = coalesce(o.id, 4) ORDER BY i.pay LIMIT 1) FROM o
SELECT id, (SELECT max(i.pay) FROM i WHERE i.big = o.id) FROM o
SELECT id, (SELECT i.pay FROM i WHERE i.big = o.id ORDER BY pay NULLS FIRST LIMIT 1) FROM o
SELECT id, q.name, q.pay FROM o, LATERAL (SELECT name, pay FROM i WHERE i.boss = o.id ORDER BY pay, name LIMIT 2) q
SELECT id, q.name FROM o LEFT JOIN LATERAL (SELECT name FROM i WHERE i.boss IS NOT DISTINCT FROM o.id ORDER BY pay, name, big LIMIT 1) q ON true
SELECT id, q.name FROM o LEFT JOIN LATERAL (SELECT name, pay FROM i WHERE i.boss = o.id ORDER BY pay, name LIMIT 2) q ON q.pay > 50
SELECT id, q.* FROM o LEFT JOIN LATERAL (SELECT count(*), sum(pay), min(name) FROM i WHERE i.boss = o.id) q ON true
SELECT id, q.* FROM o LEFT JOIN LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q ON q.c > 2
SELECT id, q.* FROM o JOIN LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q ON q.c > 2
SELECT id, q.* FROM o JOIN LATERAL (SELECT count(*) AS c, max(pay) AS m FROM i WHERE i.boss = o.id) q ON q.c = 0 AND q.m IS NULL
SELECT id, q.* FROM o JOIN LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q ON q.c > 2 LEFT JOIN e ON e.x = q.c
SELECT id, q.* FROM o LEFT JOIN LATERAL (SELECT o.g + 1 AS x) q ON true
SELECT id, q.*, e.y FROM o, LATERAL (SELECT o.g + 1 AS x) q LEFT JOIN e ON e.x = q.x
SELECT id, q.*, i.pay FROM o, LATERAL (SELECT o.g + 1 AS x) q RIGHT JOIN i ON i.big = q.x
SELECT id, q.*, i.pay FROM o, (LATERAL (SELECT o.g AS x) q LEFT JOIN e ON e.x = q.x) RIGHT JOIN i ON i.big = q.x
SELECT id, q.*, i.pay FROM o, i LEFT JOIN (LATERAL (SELECT o.g AS x) q LEFT JOIN e ON e.x = q.x) ON i.big = q.x
SELECT id, q.*, i.pay FROM o, i LEFT JOIN (LATERAL (SELECT o.g AS x) q CROSS JOIN LATERAL (SELECT o.id AS y) r) ON i.big = q.x
SELECT o.id, q.*, p.id AS other FROM o, LATERAL (SELECT name, pay FROM i WHERE i.boss = o.id) q RIGHT JOIN o p ON p.w = q.name
SELECT id, q.*, r.* FROM o, LATERAL (SELECT name FROM i WHERE i.boss = o.id) q RIGHT JOIN LATERAL (SELECT pay FROM i WHERE i.big = o.g) r ON true
SELECT id, q.*, r.* FROM o, LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q RIGHT JOIN LATERAL (SELECT count(*) AS c FROM i WHERE i.big = o.g) r ON q.c = r.c
SELECT id, (SELECT string_agg(coalesce(q.name, '-') || p.id, ',' ORDER BY q.name, p.id) FROM (SELECT name FROM i WHERE i.boss = o.id) q RIGHT JOIN o p ON p.w = q.name) FROM o
SELECT id, (SELECT count(q.c) FROM (SELECT max(pay) AS c FROM i WHERE i.boss < o.id) q RIGHT JOIN e ON true) FROM o
SELECT id, q.c, e.x FROM o CROSS JOIN (LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q CROSS JOIN (VALUES (1), (3)) e (x))
SELECT id, q.c, e.x FROM o JOIN (LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q JOIN (VALUES (0), (3)) e (x) ON e.x = q.c) ON true
SELECT id, q.c, e.x FROM o JOIN (LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q LEFT JOIN (VALUES (0), (3)) e (x) ON e.x = q.c) ON o.g > 1
SELECT o.id, p.id AS other, q.c FROM o JOIN (o p RIGHT JOIN (LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q CROSS JOIN (VALUES (0), (3)) e (x)) ON p.id = q.c) ON e.x < 3
SELECT id, q.c, r.d FROM o JOIN (LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id) q CROSS JOIN LATERAL (SELECT count(*) AS d FROM i WHERE i.big = q.c) r) ON r.d > 0
SELECT id, q.* FROM o, LATERAL (SELECT pay FROM i WHERE i.boss = o.id ORDER BY pay FETCH FIRST 0 ROWS WITH TIES) q
SELECT pay FROM i ORDER BY pay OFFSET 2 FETCH FIRST 0 ROWS WITH TIES
SELECT l = 'x', l < 'x' FROM (SELECT lag(c, 1, 'x') OVER (ORDER BY id, g) AS l FROM o) s
SELECT (SELECT count(*) FROM i WHERE e.x IS NULL AND i.pay > 50) FROM e GROUP BY ROLLUP (e.x)
SELECT (SELECT i.pay FROM i WHERE e.x IS NULL AND e.y IS NULL ORDER BY pay LIMIT 1), count(*) FROM e GROUP BY CUBE (e.x, e.y)
SELECT g, (SELECT count(*) FROM i WHERE i.boss = coalesce(o.g, 3)) FROM o WHERE id > 99 GROUP BY GROUPING SETS ((), (g), ())
SELECT id, q.* FROM o, LATERAL (SELECT count(*) AS c, max(pay) + o.g FROM i WHERE i.boss < o.id HAVING count(*) > 3) q
SELECT id, q.* FROM o, LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = o.id HAVING count(*) <> 2) q
SELECT id, q.* FROM o, LATERAL (SELECT name, count(*) FROM i WHERE i.boss = o.id GROUP BY name) q
SELECT id, q.* FROM o, LATERAL (SELECT DISTINCT name FROM i WHERE i.boss >= o.id) q
SELECT id, q.* FROM o, LATERAL (SELECT DISTINCT ON (name) name, pay FROM i WHERE i.boss >= o.id ORDER BY name, pay, boss) q
SELECT id, q.* FROM o, LATERAL (SELECT pay FROM i WHERE i.boss = o.id UNION SELECT o.g UNION ALL SELECT big FROM i WHERE i.boss = o.g) q
SELECT id, q.* FROM o, LATERAL ((SELECT pay FROM i WHERE i.boss = o.id ORDER BY pay LIMIT 1) UNION ALL SELECT 7) q
SELECT id, q.* FROM o, LATERAL (SELECT pay FROM i WHERE i.boss = o.id EXCEPT SELECT pay FROM i WHERE big < o.g) q
SELECT id, q.* FROM o, LATERAL (SELECT o.g + 1 AS x, o.w || 'z') q WHERE q.x > 2
SELECT id, q.* FROM o CROSS JOIN LATERAL (SELECT o.g + 1 AS x) q CROSS JOIN LATERAL (SELECT q.x * 2 AS y) r
SELECT o.id, q.* FROM e RIGHT JOIN (o CROSS JOIN LATERAL (SELECT 1 AS k) q) ON e.x = o.id
SELECT e.x, q.k, o.id FROM o LEFT JOIN (e CROSS JOIN LATERAL (SELECT 1 AS k) q) ON e.x = o.id
SELECT id, v.z FROM o, LATERAL (VALUES (o.g), (o.id), (7)) v (z)
SELECT id, v.z FROM o LEFT JOIN LATERAL (VALUES (o.g), (o.id)) v (z) ON v.z > 3
SELECT id, u FROM o, unnest(a) u
SELECT id, u FROM o LEFT JOIN LATERAL unnest(a) u ON u > 5
SELECT id, s FROM o, generate_series(1, o.g) s
SELECT id, s, k FROM o, LATERAL generate_series(o.g, o.id) WITH ORDINALITY x (s, k)
SELECT id, count(s) FROM o LEFT JOIN LATERAL generate_series(1, o.g) s ON true GROUP BY id
SELECT id, q.s FROM o, LATERAL (SELECT sum(s) AS s FROM generate_series(1, o.g) s) q
SELECT id FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.boss = o.id)
SELECT id FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.boss = o.id AND i.pay > o.g * 10)
SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.boss < o.id AND i.pay IS NULL LIMIT 3)
SELECT id FROM o WHERE EXISTS (SELECT FROM i WHERE i.boss = o.id GROUP BY name HAVING count(*) > 1)
SELECT id FROM o WHERE EXISTS (SELECT max(pay) FROM i WHERE i.boss = o.id)
SELECT id FROM o WHERE EXISTS (SELECT FROM i WHERE i.boss = o.id OFFSET 2)
SELECT id FROM o WHERE EXISTS (SELECT FROM i WHERE i.boss = o.id LIMIT 0)
SELECT id, EXISTS (SELECT FROM i WHERE i.boss = o.id), NOT EXISTS (SELECT FROM i WHERE i.boss > o.id * 2) FROM o
SELECT id FROM o WHERE g > 3 OR EXISTS (SELECT FROM i WHERE i.boss = o.id AND pay > 50)
SELECT id FROM o WHERE o.id IN (SELECT i.boss FROM i WHERE i.big = o.g)
SELECT id FROM o WHERE o.id NOT IN (SELECT i.boss FROM i WHERE i.big = o.g AND i.boss IS NOT NULL)
SELECT id FROM o WHERE o.id NOT IN (SELECT i.boss FROM i WHERE i.big = o.g)
SELECT id FROM o WHERE o.id NOT IN (SELECT i.boss FROM i WHERE i.big = 99)
SELECT id, o.id IN (SELECT i.boss FROM i WHERE i.big = o.g), o.id NOT IN (SELECT x FROM e WHERE y = o.w) FROM o
SELECT id, o.id IN (SELECT boss FROM i), o.g NOT IN (SELECT boss FROM i WHERE boss IS NOT NULL) FROM o
SELECT id FROM o WHERE g = 1 OR o.id IN (SELECT i.boss FROM i WHERE i.big = o.g)
SELECT id FROM o WHERE NOT (g = 1 OR o.id IN (SELECT i.boss FROM i WHERE i.big = o.g))
SELECT id FROM o WHERE (o.id, o.g) IN (SELECT i.boss, i.big FROM i WHERE i.pay > o.id)
SELECT id FROM o WHERE (o.id, o.g) NOT IN (SELECT i.boss, i.big FROM i WHERE i.pay > o.id)
SELECT id, (o.id, o.g) IN (SELECT i.boss, i.big FROM i WHERE i.pay > 30) FROM o
SELECT id FROM o WHERE o.id > ALL (SELECT i.boss FROM i WHERE i.big = o.g)
SELECT id FROM o WHERE NOT o.id > ALL (SELECT i.boss FROM i WHERE i.big = o.g)
SELECT id FROM o WHERE o.id > ANY (SELECT i.boss FROM i WHERE i.big = o.g)
SELECT id, o.id > ALL (SELECT boss FROM i WHERE big = o.g), o.id <= ANY (SELECT boss FROM i WHERE big = o.g) FROM o
SELECT id, o.id > ALL (SELECT boss FROM i WHERE boss < 3), o.id = ALL (SELECT x FROM e) FROM o
SELECT id, o.n IN (SELECT n FROM i WHERE i.boss = o.id) FROM o
SELECT id, ARRAY(SELECT i.pay FROM i WHERE i.boss = o.id AND i.big = 1) FROM o
SELECT id, (SELECT count(*) FROM i WHERE i.boss = o.id), (SELECT count(*) + o.g FROM i WHERE i.boss = o.id) FROM o
SELECT id, (SELECT count(*) FROM i WHERE i.boss < o.id AND i.pay > 200) FROM o
SELECT id, (SELECT sum(i.pay) FROM i WHERE i.boss = o.id HAVING count(*) > 2) FROM o
SELECT id, (SELECT count(i.pay) FROM i WHERE i.boss = o.id HAVING count(*) = 0) FROM o
SELECT id, (SELECT string_agg(name, ',' ORDER BY pay, name) FROM i WHERE i.boss = o.id) FROM o
SELECT id, (SELECT coalesce(sum(pay), -1) FROM i WHERE i.boss = o.id), (SELECT 5 WHERE o.g = 2) FROM o
SELECT id, (SELECT avg(n) FROM i WHERE i.boss = o.id), (SELECT avg(n) FROM i WHERE i.boss > o.id) FROM o
SELECT id, (SELECT n FROM i WHERE i.boss = o.id ORDER BY pay, n DESC LIMIT 1) FROM o
SELECT id, (SELECT i.n FROM i WHERE i.n = o.n ORDER BY boss, i.n LIMIT 1) FROM o
SELECT id, n, (SELECT count(*) FROM i WHERE i.n = o.n), (SELECT count(*) FROM i WHERE i.n >= o.n) FROM o
SELECT id, f, (SELECT count(*) FROM i WHERE i.f = o.f), (SELECT count(*) FROM i WHERE i.f >= o.f) FROM o
SELECT id, (SELECT o.f * 1 FROM i WHERE i.boss < o.id ORDER BY pay, boss LIMIT 1) FROM o
SELECT id, (SELECT o.n FROM i WHERE i.boss < o.id ORDER BY pay, boss LIMIT 1) FROM o
SELECT id, c, (SELECT count(*) FROM i WHERE i.c = o.c), (SELECT count(*) FROM i WHERE i.c >= o.c) FROM o
SELECT id, (SELECT count(*) FROM i WHERE i.d = o.d), (SELECT max(pay) FROM i WHERE i.d < o.d) FROM o
SELECT id, (SELECT i.pay FROM i WHERE i.boss = o.id AND i.big = 2 AND pay > 0) FROM o WHERE id < 4
SELECT (SELECT i.pay FROM i WHERE i.boss = o.id) FROM o
SELECT id, CASE WHEN g > 10 THEN (SELECT i.pay FROM i WHERE i.boss = o.id) END FROM o
SELECT id FROM o WHERE g < (SELECT i.pay FROM i WHERE i.boss = o.id ORDER BY pay DESC NULLS LAST LIMIT 1)
SELECT id FROM o WHERE (SELECT count(*) FROM i WHERE i.boss = o.id) = 0
SELECT g, count(*) FROM o GROUP BY g HAVING (SELECT i.pay FROM i WHERE i.boss = g + 1 ORDER BY i.name, pay LIMIT 1) >= 0
SELECT g, (SELECT i.pay FROM i WHERE i.boss = g + 1 ORDER BY i.name, pay LIMIT 1), count(*) FROM o GROUP BY g
SELECT g, (SELECT count(*) FROM i WHERE i.boss = count(o.id)), sum((SELECT count(*) FROM i WHERE i.boss = o.id)) FROM o GROUP BY g
SELECT g, (SELECT max(i.pay) FROM i WHERE i.boss > sum(o.id)) FROM o GROUP BY g HAVING EXISTS (SELECT FROM i WHERE i.boss = max(o.id))
SELECT (SELECT count(*) FROM i WHERE i.boss = o.id), count(*) FROM o GROUP BY 1
SELECT count(*) FROM o GROUP BY (SELECT max(name) FROM i WHERE i.boss < o.id)
SELECT id FROM o ORDER BY (SELECT max(pay) FROM i WHERE i.boss = o.id) DESC NULLS LAST, id, g
SELECT DISTINCT (SELECT count(*) FROM i WHERE i.boss = o.id) FROM o
SELECT id, CASE WHEN EXISTS (SELECT FROM i WHERE i.boss = o.id) THEN (SELECT max(pay) FROM i WHERE i.boss = o.id) ELSE g END FROM o
SELECT id, row_number() OVER (ORDER BY (SELECT count(*) FROM i WHERE i.boss = o.id), id, g) FROM o
SELECT id, q.* FROM o, LATERAL (SELECT pay, row_number() OVER (ORDER BY pay, name), sum(pay) OVER (PARTITION BY name) FROM i WHERE i.boss = o.id) q
SELECT id, q.* FROM o, LATERAL (SELECT pay, rank() OVER (ORDER BY name), count(*) OVER () FROM i WHERE i.boss < o.id AND pay > 50) q
SELECT id, (SELECT (SELECT j.name FROM i j WHERE j.boss = i.boss ORDER BY j.pay, j.name LIMIT 1) FROM i WHERE i.boss = o.id ORDER BY i.pay DESC, i.name LIMIT 1) FROM o
SELECT id, (SELECT count(*) FROM i WHERE i.boss = o.id AND EXISTS (SELECT FROM i j WHERE j.boss = o.g AND j.pay > i.pay)) FROM o
SELECT id, (SELECT count(*) FROM i WHERE i.pay < (SELECT max(j.pay) FROM i j WHERE j.boss = o.id AND j.name = i.name)) FROM o
SELECT id FROM o WHERE EXISTS (SELECT FROM i WHERE i.boss = o.id AND NOT EXISTS (SELECT FROM i j WHERE j.big = o.g AND j.name = i.name))
SELECT id, (SELECT count(*) FROM (SELECT DISTINCT name FROM i WHERE i.boss = o.id) q) FROM o
SELECT id, (SELECT sum(q.pay) FROM (SELECT pay FROM i WHERE i.boss >= o.id ORDER BY pay, boss LIMIT 3) q) FROM o
SELECT id, (SELECT count(*) FROM i LEFT JOIN (SELECT name FROM i WHERE boss = o.id) q ON q.name = i.name WHERE i.big = o.g) FROM o
SELECT id, (SELECT count(q.name) FROM i LEFT JOIN e ON e.x = i.boss AND e.x = o.id LEFT JOIN (SELECT DISTINCT name FROM i WHERE boss = o.id) q ON q.name = i.name) FROM o
SELECT id, (SELECT count(*) FROM i JOIN i j ON i.boss = j.boss AND j.big = o.g WHERE i.name = o.w) FROM o
SELECT o.id, p.id FROM o LEFT JOIN o p ON p.id = o.id + 1, LATERAL (SELECT count(*) AS c FROM i WHERE i.boss = p.id) q WHERE q.c < 3
SELECT o.id, p.id, q.c FROM o LEFT JOIN o p ON p.id = o.id + 1 LEFT JOIN LATERAL (SELECT max(pay) AS c FROM i WHERE i.boss IS NOT DISTINCT FROM p.id) q ON true
SELECT p.id, (SELECT count(*) FROM i WHERE i.boss IS NOT DISTINCT FROM p.id) FROM e FULL JOIN o p ON e.x = p.id
SELECT p.id, (SELECT max(pay) FROM i WHERE i.boss > p.id) FROM o RIGHT JOIN o p ON o.id = p.id + 1
SELECT o.id, p.id FROM o JOIN o p ON p.id = o.id + 1 AND EXISTS (SELECT FROM i WHERE i.boss = o.id AND i.big = p.g)
SELECT o.id, p.id FROM o, e RIGHT JOIN o p ON e.x = p.id WHERE o.id = 3
SELECT o.id, p.id FROM o, e FULL JOIN o p ON e.x = p.id WHERE o.id = 3
SELECT boss, (SELECT max(o.id) FROM o WHERE o.id > i.boss) FROM i GROUP BY boss HAVING max(pay) > 3 OR count(*) = 2
WITH q AS (SELECT o.id, (SELECT max(pay) FROM i WHERE i.boss = o.id) AS m FROM o) SELECT * FROM q JOIN q r USING (id)
SELECT id, (WITH q AS (SELECT pay FROM i WHERE i.boss = o.id) SELECT count(*) FROM q, q r WHERE q.pay < r.pay) FROM o
SELECT id, (SELECT count(*) FROM (WITH q AS (SELECT pay FROM i WHERE i.boss = o.id) SELECT * FROM q UNION ALL SELECT o.g) z) FROM o
WITH RECURSIVE r (n, m) AS (SELECT 1, 0 UNION ALL SELECT n + 1, (SELECT max(pay) FROM i WHERE i.boss = r.n) FROM r WHERE n < 6) SELECT * FROM r
SELECT id, x.v FROM o, LATERAL (SELECT (SELECT max(pay) FROM i WHERE i.boss = o.id) AS v) x
SELECT id, y.* FROM o, LATERAL (SELECT boss, pay FROM i WHERE i.boss = o.id ORDER BY pay, name LIMIT 2) x, LATERAL (SELECT count(*) FROM i j WHERE j.pay > x.pay) y
SELECT id, (SELECT count(*) FROM i JOIN LATERAL (SELECT i.boss AS b WHERE o.g IS DISTINCT FROM 1) l ON i.boss = l.b WHERE EXISTS (SELECT 1 FROM e RIGHT JOIN o p ON true WHERE p.g >= i.boss) OR l.b IS NULL) FROM o
SELECT id, (SELECT count(*) FROM i JOIN LATERAL (SELECT i.boss AS b WHERE o.g > 0) l ON i.boss = l.b WHERE i.big > o.g OR (SELECT max(p.id) FROM o p WHERE p.g >= i.boss) > 7) FROM o
SELECT id, q.* FROM o, LATERAL (SELECT i.boss FROM i JOIN LATERAL (SELECT 1 AS k FROM e RIGHT JOIN o p ON true WHERE p.g = o.g) l ON i.big = l.k WHERE i.big > o.g OR EXISTS (SELECT FROM o p WHERE p.id >= i.boss)) q
SELECT id, q.* FROM o, LATERAL (SELECT name, pay FROM i WHERE i.boss = o.id ORDER BY pay FETCH FIRST 1 ROW WITH TIES) q
SELECT id, q.* FROM o, LATERAL (SELECT name, grouping(name), sum(pay) FROM i WHERE i.boss = o.id GROUP BY GROUPING SETS ((name), (name, big))) q
SELECT id, (SELECT w FROM (VALUES (1, 'x'), (2, 'y')) v (k, w) WHERE v.k = o.id) FROM o
SELECT id, (SELECT max(v) FROM unnest(o.a) v), (SELECT count(*) FROM unnest(o.a) v WHERE v > o.g) FROM o
SELECT id, o.w = ANY (ARRAY(SELECT name FROM i WHERE boss = o.id)) FROM o
SELECT (SELECT count(*) FROM i WHERE i.boss = v.k) FROM (VALUES (1), (2), (NULL)) v (k)
SELECT (o.id, o.g) = (SELECT boss, big FROM i WHERE i.boss = o.id ORDER BY pay, big LIMIT 1), id FROM o
SELECT id, (o.id, o.g) = (SELECT max(boss), max(big) FROM i WHERE boss < 3), (o.id, o.g) < (SELECT boss, pay FROM i WHERE pay = 7) FROM o
SELECT id FROM o WHERE (SELECT true FROM i WHERE i.boss = o.id LIMIT 1)
SELECT id FROM o WHERE NOT (SELECT bool_or(pay > 50) FROM i WHERE i.boss = o.id)
SELECT id, (SELECT max(i.pay) FILTER (WHERE i.big = o.g) FROM i WHERE i.boss = o.id) FROM o
SELECT id, (SELECT count(DISTINCT i.big + o.g) FROM i WHERE i.boss = o.id) FROM o
SELECT id, (SELECT sum(x) FROM (SELECT count(*) AS x FROM i WHERE i.boss = o.id UNION ALL SELECT o.g) z) FROM o
SELECT id, (SELECT 1 FROM i WHERE o.id = 2 LIMIT 1), (SELECT count(*) FROM i WHERE o.g = 1) FROM o
SELECT id, (SELECT q.x FROM (SELECT i.pay + o.g AS x FROM i WHERE i.boss = o.id) q ORDER BY q.x LIMIT 1) FROM o
SELECT count(*) FROM o WHERE (SELECT sum(1) FROM i, e WHERE i.boss = o.id) IS NULL
SELECT id, ROW(id, (SELECT max(pay) FROM i WHERE i.boss = o.id)) IS NULL FROM o
SELECT o.id, i.boss FROM o LEFT JOIN i ON i.boss = o.id AND EXISTS (SELECT FROM i j WHERE j.boss = o.g AND j.pay > 50)
SELECT o.id, i.boss FROM o LEFT JOIN i ON i.boss = o.id AND EXISTS (SELECT FROM o p WHERE p.id = i.big)
SELECT o.id, i.boss FROM o LEFT JOIN i ON o.id NOT IN (SELECT 0)
SELECT o.id, i.boss FROM o LEFT JOIN i ON i.boss NOT IN (SELECT x FROM e)
SELECT o.id, i.boss FROM o RIGHT JOIN i ON i.boss = o.id AND i.pay <= ANY (SELECT p.id * 10 FROM o p WHERE p.g = i.big)
SELECT o.id, i.boss FROM o FULL JOIN i ON i.boss = o.id AND o.g IN (SELECT big FROM i WHERE pay > 20) AND i.big NOT IN (SELECT g FROM o p WHERE p.id = i.boss)
SELECT o.id, i.boss FROM o LEFT JOIN i ON i.boss = o.id AND i.pay > (SELECT avg(j.pay) FROM i j WHERE j.boss = i.boss)
SELECT o.id, i.boss FROM o LEFT JOIN i ON i.boss = o.id AND o.g < (SELECT j.pay FROM i j WHERE j.boss = o.id ORDER BY pay LIMIT 1)
SELECT o.id, p.id, i.boss FROM o LEFT JOIN (o p JOIN i ON i.boss = p.id AND EXISTS (SELECT FROM i j WHERE j.boss = p.g)) ON o.id = p.id
SELECT 10, x.b FROM o x1 LEFT JOIN (SELECT 'a' AS b, n FROM i) x ON (x1.n <= ANY (VALUES ('2.5'::numeric), ('0.01'::numeric)))
SELECT id, (SELECT count(*) FROM i LEFT JOIN e ON e.x = i.boss AND EXISTS (SELECT FROM i j WHERE j.big = o.g AND j.boss = i.boss) WHERE i.boss < o.id) FROM o
SELECT id, q.* FROM o, LATERAL (SELECT i.name, e.x FROM e RIGHT JOIN i ON e.x = i.boss AND e.x <> o.g WHERE i.boss = o.id) q
SELECT id, (SELECT count(*) FROM i LEFT JOIN e ON e.x = i.boss RIGHT JOIN i j ON j.boss = i.big AND j.pay > o.g) FROM o
SELECT id, q.* FROM o, LATERAL (SELECT i.name, e.x FROM e FULL JOIN i ON e.x = i.boss WHERE i.boss = o.id AND i.pay > o.g) q
SELECT id, q.* FROM o, LATERAL (SELECT name, big, grouping(name, big), count(*), sum(pay) FROM i WHERE i.boss = o.id AND pay > o.g GROUP BY ROLLUP (name, big)) q
SELECT id, q.* FROM o, LATERAL (SELECT grouping(name), count(*), max(pay) FROM i WHERE i.boss > o.id * 5 GROUP BY GROUPING SETS ((name), (), ())) q
SELECT id, (SELECT count(*) FROM i WHERE i.boss > o.id * 5 GROUP BY ()) FROM o
SELECT e.x, o.id, i.boss FROM o, e RIGHT JOIN i ON e.x = i.boss LEFT JOIN o p ON p.id = i.boss WHERE o.id = 1
SELECT id FROM o GROUP BY id HAVING count(*) = (SELECT count(*) FROM i WHERE i.boss = o.id AND i.big = 1)
""".strip().splitlines()


@pytest.fixture(scope="module")
def tables(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    laboratory = Laboratory(
        postgres.dsn, spark_session(interpreted=True), tmp_path_factory.mktemp("correlation"), "correlation"
    )
    laboratory.postgres.execute(TABLES)
    for name in ("o", "i", "e"):
        laboratory.load(name)
    yield laboratory
    laboratory.close()


@pytest.mark.turns
@pytest.mark.parametrize("sql", QUERIES)
def test_answer(tables: Laboratory, sql: str) -> None:
    expected, found = tables.on_postgres(sql), tables.on_spark(sql)
    assert (found.sqlstate, found.message) == (expected.sqlstate, expected.message)
    assert same(expected, found)


REFUSED = {
    "SELECT o.id, i.boss FROM o LEFT JOIN i ON EXISTS (SELECT FROM i j WHERE j.boss = o.g AND j.big = i.big)": "both sides",
    "SELECT p.id, (SELECT max(pay) FROM i WHERE boss > p.id) FROM (SELECT id FROM o LIMIT 3) p": "the rows of a LIMIT",
    "SELECT (SELECT max(pay) FROM i WHERE f > s.x) FROM (SELECT sum(f) AS x FROM o GROUP BY g) s": "computed by sum",
    "SELECT q.* FROM o, LATERAL (SELECT e.x, i.pay FROM e FULL JOIN i ON e.x = i.boss AND i.big = o.g) q": "outside of it",
    "SELECT id, EXISTS (SELECT FROM (SELECT FROM i WHERE i.big <> o.g) q FULL JOIN e ON true) FROM o": "outside of it",
    "SELECT count(*) FROM o CROSS JOIN LATERAL (SELECT random() AS r, o.id) q WHERE q.r <> q.r": "a volatile function",
    "SELECT count(DISTINCT (SELECT gen_random_uuid() WHERE o.g > 0)) FROM o": "a volatile function",
    "SELECT id FROM o WHERE id NOT IN (SELECT boss FROM i WHERE random() < o.g)": "a volatile function",
    "SELECT id, q.x, r.x FROM o, LATERAL (SELECT o.g AS x) q FULL JOIN e r ON q.x = r.x": "outside of it",
    "SELECT id, EXISTS (SELECT FROM e FULL JOIN (SELECT FROM i WHERE i.big <> o.g) q ON true) FROM o": "outside of it",
    "SELECT 1 FROM o l0"
    + "".join(
        f", LATERAL (SELECT boss AS id FROM i WHERE boss < l{n}.id ORDER BY pay, name LIMIT 2) l{n + 1}"
        for n in range(40)
    ): "so large a query",
}


@pytest.mark.turns
@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_join_is_refused(tables: Laboratory, sql: str) -> None:
    with pytest.raises(SluiceError) as caught:
        tables.plan(sql)
    assert caught.value.sqlstate == "0A000"
    assert REFUSED[sql] in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT b.y FROM u AS b WHERE b.x = a.x LIMIT 1) FROM t AS a",
        "SELECT a.x FROM t AS a WHERE EXISTS(SELECT 1 FROM u AS b WHERE b.x = a.x)",
        "SELECT a.x FROM t AS a WHERE a.x IN (SELECT b.y FROM u AS b WHERE b.x = a.x)",
        "SELECT a.x FROM t AS a, LATERAL (SELECT b.y FROM u AS b LIMIT 1) AS c",
        "SELECT d.y FROM (SELECT (SELECT b.y FROM u AS b WHERE b.x = a.x) AS y FROM t AS a) AS d",
    ],
)
def test_none_leaves_the_planner(sql: str) -> None:
    with pytest.raises(SluiceError, match="left to Spark"):
        require_uncorrelated(parse_one(sql, read=DIALECT))


def test_what_is_not_correlated_does() -> None:
    sql = (
        "SELECT a.x FROM t AS a JOIN u AS c ON c.x = a.x WHERE a.x > (SELECT MAX(b.y) FROM u AS b) OR a.x IN (SELECT 1)"
    )
    require_uncorrelated(parse_one(sql, read=DIALECT))
