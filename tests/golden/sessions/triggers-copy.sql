-- COPY into tables with triggers.
CREATE SCHEMA tc;
SET search_path = tc;
SET client_min_messages = notice;
CREATE TABLE t (id integer PRIMARY KEY, n integer, s text DEFAULT 'none', twice integer GENERATED ALWAYS AS (n * 2) STORED);
CREATE TABLE log (what text);
CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.n IS NULL THEN RETURN NULL; END IF;
    IF NEW.n < 0 THEN RAISE EXCEPTION 'negative: %', NEW.id; END IF;
    NEW.s := upper(NEW.s);
    RETURN NEW;
END $$;
CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO log VALUES (NEW.id || ' of ' || (SELECT count(*) FROM t)); RETURN NULL; END $$;
CREATE FUNCTION after_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE '% rows', (SELECT count(*) FROM r); RETURN NULL; END $$;
CREATE TRIGGER before_row BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION before_row();
CREATE TRIGGER after_row AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION after_row();
CREATE TRIGGER after_all AFTER INSERT ON t REFERENCING NEW TABLE AS r EXECUTE FUNCTION after_all();
COPY t (id, n, s) FROM STDIN;
1	10	one
2	\N	two
3	30	three
\.
COPY t (id, n) FROM STDIN (FORMAT csv, HEADER);
id,n
4,40
5,50
\.
SELECT * FROM t ORDER BY id;
SELECT * FROM log ORDER BY what;
COPY t (id, n) FROM STDIN;
6	60
7	-70
8	80
\.
COPY t (id, n) FROM STDIN;
9	90
1	11
\.
COPY t (id, n) FROM STDIN;
9	x
\.
COPY t (id, n) FROM STDIN WHERE n > 100;
10	5
11	500
\.
COPY t (id, n) FROM STDIN (ON_ERROR ignore);
12	12
x	13
14	14
\.
COPY t (nothing) FROM STDIN;
COPY t (twice) FROM STDIN;
COPY t FROM STDIN;
\.
BEGIN;
COPY t (id, n) FROM STDIN;
20	20
\.
SAVEPOINT s;
COPY t (id, n) FROM STDIN;
21	-1
\.
ROLLBACK TO s;
COPY t (id, n) FROM STDIN;
22	22
\.
COMMIT;
SELECT * FROM t ORDER BY id;
SELECT * FROM log ORDER BY what;
DROP SCHEMA tc CASCADE;
