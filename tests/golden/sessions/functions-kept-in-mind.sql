-- Functions that are called again and again, and then do more than before.
CREATE SCHEMA fk;
SET search_path = fk;
CREATE TABLE t (id integer PRIMARY KEY, n integer);
INSERT INTO t SELECT g, g * g FROM generate_series(1, 9) g;
CREATE TABLE seen (what text);
CREATE FUNCTION f(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT n FROM t WHERE id = i); END $$;
SELECT f(2);
SELECT f(2);
SELECT f(2);
-- by a function that it calls from now on
CREATE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN i; END $$;
CREATE OR REPLACE FUNCTION f(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN g((SELECT n FROM t WHERE id = i)); END $$;
SELECT f(2);
SELECT f(2);
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('fk.last', i::text, false); RETURN i; END $$;
SELECT f(2);
SELECT current_setting('fk.last');
SELECT f(3);
SELECT current_setting('fk.last');
-- rows of a temporary table, of a catalog, a prepared statement, a cursor, a lock, a notification
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN i; END $$;
SELECT f(2);
SELECT f(2);
CREATE TEMP TABLE aside (n integer);
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN INSERT INTO aside VALUES (i); RETURN i; END $$;
SELECT f(2);
SELECT f(2);
SELECT f(2);
SELECT n FROM aside;
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN COMMENT ON TABLE seen IS 'seen'; RETURN i; END $$;
SELECT f(2);
SELECT obj_description('seen'::regclass);
COMMENT ON TABLE seen IS NULL;
SELECT f(2);
SELECT obj_description('seen'::regclass);
COMMENT ON TABLE seen IS NULL;
SELECT f(2);
SELECT obj_description('seen'::regclass);
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN EXECUTE 'PREPARE ' || 'p' || i || ' AS SELECT ' || i; RETURN i; END $$;
SELECT f(2);
EXECUTE p4;
SELECT f(3);
EXECUTE p9;
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(78, i); RETURN i; END $$;
SELECT f(2);
SELECT f(2);
SELECT f(2);
SELECT objid, count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 78 GROUP BY objid;
SELECT pg_advisory_unlock_all();
-- a table by a SELECT of SQL, numbers of a sequence, rows
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN i; END $$;
SELECT f(2);
SELECT f(2);
CREATE SEQUENCE s;
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE sql AS $$ SELECT i + nextval('fk.s')::integer $$;
SELECT f(2);
SELECT f(2) > 5;
CREATE OR REPLACE FUNCTION g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (i::text); RETURN i; END $$;
SELECT f(2);
SELECT f(3);
SELECT f(4);
SELECT what FROM seen ORDER BY what;
-- another function of the name, nearer in the path; then one for another type
CREATE SCHEMA fk2;
CREATE FUNCTION fk2.g(i integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN DELETE FROM fk.seen; RETURN -i; END $$;
SET search_path = fk2, fk;
SELECT f(2);
SELECT count(*) FROM seen;
SET search_path = fk;
SELECT f(2);
SELECT what FROM seen;
DROP FUNCTION fk2.g;
-- the table is another one
ALTER TABLE t RENAME TO t_old;
CREATE TABLE t (id integer, n integer);
INSERT INTO t VALUES (2, 22);
SELECT f(2);
DROP TABLE t;
CREATE VIEW t AS SELECT id, n + 1 AS n FROM t_old;
SELECT f(2);
SELECT f(2);
-- in a block, with savepoints, and a trigger on the way
BEGIN;
SELECT f(3);
SAVEPOINT one;
SELECT f(4);
SELECT count(*) FROM seen;
ROLLBACK TO one;
SELECT f(5);
COMMIT;
SELECT what FROM seen ORDER BY what;
CREATE FUNCTION doubles() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.what := NEW.what || NEW.what; RETURN NEW; END $$;
CREATE TRIGGER doubles BEFORE INSERT ON seen FOR EACH ROW EXECUTE FUNCTION doubles();
SELECT f(6);
SELECT f(7);
CREATE OR REPLACE FUNCTION doubles() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('fk.trigger', NEW.what, false); RETURN NEW; END $$;
SELECT f(8);
SELECT current_setting('fk.trigger');
SELECT f(9);
SELECT current_setting('fk.trigger');
SELECT what FROM seen ORDER BY what;
