-- What BEFORE triggers of a referencing table make of the actions of foreign keys: PostgreSQL does not repeat these.
CREATE SCHEMA acts;
SET search_path = acts;
SET client_min_messages = notice;
CREATE TABLE told (n integer GENERATED ALWAYS AS IDENTITY, what text);
CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO told (what) VALUES (concat_ws(' ', TG_TABLE_NAME, TG_WHEN, TG_LEVEL, TG_OP,
        CASE WHEN TG_LEVEL = 'ROW' AND TG_OP <> 'INSERT' THEN OLD::text END, '->',
        CASE WHEN TG_LEVEL = 'ROW' AND TG_OP <> 'DELETE' THEN NEW::text END));
    RETURN NULL;
END $$;
-- skips rows that are to be kept
CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.note = 'keep' THEN RETURN NULL; END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;

-- ON DELETE CASCADE, with rows that stay
CREATE TABLE p (id integer PRIMARY KEY, note text);
CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, note text);
CREATE TRIGGER keeps BEFORE DELETE OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION keeps();
CREATE TRIGGER tells AFTER INSERT OR DELETE OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION tells();
CREATE TRIGGER tells_once AFTER DELETE OR UPDATE ON c FOR EACH STATEMENT EXECUTE FUNCTION tells();
CREATE TRIGGER tells_once_before BEFORE DELETE OR UPDATE ON c FOR EACH STATEMENT EXECUTE FUNCTION tells();
INSERT INTO p SELECT n, 'p' FROM generate_series(1, 6) n;
INSERT INTO c VALUES (1, 1, 'keep'), (2, 1, 'go'), (3, 2, 'go'), (4, 3, 'keep'), (5, 4, 'keep'), (6, 4, 'go');
DELETE FROM p WHERE id = 1;
SELECT * FROM c ORDER BY id;
DELETE FROM p WHERE id IN (2, 3);
SELECT * FROM c ORDER BY id;
UPDATE p SET id = id + 10 WHERE id = 4;
SELECT * FROM c ORDER BY id;
BEGIN;
DELETE FROM p WHERE id = 14;
SELECT * FROM c ORDER BY id;
SAVEPOINT s;
INSERT INTO p VALUES (1, 'again');
DELETE FROM p WHERE id = 1;
SELECT * FROM c ORDER BY id;
ROLLBACK TO s;
COMMIT;
SELECT * FROM c ORDER BY id;
SELECT what FROM told ORDER BY n;
-- rows that reference nothing may be changed otherwise, but not to another key that is missing
UPDATE c SET note = 'kept' WHERE id = 1;
ALTER TABLE c DISABLE TRIGGER keeps;
UPDATE c SET note = 'kept' WHERE id = 1;
UPDATE c SET p = 77 WHERE id = 1;
UPDATE c SET p = 1 WHERE id = 4;
UPDATE c SET p = 5 WHERE id = 4;
ALTER TABLE c ENABLE TRIGGER keeps;
SELECT * FROM c ORDER BY id;
TRUNCATE told RESTART IDENTITY;
-- by a function, in a DO, by MERGE, and by WITH
UPDATE c SET p = 5, note = 'keep' WHERE id IN (1, 4);
SELECT * FROM c ORDER BY id;
CREATE FUNCTION removes(integer) RETURNS bigint LANGUAGE sql AS $$
    DELETE FROM p WHERE id = $1;
    SELECT count(*) FROM c WHERE p = $1
$$;
SELECT removes(5);
DO $$ BEGIN INSERT INTO p VALUES (5, 'anew'); PERFORM removes(5); RAISE NOTICE '% rows', (SELECT count(*) FROM c); END $$;
INSERT INTO c VALUES (9, 6, 'keep');
MERGE INTO p USING (VALUES (6)) v (id) ON v.id = p.id WHEN MATCHED THEN DELETE;
SELECT * FROM c ORDER BY id;
INSERT INTO p VALUES (6, 'again'), (7, 'new');
INSERT INTO c VALUES (10, 7, 'keep');
WITH gone AS (DELETE FROM p WHERE id = 7 RETURNING id) SELECT * FROM gone;
SELECT * FROM p ORDER BY id;
SELECT * FROM c ORDER BY id;
SELECT what, count(*) FROM told GROUP BY what ORDER BY what;
DROP TABLE c, p;
TRUNCATE told RESTART IDENTITY;

