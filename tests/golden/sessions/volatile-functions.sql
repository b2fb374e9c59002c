-- Volatile functions over rows of the lake: what they do lasts, or is undone with its transaction.
\pset null <null>
CREATE SCHEMA doing;
SET search_path = doing;
CREATE TABLE item (n integer PRIMARY KEY, t text);
INSERT INTO item SELECT g, 'item ' || g FROM generate_series(1, 100) g;
CREATE TABLE other (n integer);
INSERT INTO other VALUES (1), (2), (3);
CREATE TEMPORARY TABLE own (n integer);
CREATE SEQUENCE drawn;
CREATE FUNCTION plain(integer) RETURNS integer LANGUAGE sql AS 'SELECT $1 * 3';
CREATE FUNCTION plain_sum(integer, integer) RETURNS integer LANGUAGE sql AS 'SELECT $1 + $2';
CREATE AGGREGATE total(integer) (SFUNC = plain_sum, STYPE = integer, INITCOND = '0');
CREATE FUNCTION noted(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN PERFORM set_config('application_name', 'noted ' || $1, false); PERFORM set_config('doing.at', $1::text, false); RETURN $1; END $$;
CREATE FUNCTION logged(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO own VALUES ($1); PERFORM nextval('drawn'); RETURN (SELECT count(*) FROM own); END $$;
CREATE FUNCTION looked(integer) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM item WHERE n < $1); END $$;
CREATE FUNCTION failing(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO own VALUES ($1); RETURN 1 / ($1 - 3); END $$;
CREATE FUNCTION forgiving(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN RETURN failing($1); EXCEPTION WHEN division_by_zero THEN RAISE NOTICE 'forgiven'; RETURN NULL; END $$;
CREATE FUNCTION opened() RETURNS refcursor LANGUAGE plpgsql AS $$
    DECLARE c refcursor := 'opened'; BEGIN OPEN c FOR VALUES (1), (2); RETURN c; END $$;
SELECT plain(n) FROM item WHERE plain(n) > 290 ORDER BY n;
SELECT total(n), total(plain(n)) FILTER (WHERE n < 10) FROM item;
SELECT i.n, plain(o.n) FROM item i JOIN other o ON plain(i.n) = o.n * 3 ORDER BY 1;
SELECT noted(n) FROM item WHERE n < 3 ORDER BY n;
SHOW application_name;
SHOW doing.at;
SELECT count(i) FROM item i;
SELECT logged(n) FROM item WHERE n < 4 ORDER BY n;
SELECT n FROM own ORDER BY n;
SELECT last_value FROM drawn;
SELECT n, looked(n) FROM item WHERE n < 4 ORDER BY n;
PREPARE p (integer) AS SELECT logged(n) FROM item WHERE n = $1;
EXECUTE p (50);
SELECT count(*), max(n) FROM own;
-- in a COPY
COPY (SELECT noted(n) FROM item WHERE n BETWEEN 5 AND 6 ORDER BY n) TO STDOUT;
SHOW application_name;
COPY (SELECT logged(n) FROM item WHERE n < 4 ORDER BY n) TO STDOUT (FORMAT csv, HEADER);
COPY (SELECT failing(n) FROM item WHERE n < 5 ORDER BY n) TO STDOUT;
SELECT n FROM own ORDER BY n;
SELECT last_value FROM drawn;
BEGIN;
COPY (SELECT logged(n) FROM item WHERE n < 4 ORDER BY n) TO STDOUT;
ROLLBACK;
SELECT n FROM own ORDER BY n;
-- in a block
BEGIN;
SELECT noted(n) FROM item WHERE n = 7;
SHOW application_name;
SHOW session_replication_role;
SHOW idle_in_transaction_session_timeout;
SHOW max_parallel_workers_per_gather;
SELECT logged(n) FROM item WHERE n < 3 ORDER BY n;
SAVEPOINT s;
SELECT logged(n) FROM item WHERE n < 3 ORDER BY n;
ROLLBACK TO s;
SELECT logged(n) FROM item WHERE n = 1;
INSERT INTO item VALUES (101, 'new');
SELECT logged(n) FROM item WHERE n > 100;
SELECT logged(n), i FROM item i WHERE n > 100;
UPDATE item SET t = 'newer' WHERE n > 100;
COMMIT;
SELECT count(*) FROM own;
SELECT count(i), max(n) FROM item i;
SELECT i FROM item i WHERE n > 100;
SHOW application_name;
BEGIN;
SELECT noted(n), logged(n) FROM item WHERE n = 8;
ROLLBACK;
SHOW application_name;
SELECT count(*) FROM own;
SELECT logged(n) FROM item WHERE n = 9 \; SELECT count(*) FROM own \; SELECT 1 / (n - 9) FROM item WHERE n = 9;
SELECT count(*) FROM own;
-- where they fail
SELECT failing(n) FROM item WHERE n < 5 ORDER BY n;
SELECT count(*) FROM own;
BEGIN;
SAVEPOINT s;
SELECT failing(n), i FROM item i WHERE n < 5 ORDER BY n;
ROLLBACK TO s;
SELECT failing(n), i FROM item i WHERE n = 7;
COMMIT;
SELECT count(*) FROM own;
SELECT forgiving(n) FROM item WHERE n IN (2, 3, 4) ORDER BY n;
SELECT count(*) FROM own;
SELECT count(i) FROM item i;
-- transactions of other kinds
BEGIN READ ONLY;
SELECT plain(n) FROM item WHERE n < 3 ORDER BY n;
SELECT logged(n) FROM item WHERE n = 3;
ROLLBACK;
CREATE FUNCTION only_own(integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN INSERT INTO own VALUES ($1); RETURN $1; END $$;
BEGIN READ ONLY;
SELECT only_own(n) FROM item WHERE n = 3;
SHOW transaction_read_only;
INSERT INTO item VALUES (200, 'no');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT looked(n) FROM item WHERE n = 9;
SELECT logged(n) FROM item WHERE n = 9;
COMMIT;
BEGIN;
ALTER TABLE item ADD COLUMN more integer DEFAULT 7;
SELECT noted(more), logged(more) FROM item WHERE n = 1;
SHOW application_name;
COMMIT;
SELECT max(more) FROM item;
SELECT count(*) FROM own;
BEGIN;
SELECT opened(), o FROM other o WHERE n = 1;
FETCH ALL FROM opened;
COMMIT;
SELECT count(o) FROM other o;
SET client_min_messages = warning;
DROP SCHEMA doing CASCADE;
