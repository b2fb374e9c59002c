-- TRUNCATE from within functions, procedures and DO.
CREATE SCHEMA tif; SET search_path = tif; SET client_min_messages = notice;
CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);
CREATE TABLE kept (id integer PRIMARY KEY, n integer); CREATE TABLE log (id bigint DEFAULT extract(epoch FROM clock_timestamp()) * 1000000, what text);
INSERT INTO item (n) SELECT g FROM generate_series(1, 5) g; INSERT INTO kept VALUES (1, 10), (2, 20);
DO $$ BEGIN TRUNCATE item; END $$;
SELECT * FROM item;
INSERT INTO item (n) VALUES (1) RETURNING id;
DO 'BEGIN TRUNCATE item RESTART IDENTITY; INSERT INTO item (n) VALUES (7), (8); END';
SELECT * FROM item ORDER BY id;
INSERT INTO item (n) VALUES (1) RETURNING id;
-- what it saw before, and sees afterwards
DO $$ DECLARE c integer; BEGIN
    SELECT count(*) INTO c FROM item; RAISE NOTICE 'before %', c;
    TRUNCATE item;
    SELECT count(*) INTO c FROM item; RAISE NOTICE 'after %', c;
    INSERT INTO item (n) SELECT n FROM kept;
    SELECT sum(n) INTO c FROM item; RAISE NOTICE 'sum %', c;
    UPDATE item SET n = n + 1; DELETE FROM item WHERE n = 11;
END $$;
SELECT n FROM item;
-- the summary that is made anew
CREATE TABLE total (n integer PRIMARY KEY, of integer);
CREATE FUNCTION refreshes() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE made bigint;
BEGIN
    TRUNCATE TABLE total;
    INSERT INTO total SELECT id, n FROM kept;
    GET DIAGNOSTICS made = ROW_COUNT;
    RETURN made;
END $$;
SELECT refreshes(); SELECT refreshes();
INSERT INTO kept VALUES (3, 30);
SELECT refreshes(); SELECT * FROM total ORDER BY n;
CREATE FUNCTION emptied() RETURNS void LANGUAGE sql AS 'TRUNCATE total, item';
SELECT emptied(); SELECT count(*) FROM total; SELECT count(*) FROM item;
CREATE PROCEDURE loads(n integer) LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE total;
    INSERT INTO total SELECT g, g FROM generate_series(1, n) g;
    INSERT INTO log (what) VALUES ('loaded ' || (SELECT count(*) FROM total));
END $$;
CALL loads(3); CALL loads(2); SELECT * FROM total ORDER BY n; SELECT what FROM log ORDER BY id;
-- rows made before are gone with the others
DO $$ BEGIN INSERT INTO total VALUES (50, 0); TRUNCATE total; INSERT INTO total VALUES (50, 1); END $$;
SELECT * FROM total;
DO $$ BEGIN INSERT INTO total VALUES (50, 0); TRUNCATE total; END $$;
SELECT * FROM total;
DO $$ BEGIN
    INSERT INTO total VALUES (50, 0);
EXCEPTION WHEN unique_violation THEN
    RAISE NOTICE '%', SQLERRM; TRUNCATE total; INSERT INTO total VALUES (50, 2);
END $$;
SELECT * FROM total;
DO $$ BEGIN TRUNCATE total; INSERT INTO total VALUES (1, 1), (1, 2); END $$;
DO $$ BEGIN TRUNCATE total; TRUNCATE total; INSERT INTO total VALUES (1, 1); TRUNCATE total; INSERT INTO total VALUES (2, 2); END $$;
SELECT * FROM total;
-- what EXCEPTION undoes is undone
DO $$ BEGIN
    BEGIN TRUNCATE total; RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN RAISE NOTICE 'caught %', SQLERRM; END;
    RAISE NOTICE 'still %', (SELECT count(*) FROM total);
END $$;
SELECT * FROM total;
DO $$ BEGIN
    BEGIN TRUNCATE total; RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN NULL; END;
    INSERT INTO total VALUES (3, 3);
END $$;
SELECT * FROM total ORDER BY n;
DO $$ BEGIN
    BEGIN TRUNCATE total; INSERT INTO total VALUES (2, 2); RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN NULL; END;
    INSERT INTO total VALUES (2, 5);
END $$;
DO $$ BEGIN
    BEGIN TRUNCATE total; PERFORM 1 / (SELECT count(*) FROM total); EXCEPTION WHEN division_by_zero THEN TRUNCATE total; INSERT INTO total VALUES (9, 9); END;
