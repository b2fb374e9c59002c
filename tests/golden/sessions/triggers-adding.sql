-- INSERTs whose triggers only add rows, one after another, and what makes the next one do more.
CREATE SCHEMA ta;
SET search_path = ta;
SET client_min_messages = notice;

CREATE TABLE item (id serial PRIMARY KEY, name text, price integer CHECK (price < 1000), made text);
CREATE TABLE log (n integer GENERATED ALWAYS AS IDENTITY, item integer, what text);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name = 'bad' THEN RAISE EXCEPTION 'bad name' USING ERRCODE = 'check_violation', HINT = 'Another name.'; END IF;
    IF NEW.name = 'none' THEN RETURN NULL; END IF;
    NEW.made := 'by ' || TG_NAME;
    RETURN NEW;
END $$;
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'item % of %', NEW.id, NEW.price;
    IF NEW.price > 10 THEN INSERT INTO log (item, what) VALUES (NEW.id, NEW.name); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER stamp BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE TRIGGER audit AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION audit();

-- each like the last one
INSERT INTO item (name, price) VALUES ('a', 1);
INSERT INTO item (name, price) VALUES ('b', 2);
INSERT INTO item (name, price) VALUES ('c', 3);
-- another table gets a row, and the next one too
INSERT INTO item (name, price) VALUES ('d', 20);
INSERT INTO item (name, price) VALUES ('e', 30);
INSERT INTO item (name, price) VALUES ('f', 4), ('g', 40), ('none', 5), ('h', 50) RETURNING id, name, made;
INSERT INTO item (name, price) SELECT 's' || g, g * 9 FROM generate_series(1, 3) g RETURNING *;
INSERT INTO item DEFAULT VALUES;
INSERT INTO item (name) VALUES ('none');
SELECT * FROM item ORDER BY id;
SELECT * FROM log ORDER BY n;
-- errors: of a trigger, of a CHECK, of a type, of a key that the lake has, of a key twice
INSERT INTO item (name, price) VALUES ('bad', 1);
INSERT INTO item (name, price) VALUES ('x', 1000);
INSERT INTO item (name, price) VALUES ('x', 'y');
INSERT INTO item (id, name, price) VALUES (1, 'first', 11);
INSERT INTO item (id, name, price) VALUES (70, 'once', 11), (70, 'twice', 12);
INSERT INTO item (id, name, price) VALUES (80, 'i', 60) RETURNING made;
SELECT count(*), max(id), sum(price) FROM item;
SELECT item, what FROM log ORDER BY n;

-- in a block, with savepoints
BEGIN;
INSERT INTO item (id, name, price) VALUES (101, 'k', 61);
SAVEPOINT one;
INSERT INTO item (id, name, price) VALUES (102, 'l', 62);
INSERT INTO item (id, name, price) VALUES (103, 'm', 3);
ROLLBACK TO one;
INSERT INTO item (id, name, price) VALUES (104, 'n', 64);
INSERT INTO item (id, name, price) VALUES (101, 'again', 65);
ROLLBACK TO one;
INSERT INTO item (id, name, price) VALUES (105, 'o', 66);
SELECT id, name FROM item WHERE id > 100 ORDER BY id;
COMMIT;
BEGIN;
INSERT INTO item (id, name, price) VALUES (106, 'p', 67);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO item (id, name, price) VALUES (107, 'q', 68);
INSERT INTO item (id, name, price) VALUES (108, 'r', 69);
COMMIT;
SELECT id, name, made FROM item WHERE id > 100 ORDER BY id;
SELECT item, what FROM log WHERE item > 100 ORDER BY n;

-- prepared
PREPARE one (integer, text, integer) AS INSERT INTO item (id, name, price) VALUES ($1, $2, $3);
EXECUTE one (201, 'u', 1);
EXECUTE one (202, 'v', 71);
EXECUTE one (201, 'w', 72);
EXECUTE one (203, 'x', 73);
SELECT id, name, made FROM item WHERE id > 200 ORDER BY id;