-- two levels, with triggers on both
CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, note text);
CREATE TABLE g (id integer PRIMARY KEY, c integer REFERENCES c ON DELETE CASCADE, note text);
CREATE TRIGGER keeps BEFORE DELETE OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION keeps();
CREATE TRIGGER tells AFTER DELETE OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION tells();
CREATE TRIGGER keeps BEFORE DELETE OR UPDATE ON g FOR EACH ROW EXECUTE FUNCTION keeps();
CREATE TRIGGER tells AFTER DELETE OR UPDATE ON g FOR EACH ROW EXECUTE FUNCTION tells();
INSERT INTO p VALUES (1), (2), (3);
INSERT INTO c VALUES (1, 1, 'go'), (2, 1, 'keep'), (3, 2, 'go'), (4, 3, 'keep');
INSERT INTO g VALUES (1, 1, 'keep'), (2, 1, 'go'), (3, 2, 'keep'), (4, 2, 'go'), (5, 3, 'keep'), (6, 4, 'go');
DELETE FROM p WHERE id = 1;
SELECT * FROM c ORDER BY id;
SELECT * FROM g ORDER BY id;
DELETE FROM p;
SELECT * FROM c ORDER BY id;
SELECT * FROM g ORDER BY id;
SELECT what FROM told ORDER BY n;
DROP TABLE g, c, p;
TRUNCATE told RESTART IDENTITY;

