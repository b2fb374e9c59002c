"""Queries of every shape, over the probes' tables, against PostgreSQL; and shapes that must be refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from catalog.errors import SluiceError
from planner.spark.plan import Parameter
from tests.planner.differential import Laboratory
from tests.planner.test_allow_list import ordered, same

SHAPES = r"""
SELECT '${hello}', '${env:PATH}' || t, E'\\\\${system:java.version}' FROM texts
SELECT 1, 'a', NULL, true, 1.50, -2147483648, 9223372036854775807
SELECT
SELECT * FROM integers ORDER BY id
SELECT id FROM dates WHERE isfinite(d) >= (id > 2) ORDER BY id
SELECT id, isfinite(ts) < (id > 2), isfinite(tz) = isfinite(d), NOT isfinite(d) <= true FROM dates ORDER BY id
SELECT id AS "a b", id AS "a b" FROM integers ORDER BY 1
SELECT i.id, d.n FROM integers i JOIN decimals d ON d.id = i.id ORDER BY 1
SELECT i.id, d.n FROM integers i LEFT JOIN decimals d ON d.id = i.id AND d.n > 1 ORDER BY 1
SELECT i.id, d.id FROM integers i RIGHT JOIN decimals d ON d.id = i.id + 3 ORDER BY 1, 2
SELECT i.id, d.id FROM integers i FULL JOIN decimals d ON d.id = i.id + 3 ORDER BY 1, 2
SELECT * FROM integers FULL JOIN texts USING (id) ORDER BY id
SELECT id, s, t FROM integers NATURAL LEFT JOIN texts ORDER BY id
SELECT x.id, y.id FROM integers x, integers y WHERE x.id < y.id AND y.id < 4 ORDER BY 1, 2
SELECT a.id FROM integers a LEFT JOIN (integers b JOIN texts c ON b.id = c.id AND b.s > 0) ON a.id = b.id ORDER BY 1
SELECT a.id, c.t FROM integers a LEFT JOIN integers b ON a.id = b.id LEFT JOIN texts c ON c.id = b.s ORDER BY 1, 2
SELECT id FROM integers WHERE id IN (SELECT id FROM texts WHERE t IS NULL)
SELECT id FROM integers WHERE s NOT IN (SELECT s FROM integers WHERE s IS NOT NULL AND s > 0) ORDER BY 1
SELECT id FROM integers WHERE s NOT IN (SELECT s FROM integers WHERE id > 4) ORDER BY 1
SELECT id, s IN (SELECT s FROM integers WHERE id > 4) FROM integers ORDER BY 1
SELECT id, s NOT IN (SELECT s FROM integers WHERE id > 4) FROM integers ORDER BY 1
SELECT id FROM integers WHERE (s, i) IN (SELECT s, i FROM integers WHERE id < 3) ORDER BY 1
SELECT id, s > ALL (SELECT s FROM integers WHERE id IN (2, 6)), s = ANY (SELECT 7::int2) FROM integers ORDER BY 1
SELECT id FROM integers WHERE i > ALL (SELECT i FROM integers WHERE id = 6) ORDER BY 1
SELECT id FROM integers WHERE i <= ANY (SELECT i FROM integers WHERE id IN (5, 6)) ORDER BY 1
SELECT id FROM integers i WHERE EXISTS (SELECT 1 FROM texts t WHERE t.id = i.id AND t.t > 'a') ORDER BY 1
SELECT id FROM integers i WHERE NOT EXISTS (SELECT 1 FROM texts t WHERE t.id = i.id AND t.t > 'a') ORDER BY 1
SELECT id, EXISTS (SELECT 1 FROM texts t WHERE t.id = i.id AND t.t > 'a') FROM integers i ORDER BY 1
SELECT id, (SELECT max(n) FROM decimals d WHERE d.id < i.id) FROM integers i ORDER BY 1
SELECT id, (SELECT count(*) FROM decimals d WHERE d.id < i.id) FROM integers i ORDER BY 1
SELECT id, (SELECT avg(n) FROM decimals d WHERE d.id <= i.id) FROM integers i ORDER BY 1
SELECT (SELECT n FROM decimals WHERE id = 99), (SELECT avg(n) FROM decimals)
SELECT (SELECT id FROM integers)
SELECT id FROM integers WHERE s > 5 OR id IN (SELECT id FROM texts WHERE t = '') ORDER BY 1
SELECT id FROM integers WHERE NOT (s > 5 OR id IN (SELECT id FROM texts WHERE t = '')) ORDER BY 1
SELECT id, m FROM moods ORDER BY m, id
SELECT m, o, m < o, m >= o, m = o, m <> o, m IS NOT DISTINCT FROM o FROM moods ORDER BY m DESC NULLS LAST, o, id
SELECT id FROM moods WHERE m > 'ok' AND o IN ('zen', 'angry') ORDER BY id
SELECT id FROM moods WHERE m = ANY (ARRAY['zen', NULL]::mood[]) OR 'angry' <= m ORDER BY id
SELECT m, count(*), min(o), max(m::text), count(DISTINCT o) FROM moods GROUP BY m ORDER BY m NULLS FIRST
SELECT m::text || o, coalesce(m, o), CASE WHEN id > 3 THEN m ELSE 'ok' END, nullif(m, o) FROM moods ORDER BY id
SELECT string_agg(m::text, ',' ORDER BY m, id), max(m), min(m) FILTER (WHERE m > 'ok') FROM moods
SELECT id, rank() OVER (ORDER BY m), lag(m) OVER (ORDER BY id), max(m) OVER (ORDER BY id) FROM moods ORDER BY id
SELECT DISTINCT ON (m) m, o FROM moods ORDER BY m, o DESC
SELECT max(x) FROM (SELECT m AS x FROM moods UNION SELECT o FROM moods UNION SELECT NULL) AS both_
SELECT x.id, y.id FROM moods x JOIN moods y ON x.m = y.o AND x.m < 'angry' ORDER BY 1, 2
SELECT m FROM moods WHERE m = (SELECT max(o) FROM moods) AND m IN (SELECT o FROM moods) ORDER BY 1
SELECT v.x, id FROM (VALUES ('ok'::mood), (NULL), ('zen')) AS v (x) LEFT JOIN moods ON m = x ORDER BY x, id
SELECT w + 1, p * 2, max(w) OVER (), coalesce(p, 0) FROM moods WHERE w > 0 OR p = 3 ORDER BY id
SELECT w, p FROM moods UNION SELECT w, p FROM moods ORDER BY 1, 2
SELECT any_value(w), sum(p), min(w) FROM moods WHERE id = 1
SELECT id::numeric::width, w::text, m::text::varchar(2) FROM moods ORDER BY id
SELECT s, count(*), sum(i), avg(i), min(b), max(b) FROM integers GROUP BY s ORDER BY s
SELECT s % 2, count(*) FROM integers GROUP BY s % 2 HAVING count(*) > 1 ORDER BY 1
SELECT s % 2 + 1, count(*) + 1 FROM integers GROUP BY s % 2 ORDER BY 1
SELECT count(*) FROM integers WHERE false
SELECT sum(i), avg(n) FROM integers JOIN decimals USING (id) WHERE false
SELECT s FROM integers GROUP BY s ORDER BY count(*) DESC, s LIMIT 2
SELECT 1 FROM integers HAVING count(*) > 3
SELECT s, i, count(*), grouping(s, i) FROM integers GROUP BY ROLLUP (s, i) ORDER BY 4, 1, 2
SELECT s, i, count(*) FROM integers GROUP BY CUBE (s, i) ORDER BY 1, 2, 3
SELECT s, i, sum(b % 10) FROM integers GROUP BY GROUPING SETS ((s), (i), ()) ORDER BY 1, 2, 3
SELECT s, count(*) FROM integers WHERE false GROUP BY ROLLUP (s)
SELECT count(*), grouping(s) FROM integers WHERE false GROUP BY GROUPING SETS ((), (), (s))
SELECT s, grouping(s) FROM integers GROUP BY ROLLUP (s) HAVING grouping(s) > 0
SELECT n, count(*) FROM decimals GROUP BY n ORDER BY n
SELECT f, count(*) FROM decimals WHERE id < 8 GROUP BY f ORDER BY f
SELECT d, count(*) FROM floats GROUP BY d ORDER BY d
SELECT c, count(*) FROM texts GROUP BY c ORDER BY c
SELECT DISTINCT s FROM integers ORDER BY s
SELECT DISTINCT s % 3, count(*) OVER (PARTITION BY s % 3) FROM integers ORDER BY 1
SELECT DISTINCT d FROM floats ORDER BY d DESC
SELECT DISTINCT ON (s) s, id FROM integers ORDER BY s NULLS FIRST, id DESC
SELECT DISTINCT ON (s % 2) id, s FROM integers ORDER BY s % 2, id LIMIT 2
SELECT id FROM integers ORDER BY s DESC NULLS LAST, id LIMIT 3 OFFSET 2
SELECT id FROM integers ORDER BY s FETCH FIRST 3 ROWS WITH TIES
SELECT id, s FROM integers ORDER BY s OFFSET 1 FETCH FIRST 2 ROWS WITH TIES
SELECT id FROM integers ORDER BY -id
SELECT id FROM texts ORDER BY t, id
SELECT id FROM texts ORDER BY c DESC, id
SELECT id FROM decimals ORDER BY f, id
SELECT id FROM intervals ORDER BY v, id
SELECT s FROM integers UNION SELECT i FROM integers ORDER BY 1
SELECT s FROM integers UNION ALL SELECT n FROM decimals
SELECT n FROM decimals UNION ALL SELECT m FROM decimals ORDER BY 1
SELECT s FROM integers INTERSECT SELECT 7 UNION SELECT NULL ORDER BY 1
SELECT s FROM integers EXCEPT ALL SELECT 7::int2 ORDER BY 1
SELECT s FROM integers INTERSECT ALL (VALUES (7), (7), (7)) ORDER BY 1
SELECT 1 FROM integers INTERSECT ALL SELECT s FROM integers
SELECT x, count(*) FROM (SELECT 1 AS x, s FROM integers EXCEPT ALL SELECT 1, s FROM integers WHERE id < 3) q GROUP BY x
SELECT s, NULL::int FROM integers INTERSECT ALL SELECT s, i FROM integers WHERE i IS NULL ORDER BY 1
SELECT s FROM integers EXCEPT ALL (SELECT s FROM integers INTERSECT ALL SELECT s FROM integers WHERE id > 2) ORDER BY 1
(SELECT id FROM integers ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM integers ORDER BY id DESC LIMIT 2) ORDER BY 1
SELECT t FROM texts UNION SELECT c FROM texts ORDER BY 1
SELECT NULL UNION ALL SELECT 'x' UNION ALL SELECT t FROM texts WHERE id = 1
VALUES (1, 'a'), (2, 'b'), (NULL, 'c')
SELECT * FROM (VALUES (1, 1.5), (2, 2), (3, NULL)) v (a, b) ORDER BY a
SELECT sum(b) FROM (VALUES (1, 1.5), (2, 2), (3, NULL)) v (a, b)
WITH w AS (SELECT s, count(*) AS c FROM integers GROUP BY s) SELECT * FROM w JOIN w v USING (s) ORDER BY 1
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
WITH RECURSIVE r (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT sum(n), count(*) FROM r
WITH RECURSIVE r (n, t) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, t || 'b' FROM r WHERE n < 4) SELECT * FROM r ORDER BY 1
SELECT id, (WITH w AS (SELECT max(s) AS m FROM integers) SELECT m FROM w) FROM integers ORDER BY 1
SELECT id, row_number() OVER (ORDER BY id DESC), sum(s) OVER (ORDER BY id ROWS 2 PRECEDING) FROM integers ORDER BY 1
SELECT id, avg(n) OVER (PARTITION BY id % 2 ORDER BY id) FROM decimals ORDER BY 1
SELECT id, sum(n) OVER w, count(*) OVER w FROM decimals WINDOW w AS (ORDER BY n RANGE UNBOUNDED PRECEDING) ORDER BY 1
SELECT s, sum(count(*)) OVER (ORDER BY s) FROM integers GROUP BY s ORDER BY 1
SELECT id, rank() OVER (ORDER BY s DESC NULLS LAST) FROM integers ORDER BY 2, 1
SELECT id, lag(n, 1, 0) OVER (ORDER BY id), lead(n) OVER (ORDER BY id) FROM decimals ORDER BY 1
SELECT id, first_value(s) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM integers ORDER BY 1
SELECT id, sum(s) FILTER (WHERE id > 2) OVER (ORDER BY id) FROM integers ORDER BY 1
SELECT id, sum(b) FILTER (WHERE s IS DISTINCT FROM s) OVER (ORDER BY id), count(*) FILTER (WHERE id < id) OVER () FROM integers
SELECT id, count(*) FILTER (WHERE s > 0) OVER (ORDER BY id), avg(n) FILTER (WHERE id > 2) OVER (), bool_or(n > 1) FILTER (WHERE id < 5) OVER () FROM integers JOIN decimals USING (id)
SELECT * FROM (SELECT id, rank() OVER (ORDER BY s) AS r FROM integers) x WHERE r < 3 ORDER BY 1
SELECT id, CASE WHEN s > 0 THEN n ELSE 0 END, CASE s WHEN 7 THEN 'seven' WHEN NULL THEN 'null' ELSE 'other' END FROM integers JOIN decimals USING (id) ORDER BY 1
SELECT id, CASE WHEN id > 4 THEN n WHEN id > 2 THEN m END FROM decimals ORDER BY 1
SELECT id, coalesce(s, -1), coalesce(n, 0), nullif(s, 7), nullif(n, 1.5), greatest(s, 1), least(n, m) FROM integers JOIN decimals USING (id) ORDER BY 1
SELECT id, CASE WHEN id > 2 THEN greatest(n, m) END, coalesce(CASE WHEN id < 4 THEN least(n, 3, m) END, 1.00) FROM decimals ORDER BY 1
SELECT id, s IS NULL, s IS NOT NULL, x IS TRUE, x IS NOT FALSE, y IS UNKNOWN, x AND y, x OR y, NOT x FROM integers JOIN booleans USING (id) ORDER BY 1
SELECT id, s IS DISTINCT FROM 7, n IS NOT DISTINCT FROM NULL FROM integers JOIN decimals USING (id) ORDER BY 1
SELECT id, s IN (7, 3, NULL), s NOT IN (7, 3), s = ANY (ARRAY[7, 0]), i <> ALL (ARRAY[7, 0]) FROM integers ORDER BY 1
SELECT id, t IN ('abc', ''), c IN ('abc', 'ab'), v = ANY ('{abc,b}') FROM texts ORDER BY 1
SELECT id, (s, i) < (7, 7), (s, i) = (7, 7), (s, NULL) = (7, 1) FROM integers ORDER BY 1
SELECT id, s BETWEEN 0 AND 10, n BETWEEN SYMMETRIC 2 AND -8 FROM integers JOIN decimals USING (id) ORDER BY 1
SELECT g FROM generate_series(1, 3) g ORDER BY 1
SELECT g FROM generate_series(5, 1) g
SELECT g FROM generate_series(5, 1, -2) g ORDER BY 1
SELECT i.id, g FROM integers i, generate_series(1, i.id) g WHERE i.id < 4 ORDER BY 1, 2
SELECT i.id, l.n FROM integers i, LATERAL (SELECT n FROM decimals d WHERE d.id = i.id) l ORDER BY 1
SELECT i.id, l.c FROM integers i LEFT JOIN LATERAL (SELECT count(*) AS c FROM decimals d WHERE d.id < i.id) l ON true ORDER BY 1
SELECT id, u FROM lists, unnest(a) u ORDER BY 1, 2
SELECT id, unnest(t) FROM lists
SELECT id, a[1], a[2], a[0], t[1] FROM lists ORDER BY 1
SELECT ARRAY[1, 2, NULL], ARRAY['a', 'b'], ARRAY(SELECT s FROM integers WHERE id = 1)
SELECT id, d FROM dates WHERE d < 'infinity' AND d > '-infinity' ORDER BY 1
SELECT id FROM dates WHERE tz = 'infinity' OR ts = '-infinity' ORDER BY 1
SELECT id FROM floats WHERE d = 'NaN'
SELECT id FROM floats WHERE d > 1e300 ORDER BY 1
SELECT id FROM floats WHERE d <> 1.5 ORDER BY 1
SELECT id FROM floats WHERE d = 0 ORDER BY 1
SELECT id FROM texts WHERE t LIKE '%b%' AND t NOT LIKE 'A%' ORDER BY 1
SELECT id FROM texts WHERE t ~ '^[a-z]+$' ORDER BY 1
SELECT current_date, current_user, 1 WHERE current_timestamp > '2020-01-01'
SELECT count(*) FROM integers, texts, decimals
SELECT sum(n) / count(*), sum(n) * 1.10, round(sum(n) / 3, 2), -avg(n) FROM decimals
SELECT avg(a) FROM (SELECT avg(n) AS a FROM decimals GROUP BY id % 3) x
SELECT a, a * 2, a > 1 FROM (SELECT avg(n) AS a FROM decimals GROUP BY id % 3) x ORDER BY a
SELECT id FROM decimals WHERE n > (SELECT avg(n) FROM decimals) ORDER BY 1
SELECT id FROM decimals WHERE f > 1.5 AND f < 100 ORDER BY 1
SELECT id, f, f + 1, f * 2, f::text FROM decimals WHERE f < 1e15 ORDER BY 1
SELECT max(f), min(f), sum(f) FROM decimals WHERE id < 4
SELECT id, n::text || 'x', m::text, (n / 3)::text FROM decimals ORDER BY 1
SELECT id, '12'::text::int + id, t::bool FROM (SELECT 1 AS id, 'yes'::text AS t) x
SELECT 'abc'::text::int
SELECT 1 / 0 FROM integers
SELECT s / 0 FROM integers
SELECT id FROM integers WHERE i + 1 > 0 AND id = 3
SELECT id, count(*) OVER () FROM integers ORDER BY id LIMIT 2
SELECT string_agg(t, ',' ORDER BY id) FILTER (WHERE id < 4), array_agg(id ORDER BY id DESC) FROM texts
SELECT id % 2, array_agg(DISTINCT s), count(DISTINCT s) FROM integers GROUP BY 1 ORDER BY 1
SELECT bool_and(x) OVER (ORDER BY id), id FROM booleans ORDER BY id
SELECT i.id, x IS NULL, x IS NOT NULL FROM integers i LEFT JOIN texts x ON x.id = i.id + 3 ORDER BY 1
SELECT i.id FROM integers i LEFT JOIN texts x ON x.id = i.id + 3 WHERE x IS NULL ORDER BY 1
SELECT id, ROW(s, i) IS NULL, ROW(s, 1) IS NOT NULL, (t, v) IS NULL FROM integers JOIN texts USING (id) ORDER BY 1
SELECT count(DISTINCT (s, i)), count(DISTINCT ROW(s, i % 2, NULL)), count((s, i)) FROM integers
SELECT count(DISTINCT (d, 1)), count(DISTINCT (n, c)) FROM floats JOIN decimals USING (id) JOIN texts USING (id)
SELECT x IS NULL FROM (SELECT s, i FROM integers) x
SELECT id % 2, x IS NOT NULL, count(*) FROM (SELECT id, s FROM integers) x GROUP BY 1, 2 ORDER BY 1, 2
WITH w AS (SELECT s, i FROM integers) SELECT w IS NULL, v IS NULL FROM w, (VALUES (1, NULL)) v
SELECT DISTINCT s IS NULL FROM integers GROUP BY s, i
SELECT DISTINCT s IS NULL AND i IS NULL FROM integers GROUP BY s, i
SELECT DISTINCT (s,i) IS NULL FROM integers GROUP BY s, i
SELECT DISTINCT (s,i) IS NULL FROM integers
SELECT (s,i) IS NULL FROM integers GROUP BY s, i
SELECT DISTINCT s > 1 AND i > 0 FROM integers
SELECT DISTINCT id FROM integers GROUP BY id, s
SELECT DISTINCT count(*) FROM integers GROUP BY s ORDER BY 1
SELECT DISTINCT count(*) > 0 AS c FROM integers GROUP BY s ORDER BY c FETCH FIRST 1 ROW WITH TIES
SELECT DISTINCT count(*) OVER (PARTITION BY s) FROM integers ORDER BY 1 LIMIT 1
SELECT DISTINCT ON (count(*)) count(*) FROM integers GROUP BY s ORDER BY 1
SELECT DISTINCT sum(n) > 0 FROM decimals GROUP BY id
SELECT DISTINCT f > 0, count(*) FROM decimals WHERE id < 8 GROUP BY f, id
SELECT g::date FROM generate_series('2024-01-01'::timestamp, '2024-01-05', '1 day') g ORDER BY 1
SELECT g FROM generate_series(date '2024-01-01', date '2024-03-05', '1 month') g ORDER BY 1
SELECT g FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-02', '6 hours 30 min') g
SELECT g FROM generate_series(timestamp '2024-01-05', timestamp '2024-01-02 03:00', '-1 day') g
SELECT g FROM generate_series(timestamp '2024-01-05', timestamp '2024-01-02 03:00', '-1 day -00:00:00.5') g
SELECT g FROM generate_series(timestamp '2024-01-05', timestamp '2024-01-02 03:00', '1 day') g
SELECT id, g FROM dates, generate_series(ts, ts + interval '2 year', '1 year') g WHERE isfinite(ts) AND id NOT IN (1, 2,8)
SELECT g FROM generate_series(timestamp '2024-01-05', timestamp '2024-01-02 03:00', '0') g
SELECT g FROM generate_series(NULL::timestamp, timestamp '2024-01-02 03:00', '1 day') g
SELECT * FROM unnest(ARRAY['a','b',NULL]) WITH ORDINALITY AS x(v, n) ORDER BY n
SELECT id, v, n FROM lists, unnest(a) WITH ORDINALITY AS x(v, n) ORDER BY 1, 3
SELECT * FROM generate_series(5, 1, -2) WITH ORDINALITY
SELECT g.d::date, count(i.id) FROM generate_series('2024-02-27'::date, '2024-03-02', '1 day') g(d) LEFT JOIN dates i ON i.d = g.d GROUP BY 1 ORDER BY 1
SELECT generate_series(timestamp '2024-01-01', timestamp '2024-01-03', '1 day')
""".strip().splitlines()


@pytest.fixture(scope="module", autouse=True)
def _interpreted(probes: Laboratory) -> Iterator[None]:
    with probes.interpreted():
        yield


@pytest.mark.turns
@pytest.mark.parametrize("sql", SHAPES)
def test_shape(probes: Laboratory, sql: str) -> None:
    expected, found = probes.on_postgres(sql), probes.on_spark(sql)
    if "current_date" in sql:
        assert found.sqlstate is None
        return
    assert (found.sqlstate, found.message) == (expected.sqlstate, expected.message)
    assert same(expected, found)
    if "ORDER BY" in sql.rsplit(")", 1)[-1]:
        assert found.rows == expected.rows


@pytest.mark.parametrize("operation", ["INTERSECT", "EXCEPT"])
def test_spark_keeps_no_duplicates_in_set_operations(probes: Laboratory, operation: str) -> None:
    """Its optimizer fails over constant columns there (ClassCastException)."""
    plan = probes.plan(f"SELECT 1, s FROM integers {operation} ALL SELECT s, s FROM integers")
    assert operation in plan.sql
    assert f"{operation} ALL" not in plan.sql


REFUSED = {
    "SELECT generate_series(timestamp '2024-01-05', '2024-03-01', '1 mon 1 day')": "months together with days",
    "SELECT percentile_cont(ARRAY[0.5::float8]) WITHIN GROUP (ORDER BY d) FROM floats": "percentile_cont",
    "SELECT rank(3) WITHIN GROUP (ORDER BY s) FROM integers": "rank",
    "SELECT id, count(*) OVER (), generate_series(1, 2) FROM integers": "set-returning functions in this SELECT list",
    "SELECT to_char(d, 'YYYY-MM-DDTH') FROM dates": "the template",
    "SELECT integers FROM integers": "whole-row",
    "SELECT ROW(id, s) FROM integers": "type with OID 2249",
    "SELECT j -> 'a' = j -> 'b' FROM documents": "jsonb_eq",
    "SELECT j @> j FROM documents": "jsonb_contains",
    "SELECT xmin FROM integers": 'system column "xmin"',
    "SELECT id FROM integers WHERE cmax IS NULL": 'system column "cmax"',
    "SELECT random() * 2 FROM integers": "of a volatile one",
    "SELECT c FROM texts UNION SELECT 'a'::char(7) FROM texts": "UNION of values that are displayed in several ways",
    "SELECT c FROM texts EXCEPT SELECT 'a'::char(7)": "EXCEPT of values that are displayed in several ways",
    "SELECT power(n, 2) FROM decimals": "power(numeric,numeric)",
    "SELECT stddev(d) FROM floats": "stddev(float8)",
    "SELECT sum(r) FROM floats": "sum(float4)",
    "SELECT id FROM integers TABLESAMPLE SYSTEM (10)": "TABLESAMPLE",
    "SELECT id FROM integers LIMIT (SELECT 1)": "LIMIT",
    "SELECT UNION SELECT": "without columns",
    "SELECT id FROM integers FOR UPDATE": "FOR UPDATE",
    "SELECT sum(s) OVER (ORDER BY id GROUPS 1 PRECEDING) FROM integers": "GROUPS",
    "SELECT sum(s) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE TIES) FROM integers": "EXCLUDE",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r": "UNION",
    "SELECT t ~ '(a)\\1' FROM texts": "regular expression",
    "SELECT t ~ '(?=a)b' FROM texts": "regular expression",
    "SELECT t ~ t FROM texts": "a pattern that is not constant",
    "SELECT substring(t from 'a|ab') FROM texts": "regular expression",
    "SELECT regexp_replace(t, 'b*', '-', 'g') FROM texts": "matches the empty text",
    """SELECT upper(t COLLATE "C") FROM texts""": "collation",
    "SELECT oid FROM pg_class": "outside the lake",
    "SELECT extract(julian from d) FROM dates": "julian",
    "SELECT (SELECT count(*) FROM texts GROUP BY ROLLUP (i.s) LIMIT 1) FROM integers i": "a column of an outer query",
}


@pytest.mark.parametrize("sql", sorted(REFUSED))
def test_refused_by_name(probes: Laboratory, sql: str) -> None:
    assert probes.on_postgres(sql).sqlstate is None
    with pytest.raises(SluiceError) as caught:
        probes.plan(sql)
    assert caught.value.sqlstate == "0A000"
    assert REFUSED[sql] in caught.value.message


PARAMETERS: list[tuple[str, tuple[tuple[int, str | None], ...], str]] = [
    ("SELECT id FROM integers WHERE i = $1::int ORDER BY 1", ((23, "7"),), "SELECT id FROM integers WHERE i = 7 ORDER BY 1"),
    ("SELECT $1::text || t FROM texts", ((25, "it's \\ \n"),), "SELECT E'it''s \\\\ \\n' || t FROM texts"),
    ("SELECT $1::numeric + n FROM decimals", ((1700, "1.500"),), "SELECT 1.500 + n FROM decimals"),
    ("SELECT id FROM integers WHERE $1::int IS NULL ORDER BY 1", ((23, None),), "SELECT id FROM integers ORDER BY 1"),
    ("SELECT id FROM dates WHERE d > $1::date + $2::interval ORDER BY 1", ((1082, "2000-01-31"), (1186, "1 mon")),
     "SELECT id FROM dates WHERE d > date '2000-01-31' + interval '1 mon' ORDER BY 1"),
    ("SELECT id FROM integers ORDER BY id LIMIT $1", ((20, "2"),), "SELECT id FROM integers ORDER BY id LIMIT 2"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "values", "plain"), PARAMETERS)
def test_parameters(probes: Laboratory, sql: str, values: tuple[tuple[int, str | None], ...], plain: str) -> None:
    found = probes.on_spark(sql, [Parameter(oid, text) for oid, text in values])
    expected = probes.on_postgres(plain)
    assert found.sqlstate is None, found.message
    assert ordered(found.rows) == ordered(expected.rows)
