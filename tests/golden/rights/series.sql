-- INSERTs alike in a block, changes by constants, keys that functions look up: rights, roles and paths that change in between.
owner> CREATE TABLE t (id integer PRIMARY KEY, v text, secret integer DEFAULT 7)
owner> CREATE TABLE log (who text, what text)
owner> INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 5) i
owner> GRANT SELECT (id, v), INSERT, UPDATE (v) ON t TO %alice
owner> GRANT INSERT ON log TO %alice
-- Series: a right is lost between two INSERTs of a block.
alice> BEGIN
alice> INSERT INTO t VALUES (11, 'a')
alice> INSERT INTO t VALUES (12, 'b')
owner> REVOKE INSERT ON t FROM %alice
alice> INSERT INTO t VALUES (13, 'c')
alice> ROLLBACK
owner> GRANT INSERT ON t TO %alice
owner> SELECT * FROM t ORDER BY id
-- A policy comes between them.
alice> BEGIN
alice> INSERT INTO t VALUES (14, 'a')
alice> INSERT INTO t VALUES (15, 'b')
alice> COMMIT
owner> CREATE POLICY p ON t USING (id < 100)
owner> ALTER TABLE t ENABLE ROW LEVEL SECURITY
alice> BEGIN
alice> INSERT INTO t VALUES (16, 'a')
alice> INSERT INTO t VALUES (116, 'b')
alice> ROLLBACK
owner> ALTER TABLE t DISABLE ROW LEVEL SECURITY
-- A temporary table takes the name, in a series and by a function.
alice> BEGIN
alice> INSERT INTO t VALUES (21, 'a')
alice> INSERT INTO t VALUES (22, 'b')
alice> CREATE TEMP TABLE t (id integer, v text)
alice> INSERT INTO t VALUES (23, 'c')
alice> INSERT INTO t VALUES (24, 'd')
alice> SELECT * FROM pg_temp.t ORDER BY id
alice> DROP TABLE pg_temp.t
alice> INSERT INTO t VALUES (25, 'e')
alice> COMMIT
owner> SELECT id, v FROM t WHERE id > 20 ORDER BY id
-- A default's function, which begins to write elsewhere.
owner> CREATE FUNCTION number() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN 7; END $$
owner> ALTER TABLE t ALTER secret SET DEFAULT number()
alice> BEGIN
alice> INSERT INTO t VALUES (31, 'a')
alice> INSERT INTO t VALUES (32, 'b')
owner> CREATE OR REPLACE FUNCTION number() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (current_user, session_user = current_user); RETURN 8; END $$
alice> INSERT INTO t VALUES (33, 'c')
alice> INSERT INTO t VALUES (34, 'd')
alice> COMMIT
owner> SELECT id, secret FROM t WHERE id > 30 ORDER BY id
owner> SELECT count(*), bool_and(what = 'true') FROM log
owner> ALTER TABLE t ALTER secret SET DEFAULT 7
-- Changes by constants: columns, conditions and policies.
alice> UPDATE t SET v = 'x' WHERE id = 1
alice> UPDATE t SET secret = 1 WHERE id = 1
alice> UPDATE t SET v = 'y' WHERE secret = 3
alice> UPDATE t SET v = 'y' WHERE id = 2 RETURNING secret
alice> UPDATE t SET id = 99 WHERE id = 2
alice> DELETE FROM t WHERE id = 2
owner> ALTER TABLE t ENABLE ROW LEVEL SECURITY
owner> CREATE POLICY q ON t AS RESTRICTIVE FOR UPDATE USING (id <> 3) WITH CHECK (v <> 'z')
alice> UPDATE t SET v = 'u' WHERE id = 3
alice> UPDATE t SET v = 'z' WHERE id = 4
alice> UPDATE t SET v = 'w' WHERE id IN (3, 4, 5)
owner> SELECT id, v FROM t WHERE id < 6 ORDER BY id
owner> ALTER TABLE t DISABLE ROW LEVEL SECURITY
-- A role in the middle of a series.
owner> GRANT %bob TO %alice
owner> GRANT SELECT ON t TO %bob
alice> BEGIN
alice> INSERT INTO t VALUES (41, 'a')
alice> INSERT INTO t VALUES (42, 'b')
alice> SET LOCAL ROLE %bob
alice> INSERT INTO t VALUES (43, 'c')
alice> ROLLBACK
alice> BEGIN
alice> INSERT INTO t VALUES (44, 'a')
alice> INSERT INTO t VALUES (45, set_config('role', 'none', true))
alice> INSERT INTO t VALUES (46, 'c')
alice> COMMIT
owner> SELECT id, v FROM t WHERE id > 40 ORDER BY id
