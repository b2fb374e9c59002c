-- Deferred triggers that raise errors, queue further events, and are beside keys and foreign keys.
CREATE SCHEMA late;
SET search_path = late;
\set VERBOSITY verbose
CREATE TABLE audit (n integer GENERATED ALWAYS AS IDENTITY, what text);
CREATE TABLE account (id integer PRIMARY KEY, balance integer);
CREATE TABLE entry (id integer PRIMARY KEY, account integer REFERENCES account ON DELETE CASCADE DEFERRABLE, amount integer);
CREATE FUNCTION balanced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT coalesce(sum(amount), 0) FROM entry) <> 0 THEN
        RAISE EXCEPTION 'entries are not balanced: %', (SELECT sum(amount) FROM entry) USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO audit (what) VALUES (format('balanced %s', coalesce(NEW.id, OLD.id)));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER balanced AFTER INSERT OR UPDATE OR DELETE ON entry DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION balanced();
\set VERBOSITY sqlstate
INSERT INTO account VALUES (1, 0), (2, 0);
INSERT INTO entry VALUES (1, 1, 100);
INSERT INTO entry VALUES (1, 1, 100), (2, 2, -100);
SELECT * FROM entry ORDER BY id;
BEGIN;
INSERT INTO entry VALUES (3, 1, 50);
INSERT INTO entry VALUES (4, 2, -50);
COMMIT;
BEGIN;
UPDATE entry SET amount = 60 WHERE id = 3;
SELECT sum(amount) FROM entry;
COMMIT;
SELECT * FROM entry ORDER BY id;
BEGIN;
UPDATE entry SET amount = 60 WHERE id = 3;
SAVEPOINT a;
SET CONSTRAINTS balanced IMMEDIATE;
ROLLBACK TO SAVEPOINT a;
UPDATE entry SET amount = -60 WHERE id = 4;
SET CONSTRAINTS balanced IMMEDIATE;
UPDATE entry SET amount = 61 WHERE id = 3;
ROLLBACK;
-- An action of a foreign key queues them.
DELETE FROM account WHERE id = 1;
BEGIN;
DELETE FROM account WHERE id = 1;
DELETE FROM entry WHERE account = 2;
COMMIT;
SELECT * FROM entry;
SELECT what FROM audit ORDER BY n;
-- A key that is broken, and a reference that is.
TRUNCATE audit;
INSERT INTO account VALUES (1, 0);
BEGIN;
INSERT INTO entry VALUES (1, 1, 1), (2, 1, -1);
INSERT INTO entry VALUES (1, 1, 1);
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO entry VALUES (1, 9, 1), (2, 9, -1);
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO entry VALUES (1, 9, 1), (2, 9, -1);
INSERT INTO account VALUES (9, 0);
COMMIT;
SELECT * FROM entry ORDER BY id;
-- What cannot be done while events are pending.
BEGIN;
UPDATE entry SET amount = amount;
SAVEPOINT a;
DROP TRIGGER balanced ON entry;
ROLLBACK TO SAVEPOINT a;
ALTER TABLE entry ADD COLUMN more integer;
ROLLBACK TO SAVEPOINT a;
ALTER TABLE entry DISABLE TRIGGER balanced;
ROLLBACK TO SAVEPOINT a;
DROP TABLE entry;
ROLLBACK TO SAVEPOINT a;
TRUNCATE entry;
ROLLBACK TO SAVEPOINT a;
CREATE TABLE beside (n integer);
INSERT INTO beside VALUES (1);
ALTER TABLE beside ADD COLUMN more integer DEFAULT 5;
COMMIT;
SELECT * FROM beside;
SELECT what FROM audit ORDER BY n;
DROP TABLE account, entry;
-- Deferred triggers that queue further ones: in the order of PostgreSQL's queue.
TRUNCATE audit;
CREATE TABLE a (id integer PRIMARY KEY);
CREATE TABLE b (id integer PRIMARY KEY);
CREATE FUNCTION down() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (what) VALUES (format('%s %s %s %s', TG_TABLE_NAME, NEW.id, (SELECT count(*) FROM a), (SELECT count(*) FROM b)));
    IF TG_TABLE_NAME = 'a' THEN
        INSERT INTO b VALUES (NEW.id * 10);
    ELSIF NEW.id < 100 THEN
        INSERT INTO a VALUES (NEW.id + 1);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER down AFTER INSERT ON a DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION down();
CREATE CONSTRAINT TRIGGER down AFTER INSERT ON b DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION down();
INSERT INTO a VALUES (1), (2);
SELECT what FROM audit ORDER BY n;
TRUNCATE audit, a, b;
BEGIN;
INSERT INTO a VALUES (1), (2);
SET CONSTRAINTS ALL IMMEDIATE;
SELECT what FROM audit ORDER BY n;
COMMIT;
TRUNCATE audit, a, b;
BEGIN;
INSERT INTO a VALUES (1);
SET CONSTRAINTS b IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO a VALUES (1), (2);
SET CONSTRAINTS down IMMEDIATE;
SELECT what FROM audit ORDER BY n;
COMMIT;
SELECT * FROM a ORDER BY id;
-- A key that a deferred trigger breaks, or catches.
TRUNCATE audit;
INSERT INTO a VALUES (20);
CREATE OR REPLACE FUNCTION down() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO b VALUES (NEW.id);
    EXCEPTION WHEN unique_violation THEN
        INSERT INTO audit (what) VALUES (format('caught %s', NEW.id));
    END;
    RETURN NULL;
END $$;
DROP TRIGGER down ON b;
INSERT INTO a VALUES (30), (40);
INSERT INTO a VALUES (10);
DELETE FROM a;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO a VALUES (30), (50);
COMMIT;
SELECT what FROM audit ORDER BY n;
SELECT * FROM b ORDER BY id;
-- A cursor, a table of the transaction, AND CHAIN.
BEGIN;
CREATE TABLE made (id integer PRIMARY KEY);
CREATE CONSTRAINT TRIGGER down AFTER INSERT OR UPDATE ON made DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION down();
INSERT INTO made VALUES (60);
UPDATE made SET id = 61;
COMMIT AND CHAIN;
INSERT INTO made VALUES (62);
COMMIT;
SELECT * FROM b ORDER BY id;
-- As many as there are rows, and with SET LOCAL ROLE's rights: those of the event's time.
INSERT INTO made SELECT n FROM generate_series(1000, 3000) n;
SELECT count(*), sum(id) FROM b;
-- What they cannot be.
CREATE CONSTRAINT TRIGGER wrong BEFORE INSERT ON made DEFERRABLE FOR EACH ROW EXECUTE FUNCTION down();
CREATE CONSTRAINT TRIGGER wrong AFTER INSERT ON made DEFERRABLE FOR EACH STATEMENT EXECUTE FUNCTION down();
CREATE TRIGGER wrong AFTER INSERT ON made DEFERRABLE FOR EACH ROW EXECUTE FUNCTION down();
CREATE CONSTRAINT TRIGGER wrong AFTER INSERT ON made NOT DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION down();
SET CONSTRAINTS wrong IMMEDIATE;
DROP SCHEMA late CASCADE;
