-- Tables that functions drop, and statements that they build from parts: each is executed once.
CREATE SCHEMA dropping; SET search_path = dropping; SET client_min_messages = notice;
CREATE TABLE a (id integer); INSERT INTO a VALUES (1);
DO $$ BEGIN DROP TABLE a; END $$;
SELECT to_regclass('a');
CREATE TABLE b (id integer); INSERT INTO b VALUES (1);
DO $$ BEGIN RAISE NOTICE '%', (SELECT count(*) FROM b); DROP TABLE b; END $$;
CREATE TABLE c (id integer); INSERT INTO c VALUES (1);
BEGIN; INSERT INTO c VALUES (2); DO $$ BEGIN DROP TABLE c; END $$; SELECT to_regclass('c'); ROLLBACK;
SELECT * FROM c;
BEGIN; SAVEPOINT s; DO $$ BEGIN EXECUTE 'DROP TABLE c'; END $$; ROLLBACK TO s; SELECT * FROM c; COMMIT;
CREATE TABLE d (id integer); INSERT INTO d VALUES (1);
DO $$ BEGIN TRUNCATE d; INSERT INTO d VALUES (2); INSERT INTO c SELECT id + 10 FROM d; DROP TABLE d; END $$;
SELECT * FROM c ORDER BY id;
CREATE TABLE e (id integer PRIMARY KEY); CREATE TABLE f (id integer REFERENCES e); INSERT INTO e VALUES (1);
DO $$ BEGIN DROP TABLE e; END $$;
DO $$ BEGIN DROP TABLE e CASCADE; END $$;
DO $$ BEGIN DROP TABLE IF EXISTS e, f; END $$;
DO $$ BEGIN DROP TABLE c; DROP TABLE c; EXCEPTION WHEN undefined_table THEN RAISE NOTICE 'none'; END $$;
SELECT * FROM c ORDER BY id;
CREATE FUNCTION replaced() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'DROP TABLE c';
    EXECUTE 'CREATE TABLE c (id integer, t text)';
    EXECUTE 'INSERT INTO c VALUES ($1, $2)' USING 5, 'five';
    RETURN (SELECT count(*) FROM c);
END $$;
SELECT replaced();
SELECT * FROM c;

-- numbers of sequences, with statements built from parts, keys that refer to the table, and namesakes elsewhere
CREATE TABLE parent (id serial PRIMARY KEY, n integer);
CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent ON DELETE CASCADE);
CREATE TABLE other (id serial, n integer);
INSERT INTO parent (n) VALUES (1), (2);
INSERT INTO child VALUES (1, 1), (2, 2);
DO $$ DECLARE j integer; BEGIN
    EXECUTE format('SELECT n FROM %I WHERE id = $1', 'parent') INTO j USING 1;
    INSERT INTO other (n) VALUES (j);
END $$;
DO $$ BEGIN DELETE FROM parent WHERE id = 1; INSERT INTO other (n) VALUES (2); END $$;
DO $$ BEGIN INSERT INTO child VALUES (3, 2); INSERT INTO other (n) VALUES (3); END $$;
CREATE FUNCTION add(what integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN INSERT INTO other (n) VALUES (what); END $$;
CREATE SCHEMA elsewhere;
CREATE FUNCTION elsewhere.add(what integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN CREATE TABLE elsewhere.made (id integer); END $$;
SELECT add(4);
SET search_path = public;
SELECT dropping.add(5);
CREATE FUNCTION dropping.add_there(what integer) RETURNS void LANGUAGE plpgsql SET search_path = dropping AS $$
BEGIN PERFORM add(what); END $$;
SELECT dropping.add_there(6);
DO $$ BEGIN INSERT INTO dropping.other (n) SELECT n FROM dropping.parent; END $$;
SELECT * FROM dropping.other ORDER BY id;
SELECT * FROM dropping.child ORDER BY id;
SET client_min_messages = error;
DROP SCHEMA dropping CASCADE;
DROP SCHEMA elsewhere CASCADE;
