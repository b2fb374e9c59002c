"""Queries whose answer must not depend on the order in which blocks arrive, over tables with ties.

PostgreSQL's answer to each is total: a subquery that is not total is the same for all its readers.
"""

from __future__ import annotations

from typing import Final

TABLES: Final = """
CREATE TABLE ties (id int4, k int4, t text, f float8, n numeric(8,2));
INSERT INTO ties SELECT i, i % 4, chr(97 + i % 5), i / 7.0, i % 3 * 0.25 FROM generate_series(1, 20) i;
INSERT INTO ties SELECT i, i % 4, chr(97 + i % 5), i / 7.0, i % 3 * 0.25 FROM generate_series(21, 40) i;
INSERT INTO ties VALUES (41, NULL, NULL, NULL, NULL), (42, NULL, 'a', NULL, 0.5), (43, 1, NULL, 0.1, 0.50);
CREATE TABLE groups (k int4, name text);
INSERT INTO groups VALUES (0, 'zero'), (1, 'one');
INSERT INTO groups VALUES (2, 'two'), (3, 'three'), (NULL, 'none');
"""

# One row: how many rows two readers of a WITH query have in common.
_COMMON: Final = "WITH w AS ({}) SELECT count(*) FROM w x JOIN w y ON ({})"
READ_TWICE: Final = {
    "LIMIT": _COMMON.format("SELECT id, t FROM ties LIMIT 7", "x.id = y.id"),
    "OFFSET": _COMMON.format("SELECT id, t FROM ties OFFSET 30", "x.id = y.id"),
    "LIMIT over ties": _COMMON.format("SELECT id, t FROM ties ORDER BY k LIMIT 7", "x.id = y.id"),
    "OFFSET over ties": _COMMON.format("SELECT id, t FROM ties ORDER BY k OFFSET 30", "x.id = y.id"),
    "LIMIT and hidden ties": _COMMON.format("SELECT t, f, id FROM ties ORDER BY n + k LIMIT 9", "x.id = y.id"),
    "DISTINCT ON": _COMMON.format("SELECT DISTINCT ON (k) k, id FROM ties ORDER BY k", "x.id = y.id"),
    "DISTINCT ON with ties": _COMMON.format("SELECT DISTINCT ON (k) k, id FROM ties ORDER BY k, t", "x.id = y.id"),
    "row_number": _COMMON.format(
        "SELECT id, row_number() OVER (ORDER BY k) AS n FROM ties", "x.id = y.id AND x.n = y.n"
    ),
    "row_number without order": _COMMON.format(
        "SELECT id, row_number() OVER () AS n FROM ties", "x.id = y.id AND x.n = y.n"
    ),
    "lag": _COMMON.format(
        "SELECT id, lag(id, 1, 0) OVER (PARTITION BY t ORDER BY k) AS n FROM ties", "x.id = y.id AND x.n = y.n"
    ),
    "running sum": _COMMON.format(
        "SELECT id, sum(id) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) AS n FROM ties", "x.id = y.id AND x.n = y.n"
    ),
    "first_value": _COMMON.format(
        "SELECT id, first_value(id) OVER (PARTITION BY t ORDER BY k) AS n FROM ties", "x.id = y.id AND x.n = y.n"
    ),
    "array_agg": _COMMON.format("SELECT k, array_agg(id) AS a FROM ties GROUP BY k", "x.a = y.a"),
    "array_agg over ties": _COMMON.format("SELECT t, array_agg(id ORDER BY k) AS a FROM ties GROUP BY t", "x.a = y.a"),
    "string_agg": _COMMON.format("SELECT k, string_agg(id::text, ',') AS a FROM ties GROUP BY k", "x.a = y.a"),
    "any_value": _COMMON.format("SELECT k, any_value(id) AS a FROM ties GROUP BY k", "x.a = y.a"),
    "nth_value": _COMMON.format(
        "SELECT id, nth_value(id, 2) OVER (PARTITION BY t ORDER BY k ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS n "
        "FROM ties", "x.id = y.id AND x.n IS NOT DISTINCT FROM y.n"
    ),
    "ntile": _COMMON.format("SELECT id, ntile(5) OVER (ORDER BY k) AS n FROM ties", "x.id = y.id AND x.n = y.n"),
    "lead of a row behind": _COMMON.format(
        "SELECT id, lead(id, -1, 0) OVER (ORDER BY t) AS n FROM ties", "x.id = y.id AND x.n = y.n"
    ),
    "LIMIT in LATERAL": _COMMON.format(
        "SELECT g.k, l.id FROM groups g CROSS JOIN LATERAL (SELECT id FROM ties t WHERE t.k = g.k LIMIT 2) l",
        "x.id = y.id"
    ),
    "LIMIT in a scalar subquery": _COMMON.format(
        "SELECT g.k, (SELECT id FROM ties t WHERE t.k >= g.k ORDER BY t.k LIMIT 1) AS id FROM groups g", "x.id = y.id"
    ),
    "ARRAY of a subquery": _COMMON.format(
        "SELECT g.k, ARRAY(SELECT id FROM ties t WHERE t.k = g.k) AS a FROM groups g", "x.a = y.a AND x.k = y.k"
    ),
    "jsonb_agg": _COMMON.format("SELECT k, jsonb_agg(id) AS a FROM ties GROUP BY k", "x.a = y.a"),
    "TABLESAMPLE": _COMMON.format("SELECT id FROM ties TABLESAMPLE BERNOULLI (100)", "x.id = y.id"),
    "sum of floats": "WITH w AS (SELECT t, sum(f) AS s FROM ties GROUP BY t) "
                     "SELECT count(*) FROM w WHERE s = (SELECT max(s) FROM w)",
    "by another": "WITH v AS (SELECT id, k FROM ties LIMIT 9), w AS (SELECT * FROM v WHERE id > 0) "
                  "SELECT count(*) FROM w x JOIN w y ON x.id = y.id",
    "another twice": "WITH v AS (SELECT id, k FROM ties LIMIT 9), w AS (SELECT id FROM v), z AS (SELECT id FROM v) "
                     "SELECT count(*) FROM w JOIN z ON w.id = z.id",
    "other columns": "WITH w AS (SELECT id, t, k FROM ties LIMIT 9) "
                     "SELECT count(*) FROM (SELECT id FROM w WHERE k IS NOT NULL OR true) x JOIN "
                     "(SELECT id, t FROM w) y ON x.id = y.id",
    "in a sublink": "WITH w AS (SELECT id FROM ties LIMIT 9) SELECT count(*) FROM w WHERE id IN (SELECT id FROM w)",
    "in EXCEPT": "WITH w AS (SELECT id FROM ties LIMIT 9) SELECT count(*) FROM (TABLE w EXCEPT TABLE w) q",
    "in UNION": "WITH w AS (SELECT id FROM ties LIMIT 9) SELECT count(*) FROM (TABLE w UNION TABLE w) q",
    "in a nested WITH": "SELECT * FROM (WITH w AS (SELECT id FROM ties LIMIT 9) "
                        "SELECT count(*) FROM w x JOIN w y USING (id)) q",
    "in a scalar subquery": "SELECT name, (WITH w AS (SELECT id FROM ties LIMIT 9) "
                            "SELECT count(*) FROM w x JOIN w y USING (id)) FROM groups",
    "in a subquery that depends on rows": "WITH w AS (SELECT id, k FROM ties LIMIT 9) SELECT count(*) FROM w x "
                                          "WHERE EXISTS (SELECT FROM w y WHERE y.id = x.id AND y.k >= x.k - 1) "
                                          "OR x.k IS NULL",
    "window in another": "WITH v AS (SELECT id, row_number() OVER (ORDER BY k) AS n FROM ties), "
                         "w AS (SELECT id, n FROM v WHERE n < 20) "
                         "SELECT count(*) FROM w x JOIN w y ON x.id = y.id AND x.n = y.n",
    "window in the one before another": "WITH v AS (SELECT id, row_number() OVER (ORDER BY k) AS n FROM ties), "
                                        "u AS (SELECT * FROM v), w AS (SELECT id, n FROM u WHERE n < 20) "
                                        "SELECT count(*) FROM w x JOIN w y ON x.id = y.id AND x.n = y.n",
    "window in two that read another": "WITH v AS (SELECT id, row_number() OVER (ORDER BY k) AS n FROM ties), "
                                       "w AS (SELECT id, n FROM v WHERE n < 20), z AS (SELECT id, n FROM v) "
                                       "SELECT count(*) FROM w JOIN z ON w.id = z.id AND w.n = z.n",
}  # fmt: skip