END $$;
SELECT * FROM total;
DO $$ BEGIN TRUNCATE total; RAISE EXCEPTION 'at the end'; END $$;
SELECT * FROM total;
-- references
CREATE TABLE parent (id integer PRIMARY KEY); CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent);
CREATE TABLE grandchild (id integer, child integer REFERENCES child ON DELETE CASCADE);
INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1), (2, 2); INSERT INTO grandchild VALUES (1, 1);
DO $$ BEGIN TRUNCATE parent; END $$;
DO $$ BEGIN TRUNCATE parent; EXCEPTION WHEN feature_not_supported THEN RAISE NOTICE '%: %', SQLSTATE, SQLERRM; END $$;
DO $$ BEGIN TRUNCATE parent, child; END $$;
SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM child), (SELECT count(*) FROM grandchild);
DO $$ BEGIN TRUNCATE child CASCADE; INSERT INTO child VALUES (5, 1); END $$;
SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM child), (SELECT count(*) FROM grandchild);
DO $$ BEGIN TRUNCATE parent CASCADE; INSERT INTO parent VALUES (7); INSERT INTO child VALUES (7, 7); INSERT INTO grandchild VALUES (7, 7); END $$;
SELECT * FROM parent; SELECT * FROM child; SELECT * FROM grandchild;
DO $$ BEGIN TRUNCATE parent CASCADE; INSERT INTO child VALUES (7, 7); END $$;
DO $$ BEGIN TRUNCATE parent CASCADE; INSERT INTO child VALUES (7, 7); EXCEPTION WHEN foreign_key_violation THEN RAISE NOTICE '%', SQLERRM; END $$;
SELECT * FROM parent; SELECT * FROM child; SELECT * FROM grandchild;
DO $$ BEGIN TRUNCATE parent CASCADE; INSERT INTO parent VALUES (7), (8); DELETE FROM parent WHERE id = 8; END $$;
SELECT * FROM parent; SELECT * FROM child;
ALTER TABLE child ALTER CONSTRAINT child_parent_fkey DEFERRABLE INITIALLY DEFERRED;
DO $$ BEGIN TRUNCATE child CASCADE; INSERT INTO child VALUES (1, 7), (2, 7); END $$;
DO $$ BEGIN PERFORM FROM child; TRUNCATE child CASCADE; INSERT INTO child VALUES (1, 7), (3, 7); END $$;
SELECT * FROM child ORDER BY id;
BEGIN;
INSERT INTO child VALUES (4, 44);
\set VERBOSITY terse
DO $$ BEGIN TRUNCATE child CASCADE; END $$;
\set VERBOSITY default
ROLLBACK;
-- blocks and savepoints
BEGIN;
INSERT INTO total VALUES (100, 100);
SELECT refreshes();
SELECT * FROM total ORDER BY n;
SAVEPOINT s;
DO $$ BEGIN TRUNCATE total; INSERT INTO total VALUES (4, 4); END $$;
SELECT * FROM total;
ROLLBACK TO s;
SELECT * FROM total ORDER BY n;
UPDATE total SET of = of + 1 WHERE n = 2; DELETE FROM total WHERE n = 1;
CALL loads(1); INSERT INTO total VALUES (2, 2);
SELECT * FROM total ORDER BY n;
ROLLBACK;
SELECT * FROM total ORDER BY n;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM total;
DO $$ BEGIN TRUNCATE total; END $$;
SELECT count(*) FROM total;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
CALL loads(4); UPDATE total SET of = 0 WHERE n > 2;
COMMIT;
SELECT * FROM total ORDER BY n; SELECT what FROM log ORDER BY id;
BEGIN READ ONLY;
DO $$ BEGIN TRUNCATE total; END $$;
ROLLBACK;
-- beside the lake, and in triggers
CREATE TEMPORARY TABLE temporary (n integer); INSERT INTO temporary VALUES (1), (2);
DO $$ BEGIN TRUNCATE temporary, total; INSERT INTO temporary VALUES (3); INSERT INTO total VALUES (3, 3); END $$;
SELECT * FROM temporary; SELECT * FROM total;
CREATE FUNCTION empties() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN TRUNCATE total; RETURN NEW; END $$;
CREATE TRIGGER empties BEFORE INSERT ON kept FOR EACH ROW EXECUTE FUNCTION empties();
INSERT INTO kept VALUES (4, 40);
SELECT * FROM total;
CREATE OR REPLACE FUNCTION empties() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN TRUNCATE kept; RETURN NEW; END $$;
INSERT INTO kept VALUES (5, 50);
SELECT count(*) FROM kept;
DROP TRIGGER empties ON kept;
CREATE FUNCTION makes() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    CREATE TABLE made (n integer); INSERT INTO made VALUES (1), (2); TRUNCATE made; INSERT INTO made VALUES (3);
    RETURN (SELECT sum(n) FROM made);
END $$;
SELECT makes(); SELECT * FROM made;
DO $$ BEGIN
    CREATE TABLE again (n integer); INSERT INTO again VALUES (1);
    BEGIN TRUNCATE again; EXCEPTION WHEN object_in_use THEN NULL; END;
END $$;
SELECT * FROM again;
CREATE TEMPORARY TABLE late (n integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED);
DO $$ BEGIN INSERT INTO late VALUES (1), (1); TRUNCATE late; END $$;
-- in statements
CREATE FUNCTION empty_total() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN TRUNCATE total; RETURN 1; END $$;
INSERT INTO total VALUES (1, 1);
SELECT n, empty_total() FROM kept ORDER BY n;
SELECT * FROM total;
INSERT INTO total VALUES (1, 1);
INSERT INTO log (what) VALUES ('emptied ' || empty_total());
SELECT * FROM total;
PREPARE e AS SELECT empty_total();
INSERT INTO total VALUES (1, 1); EXECUTE e; SELECT * FROM total;
SET client_min_messages = warning;
DROP SCHEMA tif CASCADE;