-- a trigger that begins to look at rows, by its data
CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.item = 0 THEN NEW.item := (SELECT count(*) FROM log); END IF;
    RETURN NEW;
END $$;
CREATE TABLE watched (item integer, what text);
CREATE TRIGGER looks BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION looks();
INSERT INTO watched VALUES (1, 'one');
INSERT INTO watched VALUES (2, 'two');
INSERT INTO watched VALUES (3, 'three');
INSERT INTO watched VALUES (0, 'counted');
INSERT INTO watched VALUES (4, 'four');
INSERT INTO watched VALUES (0, 'again');
SELECT item, what FROM watched ORDER BY item, what;

-- a function that is replaced: by one that sets, one that writes to a temporary table, one that reads, one that removes
CREATE TABLE t (a integer);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a + 1; RETURN NEW; END $$;
CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2);
INSERT INTO t VALUES (3);
CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('ta.last', NEW.a::text, false); RETURN NEW; END $$;
INSERT INTO t VALUES (10);
SELECT current_setting('ta.last');
INSERT INTO t VALUES (11);
SELECT current_setting('ta.last');
CREATE TEMP TABLE aside (a integer);
CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO aside VALUES (NEW.a); RETURN NEW; END $$;
INSERT INTO t VALUES (20);
INSERT INTO t VALUES (21);
INSERT INTO t VALUES (22);
SELECT * FROM aside ORDER BY a;
CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a * 2; RETURN NEW; END $$;
INSERT INTO t VALUES (30);
INSERT INTO t VALUES (31);
CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE a < 10; RETURN NEW; END $$;
INSERT INTO t VALUES (40);
SELECT a FROM t ORDER BY a;
-- the audit's table is another by the search path, and then a temporary one
CREATE SCHEMA ta2;
CREATE TABLE ta2.log (n integer, item integer, what text);
INSERT INTO item (id, name, price) VALUES (301, 'here', 80);
INSERT INTO item (id, name, price) VALUES (302, 'here', 80);
SET search_path = ta2, ta;
INSERT INTO ta.item (id, name, price) VALUES (303, 'there', 80);
INSERT INTO ta.item (id, name, price) VALUES (304, 'there', 80);
SET search_path = ta;
CREATE TEMP TABLE log (n integer, item integer, what text);
INSERT INTO item (id, name, price) VALUES (305, 'aside', 80);
INSERT INTO item (id, name, price) VALUES (306, 'aside', 80);
SELECT item, what FROM ta.log WHERE item > 300 ORDER BY item;
SELECT item, what FROM ta2.log ORDER BY item;
SELECT item, what FROM pg_temp.log ORDER BY item;
DROP TABLE pg_temp.log;
-- the trigger goes, another comes, the table changes
ALTER TABLE item DISABLE TRIGGER stamp;
INSERT INTO item (id, name, price) VALUES (401, 'plain', 1);
ALTER TABLE item ENABLE TRIGGER stamp;
INSERT INTO item (id, name, price) VALUES (402, 'stamped', 1);
ALTER TABLE item ADD COLUMN extra integer DEFAULT 5;
INSERT INTO item (id, name, price) VALUES (403, 'wider', 1);
INSERT INTO item (id, name, price, extra) VALUES (404, 'wider', 1, 6);
INSERT INTO item (id, name, price, extra) VALUES (405, 'wider', 81, 7);
SELECT id, name, made, extra FROM item WHERE id > 400 ORDER BY id;
-- rows that refer to one another, and to others
CREATE TABLE head (id integer PRIMARY KEY, parent integer REFERENCES head);
CREATE TABLE line (head integer REFERENCES head, n integer);
CREATE FUNCTION first_line() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO line VALUES (NEW.id, 1); RETURN NEW; END $$;
CREATE TRIGGER first_line AFTER INSERT ON head FOR EACH ROW EXECUTE FUNCTION first_line();
INSERT INTO head VALUES (1, NULL);
INSERT INTO head VALUES (2, 1);
INSERT INTO head VALUES (3, 2);
INSERT INTO head VALUES (4, 9);
CREATE FUNCTION numbered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := coalesce(NEW.n, 7); RETURN NEW; END $$;
CREATE TRIGGER numbered BEFORE INSERT ON line FOR EACH ROW EXECUTE FUNCTION numbered();
INSERT INTO line VALUES (1, NULL);
INSERT INTO line VALUES (2, NULL);
INSERT INTO line VALUES (3, 5);
INSERT INTO line VALUES (8, NULL);
INSERT INTO line VALUES (1, 6);
SELECT * FROM head ORDER BY id;
SELECT * FROM line ORDER BY head, n;
-- an exception that is caught, with rows that go
CREATE TABLE tried (a integer, b integer);
CREATE FUNCTION tries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO log (item, what) VALUES (NEW.a, 'tried');
        IF NEW.b = 0 THEN RAISE division_by_zero; END IF;
    EXCEPTION WHEN division_by_zero THEN
        NEW.b := -1;
    END;
    RETURN NEW;