TOTAL: Final = {
    "aligned lists": "SELECT k, a = b FROM (SELECT k, array_agg(id) AS a, array_agg(id + 0) AS b "
                     "FROM ties GROUP BY k) q",
    "aligned lists beside DISTINCT": "SELECT k, a = b, d FROM (SELECT k, array_agg(id) AS a, array_agg(id + 0) AS b, "
                                     "count(DISTINCT t) AS d FROM ties GROUP BY k) q",
    "aligned sorted lists": "SELECT t, a = b FROM (SELECT t, array_agg(id ORDER BY k) AS a, "
                            "array_agg(id + 0 ORDER BY k) AS b FROM ties GROUP BY t) q",
    "ordered list": "SELECT k, array_agg(t ORDER BY t, id), string_agg(t, '-' ORDER BY id DESC) FROM ties GROUP BY k",
    "ordered list, NULLs": "SELECT array_agg(t ORDER BY t NULLS FIRST, id), array_agg(k ORDER BY k DESC NULLS LAST) "
                           "FROM ties",
    "DISTINCT lists": "SELECT k, array_agg(DISTINCT t), string_agg(DISTINCT t, ',' ORDER BY t DESC) "
                      "FROM ties GROUP BY k",
    "lists with FILTER": "SELECT k, array_agg(id ORDER BY id) FILTER (WHERE t > 'b') FROM ties GROUP BY k",
    "list of a sorted subquery": "SELECT array_agg(id), string_agg(id::text, ',') "
                                 "FROM (SELECT id FROM ties ORDER BY id DESC) q",
    "lists of groups of a sorted subquery": "SELECT k, array_agg(id) FROM (SELECT * FROM ties ORDER BY k, id DESC) q "
                                            "GROUP BY k",
    "list of a sorted, cut subquery": "SELECT array_agg(id) FROM (SELECT id FROM ties ORDER BY id DESC LIMIT 5) q",
    "list of a sorted WITH query": "WITH w AS (SELECT id, k FROM ties ORDER BY id DESC) SELECT array_agg(id) FROM w",
    "first of each": "SELECT DISTINCT ON (k) k, id FROM ties ORDER BY k, id DESC",
    "scalar subquery": "SELECT name, (SELECT id FROM ties t WHERE t.k = g.k ORDER BY id DESC LIMIT 1) FROM groups g",
    "ties": "SELECT k FROM ties ORDER BY k FETCH FIRST 3 ROWS WITH TIES",
    "ties behind OFFSET": "SELECT k FROM ties ORDER BY k OFFSET 2 FETCH FIRST 3 ROWS WITH TIES",
    "numbers of ties": "SELECT k, row_number() OVER (ORDER BY k), rank() OVER (ORDER BY k) FROM ties",
    "one order for two windows": "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY k) AS p, "
                                 "row_number() OVER (ORDER BY k) AS n FROM ties) q JOIN (SELECT 1) z ON true",
    "first and last": "SELECT id, first_value(id) OVER w, last_value(id) OVER w FROM ties "
                      "WINDOW w AS (PARTITION BY k ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "what comes first has none before": "SELECT count(*) FROM (SELECT row_number() OVER w AS n, lag(id) OVER w AS p, "
                                        "first_value(id) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) AS f, id "
                                        "FROM ties WINDOW w AS (ORDER BY k)) q "
                                        "WHERE (n = 1) = (p IS NULL) AND (n = 1) = (f = id)",
    "DISTINCT ON gives one row's columns": "SELECT count(*) FROM (SELECT DISTINCT ON (k) k, id, t, f FROM ties) q "
                                           "JOIN ties USING (id) WHERE q.t IS NOT DISTINCT FROM ties.t "
                                           "AND q.f IS NOT DISTINCT FROM ties.f AND q.k IS NOT DISTINCT FROM ties.k",
    "a cut row's columns": "SELECT count(*) FROM groups g CROSS JOIN LATERAL (SELECT id, t, f FROM ties t "
                           "WHERE t.k = g.k ORDER BY t.k LIMIT 1) q JOIN ties USING (id, t, f)",
    "mode of ties": "SELECT t, mode() WITHIN GROUP (ORDER BY id), mode() WITHIN GROUP (ORDER BY n) "
                    "FROM ties GROUP BY t",
    "extremes among ties": "SELECT t, min(id), max(id), min(f), max(n), bool_or(id > 20) FROM ties GROUP BY t",
    "list in a window": "SELECT id, array_agg(id) OVER (PARTITION BY k ORDER BY id), "
                        "string_agg(t, '' ) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING) FROM ties",
    "a list for peers": "SELECT id, cardinality(array_agg(id) OVER (ORDER BY k)) FROM ties",
    "elements of a list": "SELECT k, e, n FROM groups g CROSS JOIN LATERAL unnest(ARRAY[g.k, 9, 8]) "
                          "WITH ORDINALITY AS u (e, n)",
    "recursion over ties": "WITH RECURSIVE r (n, id) AS (SELECT 1, (SELECT min(id) FROM ties) UNION ALL "
                           "SELECT n + 1, (SELECT id FROM ties t WHERE t.k = n % 4 ORDER BY t.t, t.id LIMIT 1) "
                           "FROM r WHERE n < 6) SELECT * FROM r",
    "peers": "SELECT id, last_value(k) OVER (ORDER BY k), count(*) OVER (ORDER BY k), ntile(3) OVER (ORDER BY id) "
             "FROM ties",
    "top rows in order": "SELECT id, t FROM ties ORDER BY t, id LIMIT 6 OFFSET 3",
    "order through a join": "SELECT name, id FROM ties JOIN groups ON ties.k = groups.k ORDER BY name, id LIMIT 9",
    "values": "VALUES (3), (1), (2)",
    "series": "SELECT * FROM generate_series(1, 30)",
    "elements": "SELECT * FROM unnest(ARRAY[3, 1, 2]) WITH ORDINALITY",
    "any of equal values": "SELECT k, any_value(k) FROM ties GROUP BY k",
    "percentiles": "SELECT k, percentile_disc(0.5) WITHIN GROUP (ORDER BY id), mode() WITHIN GROUP (ORDER BY k) "
                   "FROM ties GROUP BY k",
}  # fmt: skip
