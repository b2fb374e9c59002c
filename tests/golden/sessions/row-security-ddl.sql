-- Policies as things of the catalog: made, altered, dropped, shown, and in the way of other changes.
CREATE ROLE rlsd_amy; GRANT rlsd_amy TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;
CREATE SCHEMA rlsd; GRANT USAGE ON SCHEMA rlsd TO PUBLIC; SET search_path = rlsd;
CREATE TABLE t (id integer PRIMARY KEY, owner text, n integer, spare text);
CREATE TABLE other (id integer);
INSERT INTO t VALUES (1, 'rlsd_amy', 10, 'a'), (2, 'x', 20, 'b'); INSERT INTO other VALUES (1);
GRANT ALL ON t, other TO PUBLIC;
\d t
CREATE POLICY own ON t USING (owner = current_user) WITH CHECK (owner = current_user AND n > 0);
-- of several policies, \dp has no order
\dp t
CREATE POLICY own ON t;
CREATE POLICY only_low ON t AS RESTRICTIVE FOR SELECT TO rlsd_amy USING (n < 15);
CREATE POLICY put ON t FOR INSERT WITH CHECK (id IN (SELECT id FROM other));
CREATE POLICY wrong ON t FOR INSERT USING (true);
CREATE POLICY wrong ON t FOR SELECT WITH CHECK (true);
CREATE POLICY wrong ON t USING (nowhere = 1);
CREATE POLICY wrong ON t USING (sum(n) > 1);
CREATE POLICY wrong ON nowhere USING (true);
CREATE POLICY wrong ON t TO nobody_at_all USING (true);
\d t
ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
\d t
SELECT * FROM pg_policies WHERE schemaname = 'rlsd' ORDER BY policyname;
SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = 't'::regclass;
SELECT tablename, rowsecurity FROM pg_tables WHERE schemaname = 'rlsd' ORDER BY 1;
ALTER TABLE t NO FORCE ROW LEVEL SECURITY;
ALTER POLICY own ON t RENAME TO mine;
ALTER POLICY mine ON t TO rlsd_amy USING (owner = 'rlsd_amy') WITH CHECK (true);
ALTER POLICY nowhere ON t USING (true);
COMMENT ON POLICY mine ON t IS 'what is mine';
SELECT obj_description(oid, 'pg_policy') FROM pg_policy WHERE polname = 'mine' AND polrelid = 't'::regclass;
SET ROLE rlsd_amy;
SELECT * FROM t; ALTER POLICY mine ON t USING (true); DROP POLICY mine ON t; CREATE POLICY my ON t USING (true);
ALTER TABLE t DISABLE ROW LEVEL SECURITY; TRUNCATE t; RESET ROLE;
INSERT INTO t VALUES (1, 'rlsd_amy', 10, 'a'), (2, 'x', 20, 'b');
-- other changes of the table
ALTER TABLE t DROP COLUMN owner;
ALTER TABLE t ALTER COLUMN n TYPE bigint;
ALTER TABLE t ALTER COLUMN n TYPE text USING n::text;
ALTER TABLE t ALTER COLUMN spare TYPE varchar(20);
ALTER TABLE t RENAME COLUMN owner TO holder; ALTER TABLE other RENAME TO others;
SELECT policyname, qual, with_check FROM pg_policies WHERE schemaname = 'rlsd' ORDER BY 1;
SET ROLE rlsd_amy; SELECT * FROM t; INSERT INTO t VALUES (1, 'rlsd_amy', 1); INSERT INTO t VALUES (3, 'y', 1); RESET ROLE;
ALTER TABLE t ADD COLUMN more integer DEFAULT 7;
SET ROLE rlsd_amy; SELECT * FROM t; RESET ROLE;
DROP TABLE others;
DROP TABLE others CASCADE;
SELECT policyname FROM pg_policies WHERE schemaname = 'rlsd' ORDER BY 1;
CREATE TABLE alike (LIKE t INCLUDING ALL);
\d alike
ALTER TABLE t DROP COLUMN holder CASCADE;
SELECT policyname FROM pg_policies WHERE schemaname = 'rlsd' ORDER BY 1;
SET ROLE rlsd_amy; SELECT * FROM t; RESET ROLE;
DROP POLICY only_low ON t; DROP POLICY only_low ON t; DROP POLICY IF EXISTS only_low ON t;
SET ROLE rlsd_amy; SELECT * FROM t; RESET ROLE;
ALTER TABLE t OWNER TO rlsd_amy;
GRANT CREATE ON SCHEMA rlsd TO rlsd_amy; ALTER TABLE t OWNER TO rlsd_amy;
SET ROLE rlsd_amy; SELECT * FROM t ORDER BY id; RESET ROLE; SELECT * FROM t;
-- a function in a policy
CREATE FUNCTION allowed(integer) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT $1 < current_setting(''rlsd.most'')::integer';
SET ROLE rlsd_amy; CREATE POLICY f ON t USING (rlsd.allowed(id)); RESET ROLE;
SET rlsd.most = 2; SELECT * FROM t ORDER BY id; SET rlsd.most = 5; SELECT * FROM t ORDER BY id; UPDATE t SET n = n + 1; INSERT INTO t VALUES (9); INSERT INTO t VALUES (4) RETURNING id;
SET rlsd.most = 2; DELETE FROM t; SET ROLE rlsd_amy; SELECT id, n FROM t ORDER BY id; RESET ROLE;
DROP FUNCTION allowed; 
-- in blocks
SET ROLE rlsd_amy;
BEGIN; CREATE POLICY g ON t USING (id = 2); SAVEPOINT s; ALTER POLICY g ON t USING (id = 4); ROLLBACK TO s; RESET ROLE; SELECT id FROM t ORDER BY id; COMMIT;
SELECT id FROM t ORDER BY id;
SET ROLE rlsd_amy;
BEGIN; DROP POLICY f ON t; ALTER TABLE t DISABLE ROW LEVEL SECURITY; COMMIT; RESET ROLE;
SELECT id FROM t ORDER BY id;
\d t
CREATE TEMPORARY TABLE temp (a integer); CREATE POLICY p ON temp USING (a = 1); ALTER TABLE temp ENABLE ROW LEVEL SECURITY; ALTER TABLE temp FORCE ROW LEVEL SECURITY;
INSERT INTO temp VALUES (1); INSERT INTO temp VALUES (2); SELECT * FROM temp; DROP POLICY p ON temp; DROP TABLE temp;
-- what looks at all rows, whatever its owner sees
CREATE TABLE whole (id integer, n integer, tag text); INSERT INTO whole VALUES (1, 1, 'a'), (2, -2, 'b'), (3, 3, 'b'), (4, NULL, 'c');
CREATE TABLE seen (id integer PRIMARY KEY); INSERT INTO seen VALUES (1), (2), (3);
CREATE POLICY p ON whole USING (id = 1); CREATE POLICY p ON seen USING (id = 1);
ALTER TABLE whole ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; ALTER TABLE seen ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT * FROM whole;
ALTER TABLE whole ADD CHECK (n > 0);
ALTER TABLE whole ALTER COLUMN n SET NOT NULL;
CREATE UNIQUE INDEX ON whole (tag);
DELETE FROM whole; ALTER TABLE whole NO FORCE ROW LEVEL SECURITY; DELETE FROM whole WHERE id = 4; ALTER TABLE whole FORCE ROW LEVEL SECURITY;
ALTER TABLE whole ADD FOREIGN KEY (id) REFERENCES seen;
ALTER TABLE whole ALTER COLUMN id TYPE bigint USING id * 10; ALTER TABLE whole NO FORCE ROW LEVEL SECURITY; SELECT * FROM whole ORDER BY id;
DROP SCHEMA rlsd CASCADE;
DROP ROLE rlsd_amy;
