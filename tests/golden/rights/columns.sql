-- Rights on columns, in every kind of statement that reads or changes rows.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer, secret text, n integer DEFAULT 7)
owner> CREATE TABLE u (id integer PRIMARY KEY, b integer)
owner> INSERT INTO t VALUES (1, 10, 'one', 1), (2, 20, 'two', 2), (3, 30, 'three', 3)
owner> INSERT INTO u VALUES (1, 100), (2, 200), (9, 900)
owner> GRANT SELECT (id, a), INSERT (id, a), UPDATE (a) ON t TO %alice
owner> GRANT SELECT ON u TO %alice
owner> GRANT SELECT (id) ON u TO %bob
alice> SELECT id, a FROM t
alice> SELECT * FROM t
alice> SELECT secret FROM t
alice> SELECT t FROM t
alice> SELECT t.* FROM t
alice> SELECT row_to_json(t) FROM t
alice> SELECT count(*) FROM t
alice> SELECT count(t) FROM t
alice> SELECT count(*) FROM t WHERE t IS NOT NULL
alice> SELECT 1 FROM t
alice> SELECT id FROM t WHERE secret = 'one'
alice> SELECT id FROM t ORDER BY secret
alice> SELECT a FROM t GROUP BY a, secret
alice> SELECT ctid FROM t
alice> SELECT tableoid::regclass::text FROM t
alice! SELECT xmin IS NULL FROM t
alice> SELECT t.id FROM t JOIN u USING (id)
alice> SELECT t.secret FROM t JOIN u USING (id)
alice> SELECT * FROM t NATURAL JOIN u
alice> SELECT x.id FROM (SELECT * FROM t) x
alice> WITH x AS (SELECT secret FROM t) SELECT 1
alice> WITH x AS (SELECT id FROM t) SELECT * FROM x
alice> SELECT (SELECT max(secret) FROM t)
alice> SELECT id FROM u WHERE EXISTS (SELECT FROM t WHERE t.id = u.id AND secret <> '')
alice> SELECT id FROM u WHERE EXISTS (SELECT FROM t WHERE t.id = u.id)
alice> TABLE t
bob> SELECT count(*) FROM u
bob> SELECT count(b) FROM u
bob> SELECT count(*) FROM t
bob> SELECT 1 FROM t LIMIT 0
bob> SELECT 1 FROM t WHERE false
bob> SELECT u FROM u
alice> INSERT INTO t (id, a) VALUES (4, 40)
alice> INSERT INTO t (id, secret) VALUES (5, 'five')
alice> INSERT INTO t VALUES (5, 50)
alice> INSERT INTO t VALUES (5, 50, 'five')
alice> INSERT INTO t (id, n) VALUES (6, DEFAULT)
alice> INSERT INTO t DEFAULT VALUES
alice> INSERT INTO t (id, a) VALUES (7, 70) RETURNING id, a
alice> INSERT INTO t (id, a) VALUES (8, 80) RETURNING id, n
alice> INSERT INTO t (id, a) VALUES (8, 80) RETURNING *
alice> INSERT INTO t (id, a) VALUES (1, 11) ON CONFLICT DO NOTHING
alice> INSERT INTO t (id, a) VALUES (1, 11) ON CONFLICT (id) DO NOTHING
alice> INSERT INTO t (id, a) VALUES (1, 11) ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING
alice> INSERT INTO t (id, a) VALUES (1, 11) ON CONFLICT (id) DO UPDATE SET a = excluded.a
alice> INSERT INTO t (id, a) VALUES (1, 11) ON CONFLICT (id) DO UPDATE SET a = excluded.n
alice> INSERT INTO t (id, a) VALUES (1, 11) ON CONFLICT (id) DO UPDATE SET n = 3
alice> INSERT INTO t (id, a) VALUES (1, 12) ON CONFLICT (id) DO UPDATE SET a = t.a + 1 WHERE t.secret = 'one'
alice> INSERT INTO t (id, a) VALUES (1, 12) ON CONFLICT (id) DO UPDATE SET a = t.a + 1 RETURNING a
alice> INSERT INTO t (id, a) VALUES (1, 12) ON CONFLICT (id) DO UPDATE SET a = t.a + 1 RETURNING secret
alice> INSERT INTO t (id, a) VALUES (1, 12)
alice> INSERT INTO t (id, a) SELECT id + 100, b FROM u
alice> INSERT INTO t (id, a) SELECT n, a FROM t
alice> UPDATE t SET a = 5
alice> UPDATE t SET a = a + 1
alice> UPDATE t SET a = n
alice> UPDATE t SET n = 1
alice> UPDATE t SET a = 1, n = 1
alice> UPDATE t SET a = 6 WHERE id = 1
alice> UPDATE t SET a = 6 WHERE secret = 'one'
alice> UPDATE t SET a = 6 WHERE id = 1 RETURNING id
alice> UPDATE t SET a = 6 WHERE id = 1 RETURNING secret
alice> UPDATE t SET a = 6 WHERE id = 1 RETURNING old.a, new.a
alice> UPDATE t SET a = 6 WHERE id = 1 RETURNING old.n
alice> UPDATE t SET a = DEFAULT WHERE id = 2
alice> UPDATE t SET a = u.b FROM u WHERE u.id = t.id
alice> UPDATE t SET a = u.b FROM u WHERE u.id = t.n
alice> UPDATE u SET b = 1
alice> UPDATE u SET b = 1 WHERE false
alice> DELETE FROM t
alice> DELETE FROM t WHERE id = 1
alice> DELETE FROM t WHERE false
owner> GRANT DELETE ON t TO %bob
bob> DELETE FROM t WHERE id = 1
bob> DELETE FROM t WHERE id = 1 RETURNING id
bob> DELETE FROM t USING u WHERE false
owner> SELECT * FROM t
bob> DELETE FROM t RETURNING 1
bob> DELETE FROM t
owner> SELECT * FROM t
owner> INSERT INTO t VALUES (1, 10, 'one', 1), (2, 20, 'two', 2), (3, 30, 'three', 3)
owner> GRANT UPDATE (a) ON t TO %bob
bob> UPDATE t SET a = 1
bob> UPDATE t SET a = a
bob> UPDATE t SET a = 1 WHERE id = 1
bob> INSERT INTO t (id) VALUES (77)
alice> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET a = u.b
alice> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET n = u.b
alice> MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED THEN INSERT (id, a) VALUES (u.id, u.b)
alice> MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (u.id, u.b)
alice> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE
alice> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED AND t.secret = 'one' THEN UPDATE SET a = 1
alice> MERGE INTO t USING u ON t.n = u.id WHEN MATCHED THEN UPDATE SET a = 1
alice> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DO NOTHING
alice> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET a = u.b RETURNING t.a
alice> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET a = u.b RETURNING t.secret
alice> MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED BY SOURCE THEN DELETE
bob> MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE
bob> MERGE INTO t USING u ON true WHEN MATCHED THEN DO NOTHING
alice> COPY t TO STDOUT
alice> COPY t (id, a) TO STDOUT
alice> COPY t (id, secret) TO STDOUT
alice> COPY (SELECT id FROM t) TO STDOUT
alice> COPY (SELECT secret FROM t) TO STDOUT
alice> COPY t (id, a) FROM STDIN <- 201\t3\n202\t4\n
alice> COPY t (id, a, n) FROM STDIN <- 203\t3\t3\n
alice> COPY t FROM STDIN <- 203\t3\tx\t1\n
alice> COPY t (id, a) FROM STDIN WHERE n > 1 <- 301\t3\n302\t4\n
alice> COPY t (id, a) FROM STDIN WHERE id > 301 <- 301\t3\n302\t4\n
alice> COPY u FROM STDIN <- 1\t3\n
bob> COPY u TO STDOUT
alice> SELECT id FROM t FOR UPDATE
alice> SELECT id FROM t WHERE id = 1 FOR SHARE
alice> SELECT id FROM t WHERE id = 1 FOR KEY SHARE
alice> SELECT id FROM u FOR UPDATE
alice> SELECT id FROM u FOR KEY SHARE
alice> SELECT t.id FROM t, u WHERE t.id = u.id FOR UPDATE OF t
alice> SELECT t.id FROM t, u WHERE t.id = u.id FOR UPDATE
alice> SELECT secret FROM t FOR UPDATE
bob> SELECT 1 FROM t FOR UPDATE
bob> SELECT id FROM t FOR UPDATE
alice> EXPLAIN (COSTS OFF) SELECT secret FROM t
alice> EXPLAIN (COSTS OFF) UPDATE t SET n = 1
alice> EXPLAIN (ANALYZE) SELECT secret FROM t
alice> EXPLAIN (ANALYZE) DELETE FROM t
alice> CREATE TABLE mine AS SELECT id, a FROM t
alice> CREATE TABLE mine2 AS SELECT secret FROM t
alice> SELECT count(*) FROM mine
alice> CREATE TEMP TABLE tm AS SELECT secret FROM t
alice> CREATE TEMP TABLE tm AS SELECT id FROM t
alice> SELECT id INTO mine3 FROM t
alice> SELECT secret INTO mine4 FROM t
alice> INSERT INTO mine SELECT n, n FROM t
alice> INSERT INTO tm SELECT n FROM t
alice> INSERT INTO tm SELECT a FROM t
alice> UPDATE tm SET id = t.n FROM t WHERE t.id = tm.id
alice> DELETE FROM tm USING t WHERE t.id = tm.id AND t.secret = 'one'
alice> CREATE MATERIALIZED VIEW mv AS SELECT secret FROM t
alice> CREATE MATERIALIZED VIEW mv AS SELECT a FROM t
alice> SELECT count(*) FROM mv
owner> REVOKE SELECT (a) ON t FROM %alice
alice> REFRESH MATERIALIZED VIEW mv
alice> SELECT count(*) FROM mv
owner> REFRESH MATERIALIZED VIEW mv
bob> SELECT count(*) FROM mv
alice> DECLARE c CURSOR FOR SELECT secret FROM t
alice> BEGIN
alice> DECLARE c CURSOR FOR SELECT secret FROM t
alice> ROLLBACK
alice> PREPARE p AS SELECT secret FROM t
alice> EXECUTE p
alice> PREPARE q AS UPDATE t SET n = 3
alice> EXECUTE q
alice> EXPLAIN EXECUTE q
owner> GRANT UPDATE ON t TO %alice
alice> EXECUTE q
owner> SELECT * FROM t
alice> INSERT INTO t (id) VALUES (NULL)
alice> INSERT INTO t (id) VALUES (1)
alice> UPDATE t SET id = NULL
alice> UPDATE t SET id = 2
owner> ALTER TABLE t ADD CHECK (n < 1000)
alice> UPDATE t SET n = 5000
owner> GRANT SELECT ON t TO %alice
alice> UPDATE t SET n = 5000
alice> UPDATE t SET id = 2
