-- Functions that name tables which are not copied at first, and that change the settings by which references are checked.
CREATE SCHEMA attacked;
SET search_path = attacked;
CREATE TABLE big (id integer PRIMARY KEY);
INSERT INTO big SELECT generate_series(1, 30000);
CREATE FUNCTION opened() RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'c';
BEGIN
    OPEN c FOR SELECT id FROM big ORDER BY id;
    RETURN c;
END $$;
BEGIN;
SELECT opened();
FETCH 3 FROM c;
COMMIT;

CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE);
INSERT INTO p VALUES (1);
INSERT INTO c VALUES (4, 1);
DO $$ BEGIN
    PERFORM set_config('sluice.filled', '', true);
    DELETE FROM p WHERE id = 1;
    PERFORM set_config('sluice.filled', 'on', true); /* c */
END $$;
SELECT * FROM c;
INSERT INTO p VALUES (1);
INSERT INTO c VALUES (5, 1);
DO $$ BEGIN
    PERFORM set_config('sluice.unchecked', 'on', true);
    DELETE FROM p WHERE id = 1;
    INSERT INTO c VALUES (4, 1);
END $$;
SELECT * FROM c;
DO $$ BEGIN
    EXECUTE 'SELECT set_' || 'config(''sluice.filled'', '''', true)';
    UPDATE c SET p = 7; /* p */
END $$;
SELECT * FROM c;

CREATE FUNCTION labelled(text) RETURNS text LANGUAGE sql AS $$ SELECT $1 || '!' $$;
SET sluice.as_of = '1';
SELECT labelled('big');
RESET sluice.as_of;

CREATE TABLE small (x integer);
CREATE SCHEMA attacked_too;
CREATE TABLE attacked_too.other (x integer);
INSERT INTO attacked_too.other VALUES (1);
CREATE FUNCTION both_counts() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM small) + (SELECT count(*) FROM attacked_too.other);
END $$;
SELECT both_counts();
DROP TABLE attacked_too.other;
CREATE TABLE attacked_too.other (x integer);
SELECT both_counts();

CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE c SET id = id + 100 WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER "A" AFTER INSERT ON c FOR EACH ROW WHEN (NEW.id < 100) EXECUTE FUNCTION touch();
\set VERBOSITY terse
DO $$ BEGIN DELETE FROM p WHERE id = 1; INSERT INTO c VALUES (6, 1); END $$;
SELECT count(*) FROM c WHERE p NOT IN (SELECT id FROM p);
SET client_min_messages = error;
CREATE TABLE p2 (id integer PRIMARY KEY);
CREATE TABLE c2 (id integer PRIMARY KEY, p integer REFERENCES p2 ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO p2 VALUES (1);
INSERT INTO c2 VALUES (4, 1);
\set VERBOSITY sqlstate
DO $$ BEGIN DELETE FROM p2 WHERE id = 1; INSERT INTO c2 VALUES (4, 1); END $$;
SELECT count(*) FROM c2 WHERE p NOT IN (SELECT id FROM p2);
DROP SCHEMA attacked CASCADE;
DROP SCHEMA attacked_too CASCADE;