END $$;
CREATE TRIGGER tries BEFORE INSERT ON tried FOR EACH ROW EXECUTE FUNCTION tries();
INSERT INTO tried VALUES (501, 1);
INSERT INTO tried VALUES (502, 2);
INSERT INTO tried VALUES (503, 0);
INSERT INTO tried VALUES (504, 4);
SELECT * FROM tried ORDER BY a;
SELECT item, what FROM log WHERE item > 500 ORDER BY item;
-- a view that hides an effect
CREATE VIEW seen AS SELECT item, what FROM log;
CREATE FUNCTION by_view() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO seen VALUES (NEW.a, 'by view'); RETURN NEW; END $$;
CREATE TABLE viewed (a integer);
CREATE TRIGGER by_view BEFORE INSERT ON viewed FOR EACH ROW EXECUTE FUNCTION by_view();
INSERT INTO viewed VALUES (601);
INSERT INTO viewed VALUES (602);
INSERT INTO viewed VALUES (603);
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('ta.seen', NEW.item::text, false); RETURN NEW; END $$;
CREATE TRIGGER instead INSTEAD OF INSERT ON seen FOR EACH ROW EXECUTE FUNCTION instead();
INSERT INTO viewed VALUES (604);
SELECT current_setting('ta.seen');
INSERT INTO viewed VALUES (605);
SELECT current_setting('ta.seen');
SELECT item, what FROM log WHERE item > 600 ORDER BY item;
SELECT count(*) FROM viewed;
-- a cast that is made later, and whose function sets
CREATE TYPE pair AS (a integer, b integer);
CREATE FUNCTION pair_text(pair) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM set_config('ta.cast', ($1).a::text, false); RETURN ($1).a || ' and ' || ($1).b; END $$;
CREATE TABLE paired (a integer, what text);
CREATE FUNCTION pairs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE p pair := ROW(NEW.a, 1);
BEGIN NEW.what := p; RETURN NEW; END $$;
CREATE TRIGGER pairs BEFORE INSERT ON paired FOR EACH ROW EXECUTE FUNCTION pairs();
INSERT INTO paired VALUES (1);
INSERT INTO paired VALUES (2);
INSERT INTO paired VALUES (3);
CREATE CAST (pair AS text) WITH FUNCTION pair_text(pair) AS ASSIGNMENT;
-- PostgreSQL keeps the way without it as long as the session lasts
\c -
SET search_path = ta;
INSERT INTO paired VALUES (4);
SELECT current_setting('ta.cast', true);
INSERT INTO paired VALUES (5);
SELECT current_setting('ta.cast', true);
SELECT * FROM paired ORDER BY a;
-- locks, large objects and cursors of triggers last
CREATE FUNCTION locks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_lock(77, NEW.a); RETURN NEW; END $$;
CREATE TABLE locked (a integer);
CREATE TRIGGER locks BEFORE INSERT ON locked FOR EACH ROW EXECUTE FUNCTION locks();
INSERT INTO locked VALUES (1);
INSERT INTO locked VALUES (2);
INSERT INTO locked VALUES (3);
SELECT objid, count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 77 GROUP BY objid ORDER BY objid;
SELECT pg_advisory_unlock_all();
