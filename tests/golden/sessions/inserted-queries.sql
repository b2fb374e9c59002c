-- INSERT of queries of which nobody can tell beforehand how much they give: recursion, and joins of joins.
CREATE SCHEMA inserted_queries;
SET search_path = inserted_queries;
CREATE TABLE t (n integer, w integer);
INSERT INTO t VALUES (1, 1), (2, 4);
WITH RECURSIVE s (n) AS (SELECT n FROM t UNION ALL SELECT n + 1 FROM s WHERE n < 5) INSERT INTO t SELECT n, n * n FROM s;
SELECT n, w, count(*) FROM t GROUP BY n, w ORDER BY n;
WITH RECURSIVE s (n) AS (SELECT 6 UNION ALL SELECT n + 1 FROM s WHERE n < 9) INSERT INTO t SELECT n, n * n FROM s RETURNING *, (SELECT sum(w) FROM t);
INSERT INTO t SELECT 10 + a.n, count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l
WHERE a.n IN (8, 9) AND a.n = b.n AND b.n = c.n AND c.n = d.n AND d.n = e.n AND e.n = f.n AND f.n = g.n AND g.n = h.n AND h.n = i.n AND i.n = j.n AND j.n = k.n AND k.n = l.n GROUP BY a.n;
INSERT INTO t SELECT 20 + a.n, b.n FROM t a, t b, (SELECT * FROM t LIMIT 1) c, (SELECT * FROM t LIMIT 1) d, (SELECT * FROM t LIMIT 1) e, (SELECT * FROM t LIMIT 1) f, (SELECT * FROM t LIMIT 1) g WHERE a.n = 9 AND b.n = 8;
SELECT n, w, count(*) FROM t WHERE n > 5 GROUP BY n, w ORDER BY n;
DROP SCHEMA inserted_queries CASCADE;
