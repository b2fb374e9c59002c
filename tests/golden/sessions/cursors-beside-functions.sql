-- Functions, triggers and DO while cursors are open, and cursors over functions.
CREATE SCHEMA cf;
SET search_path = cf;
CREATE TABLE t (a int PRIMARY KEY, b text);
INSERT INTO t SELECT i, 'x' || i FROM generate_series(1, 6) i;
CREATE TABLE log (a int, b text);
CREATE FUNCTION number_of() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM t';
CREATE FUNCTION b_of(i int) RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT b FROM t WHERE a = i); END';
CREATE FUNCTION b_now(i int) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT b FROM t WHERE a = i); END';
CREATE FUNCTION all_of() RETURNS SETOF t LANGUAGE sql STABLE AS 'SELECT * FROM t ORDER BY a';
CREATE FUNCTION all_now() RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t ORDER BY a';
CREATE FUNCTION written(i int) RETURNS int LANGUAGE plpgsql AS
    $$BEGIN INSERT INTO log VALUES (i, 'written'); RETURN (SELECT count(*) FROM log); END$$;

-- queries, changes and DO between fetches
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a;
FETCH c;
SELECT number_of(), b_of(2);
FETCH c;
INSERT INTO log SELECT a, b_of(a) FROM t WHERE a < 3;
FETCH c;
DO $$BEGIN UPDATE t SET b = b || 'y' WHERE a = 5; PERFORM written(7); END$$;
FETCH c;
SELECT a FROM t WHERE b_now(a) = 'x5y';
FETCH ALL c;
COMMIT;

-- savepoints before and after DECLARE; cursors that scroll; what was fetched stays so
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a;
SAVEPOINT s;
FETCH c;
SELECT number_of();
ROLLBACK TO s;
FETCH c;
SELECT b_of(3);
SAVEPOINT s2;
DECLARE d SCROLL CURSOR FOR SELECT a FROM t ORDER BY a DESC;
FETCH 2 d;
SELECT written(8);
FETCH BACKWARD d;
SELECT name, is_holdable FROM pg_cursors ORDER BY name;
ROLLBACK TO s2;
FETCH 2 c;
FETCH d;
ROLLBACK TO s2;
DECLARE d SCROLL CURSOR FOR SELECT a FROM t ORDER BY a;
RELEASE s2;
SELECT number_of();
FETCH LAST d;
FETCH RELATIVE -2 d;
COMMIT;
SELECT * FROM log ORDER BY a, b;

-- other kinds of transactions
BEGIN READ ONLY;
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a;
FETCH c;
SELECT number_of();
SAVEPOINT s;
FETCH c;
SELECT b_of(4);
ROLLBACK TO s;
FETCH c;
SELECT written(9);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a;
SELECT number_of();
FETCH c;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
DECLARE c NO SCROLL CURSOR FOR SELECT a, b_of(a) FROM t ORDER BY a FOR UPDATE;
FETCH c;
DO $$BEGIN UPDATE t SET b = 'z' WHERE a = 6; END$$;
FETCH c;
ROLLBACK;

-- triggers, and a cursor that outlives its transaction, with or without changes that are undone
CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN INSERT INTO log VALUES (NEW.a, 'trigger'); RETURN NEW; END$$;
CREATE TRIGGER logged BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION logged();
DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT a, b FROM t ORDER BY a;
FETCH h;
UPDATE t SET b = 'third' WHERE a = 3;
FETCH 2 h;
BEGIN;
INSERT INTO t VALUES (9, 'nine');
SAVEPOINT s;
FETCH h;
SELECT number_of();
ROLLBACK TO s;
FETCH h;
ROLLBACK;
SELECT number_of();
FETCH ALL h;
CLOSE h;
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a;
INSERT INTO t SELECT a + 100, b FROM t WHERE a < 3;
FETCH ALL c;
ALTER TABLE t ADD COLUMN more int;
ROLLBACK;
SELECT * FROM log ORDER BY a, b;

