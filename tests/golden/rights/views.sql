-- Views of owners and of invokers, security barriers, views that are changed, and owners who lose their rights.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer, secret integer)
owner> INSERT INTO t VALUES (1, 10, 5), (2, 20, 6), (3, 30, 7)
owner> GRANT SELECT, INSERT, UPDATE, DELETE ON t TO %vowner
vowner> CREATE VIEW v AS SELECT id, a FROM t WHERE id < 3
vowner> CREATE VIEW inv WITH (security_invoker) AS SELECT id, a FROM t WHERE id < 3
vowner> CREATE VIEW barrier WITH (security_barrier) AS SELECT id, a, secret FROM t WHERE secret <> 5
vowner> CREATE VIEW checked AS SELECT id, a FROM t WHERE id < 3 WITH CHECK OPTION
vowner> GRANT ALL ON v, inv, barrier, checked TO %alice
alice> SELECT * FROM v
alice> SELECT * FROM inv
alice> SELECT * FROM barrier
alice> SELECT * FROM t
alice> SELECT v.* FROM v JOIN inv USING (id)
alice> SELECT id FROM barrier WHERE 1 / (secret - 5) > 0
alice> SELECT id FROM barrier WHERE (1 / (secret - 5))::text::integer >= 0
alice> SELECT id, 1 / (secret - 5) FROM barrier
alice> SELECT count(*) FROM barrier WHERE 10 / (secret - 5) > 1
alice> SELECT sum(1 / (secret - 5)) FROM barrier
alice> SELECT id FROM barrier b JOIN v USING (id) WHERE 1 / (b.secret - 5) > 0
alice> SELECT id FROM v WHERE 1 / (id - 3) < 0
alice> SELECT id FROM barrier WHERE secret::text::integer / (secret - 5) > 0 ORDER BY 1 / (secret - 5)
alice> SELECT id FROM barrier WHERE CASE WHEN secret = 5 THEN ('x' || secret)::integer ELSE 1 END = 1
alice> SELECT (SELECT max(1 / (b.secret - 5)) FROM barrier b)
alice> SELECT id FROM v WHERE EXISTS (SELECT FROM barrier b WHERE b.id = v.id AND 1 / (b.secret - 5) > 0)
alice> CREATE FUNCTION leak(i integer) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', i; RETURN true; END $$
alice> CREATE FUNCTION leak_steady(i integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', i; RETURN true; END $$
alice! SELECT id FROM barrier WHERE leak(secret) ORDER BY id
alice> SELECT id FROM barrier WHERE leak_steady(secret) ORDER BY id
alice> EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) UPDATE nothing SET a = 1
alice> UPDATE barrier SET a = a + 1 WHERE leak_steady(secret)
alice> UPDATE barrier SET a = a + 1 WHERE 1 / (secret - 5) > 0
alice> DELETE FROM barrier WHERE 1 / (secret - 5) > 100
alice> UPDATE barrier SET a = a + 1 WHERE 1 / (secret - 5) >= 0 RETURNING id, a
alice> COPY (SELECT id FROM barrier WHERE 1 / (secret - 5) > 0) TO STDOUT
alice> SELECT id FROM barrier WHERE id = 1
alice> SELECT id FROM barrier WHERE id = 2 AND 1 / (secret - 5) > 0
alice> BEGIN; DECLARE c CURSOR FOR SELECT id FROM barrier WHERE 1 / (secret - 5) >= 0 ORDER BY id; FETCH ALL FROM c; COMMIT
alice> INSERT INTO v VALUES (0, 1)
alice> INSERT INTO v VALUES (50, 1)
alice> INSERT INTO checked VALUES (51, 1)
alice> INSERT INTO checked VALUES (-1, 1) RETURNING *
alice> UPDATE checked SET id = 52 WHERE id = -1
alice> UPDATE checked SET id = -2 WHERE id = -1
alice> UPDATE v SET a = a + 1 RETURNING id, a
alice> DELETE FROM v WHERE id < 1 RETURNING *
alice> INSERT INTO inv VALUES (60, 1)
alice> UPDATE inv SET a = 1
alice> DELETE FROM inv
alice> MERGE INTO v USING (VALUES (1, 99), (2, 98)) x (id, a) ON v.id = x.id WHEN MATCHED THEN UPDATE SET a = x.a
alice> INSERT INTO v VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET a = excluded.a
alice> COPY v TO STDOUT
alice> COPY v FROM STDIN <- 70\t1\n
alice> SELECT id FROM v FOR UPDATE
alice> SELECT id FROM inv FOR UPDATE
alice! LOCK TABLE v
alice> TRUNCATE v
owner> SELECT * FROM t
owner> GRANT SELECT (id, a) ON t TO %alice
alice> SELECT * FROM inv
alice> UPDATE inv SET a = 1
owner> GRANT UPDATE (a) ON t TO %alice
alice> UPDATE inv SET a = 1
alice> SELECT id FROM inv FOR UPDATE
alice> SELECT secret FROM t
alice> CREATE VIEW over_inv AS SELECT * FROM inv
alice> CREATE VIEW over_v AS SELECT * FROM v
alice> CREATE VIEW over_t AS SELECT id, secret FROM t
alice> GRANT SELECT ON over_inv, over_v, over_t TO %bob
bob> SELECT * FROM over_inv
bob> SELECT * FROM over_v
bob> SELECT * FROM over_t
alice> SELECT * FROM over_t
alice> CREATE VIEW inv_over_v WITH (security_invoker) AS SELECT * FROM v
alice> GRANT SELECT ON inv_over_v TO %bob
bob> SELECT * FROM inv_over_v
vowner> GRANT SELECT ON v TO %bob
bob> SELECT * FROM inv_over_v
vowner> ALTER VIEW v SET (security_invoker = true)
bob> SELECT * FROM inv_over_v
bob> SELECT * FROM v
alice> SELECT * FROM v
vowner> ALTER VIEW v RESET (security_invoker)
bob> SELECT * FROM v
owner> REVOKE ALL ON t FROM %vowner
alice> SELECT * FROM v
bob> SELECT * FROM over_v
alice> SELECT * FROM barrier
alice> SELECT * FROM inv
alice> INSERT INTO v VALUES (80, 1)
alice> UPDATE v SET a = 1
vowner> SELECT * FROM v
vowner> SELECT * FROM inv
owner> GRANT SELECT (id) ON t TO %vowner
alice> SELECT id FROM v
alice> SELECT * FROM v
alice> SELECT count(*) FROM v
owner> GRANT SELECT ON t TO %vowner
alice> SELECT * FROM v
alice> UPDATE v SET a = 1
vowner> REVOKE UPDATE ON v FROM %alice
vowner> GRANT UPDATE (a) ON v TO %alice
owner> GRANT UPDATE ON t TO %vowner
alice> UPDATE v SET a = 1
alice> UPDATE v SET id = 1
vowner> REVOKE SELECT ON v FROM %alice
alice> UPDATE v SET a = 1
alice> UPDATE v SET a = a
alice> SELECT * FROM v
alice> SELECT * FROM over_v
vowner> CREATE VIEW calls AS SELECT id, current_user::text AS who, session_user::text AS s FROM t
vowner> GRANT SELECT ON calls TO %alice
alice> SELECT replace(who, 'x', 'x') = session_user::text, s = session_user::text FROM calls
vowner> CREATE FUNCTION who_am_i() RETURNS text LANGUAGE sql STABLE AS 'SELECT current_user::text'
vowner> CREATE VIEW calls2 AS SELECT id, who_am_i() AS who FROM t
vowner> GRANT SELECT ON calls2 TO %alice
alice> SELECT * FROM calls2
vowner> REVOKE EXECUTE ON FUNCTION who_am_i() FROM PUBLIC
alice> SELECT * FROM calls2
alice> SELECT id FROM t WHERE who_am_i() = 'x'
