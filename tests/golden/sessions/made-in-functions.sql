-- Tables that a DO block or a function makes or alters.
CREATE SCHEMA made;
SET search_path = made;
SET client_min_messages = warning;
DO $$ BEGIN CREATE TABLE a (id integer PRIMARY KEY, note text DEFAULT 'none' CHECK (note <> '')); END $$;
DO $$ BEGIN CREATE TEMPORARY TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1); END $$;
INSERT INTO a VALUES (1), (2, 'two');
SELECT * FROM a ORDER BY id;
SELECT * FROM t;
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM information_schema.columns WHERE table_schema = 'made' AND table_name = 'a' AND column_name = 'more') THEN
        ALTER TABLE a ADD COLUMN more integer;
    END IF;
END $$;
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM information_schema.columns WHERE table_schema = 'made' AND table_name = 'a' AND column_name = 'more') THEN
        ALTER TABLE a ADD COLUMN more integer;
    END IF;
END $$;
UPDATE a SET more = id * 10;
SELECT * FROM a ORDER BY id;
DO $$ BEGIN ALTER TABLE a RENAME COLUMN more TO most; ALTER TABLE a ALTER most SET DEFAULT 7; COMMENT ON TABLE a IS 'made'; END $$;
INSERT INTO a (id) VALUES (3);
SELECT * FROM a ORDER BY id;
DO $$ BEGIN EXECUTE 'CREATE TABLE b (id integer REFERENCES a, n serial)'; CREATE INDEX ON b (n); END $$;
INSERT INTO b (id) VALUES (1), (3);
INSERT INTO b (id) VALUES (9);
SELECT * FROM b ORDER BY id;
CREATE FUNCTION make(name text) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('CREATE TABLE %I (id integer)', name); RETURN 1; END $$;
SELECT make('c');
SELECT count(*) FROM c;
BEGIN;
DO $$ BEGIN CREATE TABLE d (id integer UNIQUE); END $$;
INSERT INTO d VALUES (1);
DO $$ DECLARE n bigint; BEGIN CREATE TABLE e (id integer PRIMARY KEY); SELECT count(*) INTO n FROM e; RAISE NOTICE 'e has %', n; END $$;
SELECT * FROM d;
ROLLBACK;
SELECT * FROM d;
DO $$ BEGIN CREATE TABLE f (id integer PRIMARY KEY); DROP TABLE f; END $$;
SELECT to_regclass('f');
DROP SCHEMA made CASCADE;