-- errors, and cursors that functions close
CREATE FUNCTION closed() RETURNS int LANGUAGE plpgsql AS $$BEGIN EXECUTE 'CLOSE c'; RETURN number_of(); END$$;
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a;
FETCH c;
SELECT closed();
FETCH c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a;
FETCH c;
DO $$BEGIN PERFORM number_of(); RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN RAISE NOTICE '%', SQLERRM; END$$;
FETCH c;
DO $$BEGIN RAISE EXCEPTION 'no rows but %', number_of(); END$$;
ROLLBACK;

-- cursors over functions: STABLE ones see the time of DECLARE, VOLATILE ones that of FETCH
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM all_of();
FETCH 2 c;
FETCH BACKWARD 1 c;
INSERT INTO t VALUES (10, 'ten');
FETCH ALL c;
MOVE FIRST c;
FETCH c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM all_now();
INSERT INTO t VALUES (10, 'ten');
FETCH 2 c;
FETCH ALL c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT i, b_of(i), b_now(i) FROM generate_series(1, 4) i;
FETCH c;
UPDATE t SET b = 'new' WHERE a IN (2, 3);
FETCH 2 c;
SAVEPOINT s;
FETCH c;
ROLLBACK TO s;
FETCH c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT written(i) FROM generate_series(20, 24) i;
FETCH 2 c;
SELECT count(*) FROM log WHERE a >= 20;
FETCH c;
COMMIT;
SELECT * FROM log WHERE a >= 20 ORDER BY a;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM all_of() LIMIT 2;
DECLARE d CURSOR FOR SELECT a FROM t ORDER BY a;
FETCH c;
FETCH d;
FETCH c;
FETCH d;
DECLARE c CURSOR FOR SELECT * FROM all_of();
ROLLBACK;
DECLARE c CURSOR FOR SELECT * FROM all_of();
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM no_function();
ROLLBACK;

-- the same of functions that return a cursor
CREATE FUNCTION opened(n int) RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE
    c refcursor := 'opened';
BEGIN
    OPEN c FOR SELECT a, b_of(a), b_now(a) FROM t WHERE a <= n ORDER BY a;
    RETURN c;
END$$;
BEGIN;
SELECT opened(4);
FETCH opened;
UPDATE t SET b = 'newer' WHERE a = 2;
FETCH opened;
MOVE opened;
FETCH ALL opened;
ROLLBACK;
CREATE FUNCTION opened_of_all() RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE
    c refcursor := 'opened';
BEGIN
    OPEN c FOR SELECT * FROM all_now();
    RETURN c;
END$$;
BEGIN;
SELECT opened_of_all();
FETCH 2 opened;
FETCH ALL opened;
COMMIT;

-- cursors over tables that call VOLATILE functions: these run as the rows are fetched
CREATE SEQUENCE calls;
CREATE FUNCTION called(i int) RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM nextval('calls'); RETURN i * 10; END$$;
BEGIN;
DECLARE c CURSOR FOR SELECT called(a), b FROM t ORDER BY a;
FETCH 2 c;
SELECT last_value FROM calls;
FETCH ALL c;
SELECT last_value - count(*) FROM calls, t GROUP BY last_value;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a, b_now(a) FROM t ORDER BY a;
FETCH 2 c;
UPDATE t SET b = 'n' WHERE a = 4;
FETCH BACKWARD c;
FETCH ALL c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT written(a + 30) FROM t ORDER BY a DESC;
FETCH 2 c;
SELECT count(*) FROM log WHERE a >= 30;
SAVEPOINT s;
FETCH c;
ROLLBACK TO s;
FETCH c;
COMMIT;
SELECT * FROM log WHERE a >= 30 ORDER BY a;
DECLARE c CURSOR FOR SELECT called(a), b FROM t ORDER BY a;
