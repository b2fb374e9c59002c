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
-- constraints and indexes over rows that are there, as tools write them that want to run twice; they are looked at when
-- the statement has been carried out, so errors have no CONTEXT
\set SHOW_CONTEXT never
CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE child (id integer, parent integer, n integer);
INSERT INTO parent VALUES (1), (2);
INSERT INTO child VALUES (1, 1, 10), (2, 2, 20);
INSERT INTO child VALUES (3, NULL, 20);
DO $$ BEGIN
    ALTER TABLE child ADD CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parent;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
DO $$ BEGIN
    ALTER TABLE child ADD CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parent;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
INSERT INTO child VALUES (4, 9, 40);
DELETE FROM parent WHERE id = 1;
DO $$ BEGIN ALTER TABLE child ADD CONSTRAINT once UNIQUE (n); END $$;
DO $$ BEGIN ALTER TABLE child ADD CONSTRAINT once UNIQUE (id), ADD CHECK (n > 5), ALTER id SET NOT NULL; END $$;
DO $$ BEGIN ALTER TABLE child ADD CHECK (n > 15); END $$;
DO $$ BEGIN ALTER TABLE child ALTER parent SET NOT NULL; END $$;
DO $$ BEGIN ALTER TABLE child ADD CONSTRAINT later CHECK (n < 100) NOT VALID; ALTER TABLE child VALIDATE CONSTRAINT later; END $$;
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_indexes WHERE schemaname = 'made' AND indexname = 'by_both') THEN
        CREATE UNIQUE INDEX by_both ON child (n, id);
        CREATE INDEX by_n ON child (n) WHERE id > 1;
    END IF;
END $$;
INSERT INTO child VALUES (1, 2, 50);
INSERT INTO child VALUES (5, 2, 3);
CREATE PROCEDURE restrict_it() LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE child ADD CHECK (id < 4); END $$;
CALL restrict_it();
CREATE FUNCTION widen(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ADD COLUMN extra integer NOT NULL DEFAULT 7', name);
    EXECUTE format('ALTER TABLE %I ADD CHECK (extra = 7)', name);
    RETURN name;
END $$;
SELECT widen('child');
SELECT * FROM child ORDER BY id;
UPDATE child SET extra = 8;
\d child
BEGIN;
UPDATE child SET n = -n WHERE id = 1;
SAVEPOINT s;
DO $$ BEGIN ALTER TABLE child DROP CONSTRAINT child_n_check; ALTER TABLE child ADD CHECK (n > 0); END $$;
ROLLBACK TO s;
DO $$ BEGIN ALTER TABLE child DROP CONSTRAINT child_n_check; ALTER TABLE child ADD CHECK (n <> 0); END $$;
UPDATE child SET n = 0;
ROLLBACK TO s;
DO $$ BEGIN ALTER TABLE child DROP CONSTRAINT child_n_check; ALTER TABLE child ADD CHECK (n > -20); END $$;
COMMIT;
UPDATE child SET n = -n WHERE id = 1;
UPDATE child SET n = -n - 30 WHERE id = 1;
SELECT * FROM child ORDER BY id;
-- keys over expressions, of a table whose lock the block holds: nobody else may have to spell them
CREATE TABLE spelled (id integer, t text);
CREATE UNIQUE INDEX ON spelled (lower(t)) WHERE id > 0;
BEGIN;
DO $$ BEGIN ALTER TABLE spelled ADD COLUMN x integer; END $$;
INSERT INTO spelled VALUES (1, 'A');
SELECT * FROM spelled;
COMMIT;
CREATE UNIQUE INDEX ON spelled ((id + 1));
BEGIN;
DO $$ BEGIN ALTER TABLE spelled ADD COLUMN y integer; END $$;
SELECT * FROM spelled;
INSERT INTO spelled VALUES (1, 'a');
ROLLBACK;
ALTER TABLE spelled RENAME t TO text;
INSERT INTO spelled VALUES (1, 'b');
INSERT INTO spelled VALUES (2, 'A');
BEGIN;
ALTER TABLE spelled RENAME text TO "the text";
INSERT INTO spelled VALUES (2, 'A');
ROLLBACK;
DROP SCHEMA made CASCADE;