-- ON DELETE SET NULL, of all columns and of some; ON UPDATE SET NULL
CREATE TABLE p (a integer, b integer, PRIMARY KEY (a, b));
CREATE TABLE c (id integer PRIMARY KEY, a integer, b integer, note text,
    FOREIGN KEY (a, b) REFERENCES p ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE d (id integer PRIMARY KEY, a integer DEFAULT 9, b integer DEFAULT 9, note text,
    FOREIGN KEY (a, b) REFERENCES p ON DELETE SET NULL (b) ON UPDATE CASCADE);
CREATE FUNCTION changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.note = 'keep' THEN RETURN NULL; END IF;
    IF OLD.note = 'old' THEN RETURN OLD; END IF;
    IF OLD.note = 'other' THEN NEW.a = 8; NEW.b = 8; END IF;
    IF OLD.note = 'missing' THEN NEW.a = 77; NEW.b = 77; END IF;
    IF OLD.note = 'raise' THEN RAISE EXCEPTION 'row % stays', OLD.id; END IF;
    IF OLD.note = 'wrong' THEN NEW.id = NULL; END IF;
    NEW.note = concat(NEW.note, '!');
    RETURN NEW;
END $$;
CREATE TRIGGER changes BEFORE UPDATE ON c FOR EACH ROW EXECUTE FUNCTION changes();
CREATE TRIGGER changes BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION changes();
CREATE TRIGGER tells AFTER UPDATE ON c FOR EACH ROW WHEN (OLD.a IS DISTINCT FROM NEW.a) EXECUTE FUNCTION tells();
CREATE TRIGGER tells AFTER UPDATE OF b ON d FOR EACH ROW EXECUTE FUNCTION tells();
INSERT INTO p SELECT n, n FROM generate_series(1, 9) n;
INSERT INTO c VALUES (1, 1, 1, 'keep'), (2, 1, 1, 'old'), (3, 1, 1, 'other'), (4, 1, 1, 'n'), (5, 1, 1, NULL);
INSERT INTO d VALUES (1, 1, 1, 'keep'), (2, 1, 1, 'old'), (3, 1, 1, 'other'), (4, 1, 1, 'n'), (5, 1, 1, NULL);
DELETE FROM p WHERE a = 1;
SELECT * FROM c ORDER BY id;
SELECT * FROM d ORDER BY id;
SELECT what FROM told ORDER BY n;
INSERT INTO c VALUES (11, 2, 2, 'keep'), (12, 2, 2, 'old'), (13, 2, 2, 'other'), (14, 2, 2, 'n');
INSERT INTO d VALUES (11, 2, 2, 'keep'), (12, 2, 2, 'old'), (13, 2, 2, 'other'), (14, 2, 2, 'n');
UPDATE p SET a = 12, b = 22 WHERE a = 2;
SELECT * FROM c ORDER BY id;
SELECT * FROM d ORDER BY id;
INSERT INTO c VALUES (21, 3, 3, 'missing');
DELETE FROM p WHERE a = 3;
UPDATE c SET note = 'raise' WHERE id = 21;
INSERT INTO c VALUES (22, 3, 3, 'raise'), (23, 4, 4, 'wrong');
DELETE FROM p WHERE a = 3;
DELETE FROM p WHERE a = 4;
DO $$ BEGIN
    DELETE FROM p WHERE a = 5;
    BEGIN DELETE FROM p WHERE a = 3; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught: %', SQLERRM; END;
END $$;
SELECT * FROM p ORDER BY a;
SELECT * FROM c ORDER BY id;
SELECT what FROM told ORDER BY n;
DROP TABLE c, d, p;
TRUNCATE told RESTART IDENTITY;

-- SET DEFAULT: what still references the removed key is an error
CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE c (id integer PRIMARY KEY, p integer DEFAULT 3 REFERENCES p ON DELETE SET DEFAULT ON UPDATE SET DEFAULT,
    note text);
CREATE FUNCTION defaults() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.note = 'keep' THEN RETURN NULL; END IF;
    IF OLD.note = 'other' THEN NEW.p = 2; END IF;
    IF OLD.note = 'null' THEN NEW.p = NULL; END IF;
    IF OLD.note = 'missing' THEN NEW.p = 88; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER defaults BEFORE UPDATE ON c FOR EACH ROW EXECUTE FUNCTION defaults();
CREATE TRIGGER tells AFTER UPDATE ON c FOR EACH ROW EXECUTE FUNCTION tells();
INSERT INTO p SELECT generate_series(1, 9);
INSERT INTO c VALUES (1, 1, 'keep'), (2, 4, 'other'), (3, 4, 'null'), (4, 4, 'n'), (5, 5, 'missing'), (6, 6, 'other');
DELETE FROM p WHERE id = 1;
DELETE FROM p WHERE id = 4;
DELETE FROM p WHERE id = 5;
UPDATE p SET id = 66 WHERE id = 6;
SELECT * FROM c ORDER BY id;
DELETE FROM p WHERE id = 3;
UPDATE p SET id = 33 WHERE id = 3;
SELECT * FROM c ORDER BY id;
SELECT what FROM told ORDER BY n;
DROP TABLE c, p;
TRUNCATE told RESTART IDENTITY;

-- a table that references itself
CREATE TABLE t (id integer PRIMARY KEY, up integer REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE, note text);
CREATE TRIGGER keeps BEFORE DELETE OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION keeps();
CREATE TRIGGER tells AFTER DELETE OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION tells();
INSERT INTO t VALUES (1, NULL, 'go'), (2, 1, 'go'), (3, 2, 'keep'), (4, 3, 'go'), (5, 2, 'go'), (6, 1, 'keep'), (7, NULL, 'go');
UPDATE t SET id = 20 WHERE id = 2;
SELECT * FROM t ORDER BY id;
DELETE FROM t WHERE id = 1;
SELECT * FROM t ORDER BY id;
INSERT INTO t VALUES (8, 7, 'keep'), (9, 7, 'go');
DELETE FROM t WHERE id = 7;
SELECT * FROM t ORDER BY id;
SELECT what FROM told ORDER BY n;
DROP TABLE t;
TRUNCATE told RESTART IDENTITY;

-- triggers that act on other rows meanwhile
CREATE TABLE p (id integer PRIMARY KEY, n integer);
CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE, note text);
CREATE FUNCTION archives() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.note = 'move' THEN
        UPDATE c SET p = 9 WHERE id = OLD.id;
        RETURN NULL;
    END IF;
    IF OLD.note = 'copy' THEN INSERT INTO c VALUES (OLD.id + 100, 9, 'copied'); END IF;
    IF OLD.note = 'count' THEN UPDATE p SET n = n + 1 WHERE id = 9; END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER archives BEFORE DELETE ON c FOR EACH ROW EXECUTE FUNCTION archives();
CREATE TRIGGER tells AFTER INSERT OR DELETE OR UPDATE ON c FOR EACH ROW WHEN (pg_trigger_depth() > 0) EXECUTE FUNCTION tells();
INSERT INTO p SELECT n, 0 FROM generate_series(1, 9) n;
INSERT INTO c VALUES (1, 1, 'copy'), (2, 1, 'count'), (3, 1, 'n'), (4, 2, 'move'), (5, 2, 'n');
DELETE FROM p WHERE id = 1;
SELECT * FROM p ORDER BY id;
SELECT * FROM c ORDER BY id;
DELETE FROM p WHERE id = 2;
SELECT * FROM c ORDER BY id;
SELECT what FROM told ORDER BY n;
DROP TABLE c, p;
TRUNCATE told RESTART IDENTITY;

-- two references, by actions of two kinds
CREATE TABLE p (id integer PRIMARY KEY, note text);
CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE,
    q integer REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE, note text);
CREATE TRIGGER keeps BEFORE DELETE OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION keeps();
CREATE TRIGGER tells AFTER DELETE OR UPDATE ON c FOR EACH ROW EXECUTE FUNCTION tells();
INSERT INTO p SELECT generate_series(1, 4), 'p';
INSERT INTO c VALUES (1, 1, 2, 'go'), (2, 2, 1, 'keep'), (3, 1, 1, 'keep'), (4, 3, 1, 'go'), (5, 4, 4, 'go');
DELETE FROM p WHERE id = 1;
SELECT * FROM c ORDER BY id;
UPDATE p SET id = 44 WHERE id = 4;
DELETE FROM p WHERE id <= 2;
SELECT * FROM c ORDER BY id;
SELECT what FROM told ORDER BY n;
DROP TABLE c, p;
TRUNCATE told RESTART IDENTITY;

-- no key in the referencing table
CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE c (p integer REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE, note text);
CREATE TRIGGER changes BEFORE UPDATE ON c FOR EACH ROW EXECUTE FUNCTION keeps();
CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.note = 'old' THEN NEW.p = OLD.p; NEW.note = 'stayed'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stays BEFORE UPDATE ON c FOR EACH ROW EXECUTE FUNCTION stays();
INSERT INTO p VALUES (1), (2), (3);
INSERT INTO c VALUES (1, 'keep'), (1, 'go'), (1, 'go'), (2, 'keep'), (2, 'go'), (3, 'old'), (3, 'go');
DELETE FROM p WHERE id = 1;
SELECT * FROM c ORDER BY note, p;
UPDATE p SET id = 22 WHERE id = 2;
SELECT * FROM c ORDER BY note, p;
DELETE FROM p WHERE id = 3;
SELECT * FROM c ORDER BY note, p;
DROP TABLE c, p;

-- deferred triggers, and a deferred foreign key beside
CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, note text);
CREATE TRIGGER keeps BEFORE DELETE ON c FOR EACH ROW EXECUTE FUNCTION keeps();
CREATE CONSTRAINT TRIGGER late AFTER DELETE ON c DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tells();
INSERT INTO p VALUES (1), (2);
INSERT INTO c VALUES (1, 1, 'keep'), (2, 1, 'go'), (3, 2, 'keep'), (4, 2, 'go');
DELETE FROM p WHERE id = 1;
SELECT * FROM c ORDER BY id;
BEGIN;
DELETE FROM p WHERE id = 2;
SELECT * FROM c ORDER BY id;
COMMIT;
SELECT * FROM c ORDER BY id;
SELECT what FROM told ORDER BY n;
DROP SCHEMA acts CASCADE;
