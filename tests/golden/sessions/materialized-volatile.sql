-- Materialized views whose queries call VOLATILE functions of users, as functions are by default.
CREATE SCHEMA materialized_volatile;
SET search_path = materialized_volatile;
CREATE TABLE item (id integer PRIMARY KEY, name text, price numeric(8, 2));
INSERT INTO item SELECT n, 'item ' || n, n * 1.25 FROM generate_series(1, 5) n;
CREATE FUNCTION tidy(t text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN upper(trim(t)); END $$;
CREATE FUNCTION vat(p numeric) RETURNS numeric LANGUAGE sql AS $$ SELECT round(p * 1.077, 2) $$;
CREATE FUNCTION cheaper(p numeric) RETURNS bigint LANGUAGE plpgsql
    AS $$ BEGIN RETURN (SELECT count(*) FROM materialized_volatile.item WHERE price < p); END $$;
CREATE FUNCTION told(n integer) RETURNS integer LANGUAGE plpgsql
    AS $$ BEGIN RAISE NOTICE 'row %', n; RETURN n; END $$;
CREATE MATERIALIZED VIEW tidied AS SELECT id, tidy(name) AS name, vat(price) AS price FROM item WHERE vat(id) > 2;
SELECT * FROM tidied ORDER BY id;
CREATE UNIQUE INDEX tidied_id ON tidied (id);
UPDATE item SET name = '  changed ' WHERE id = 3;
REFRESH MATERIALIZED VIEW tidied;
SELECT * FROM tidied ORDER BY id;
DELETE FROM item WHERE id = 4;
INSERT INTO item VALUES (9, 'nine', 9);
REFRESH MATERIALIZED VIEW CONCURRENTLY tidied;
SELECT * FROM tidied ORDER BY id;
CREATE MATERIALIZED VIEW ranks AS SELECT id, cheaper(price) AS rank FROM item;
SELECT * FROM ranks ORDER BY id;
CREATE MATERIALIZED VIEW alone AS SELECT told(n) AS n, tidy('x' || n) FROM generate_series(1, 3) AS n;
SELECT * FROM alone ORDER BY n;
CREATE MATERIALIZED VIEW late AS SELECT told(id) AS id FROM item WHERE id < 3 WITH NO DATA;
REFRESH MATERIALIZED VIEW late;
SELECT * FROM late ORDER BY id;
BEGIN;
INSERT INTO item VALUES (10, 'ten', 10);
REFRESH MATERIALIZED VIEW ranks;
SELECT * FROM ranks ORDER BY id;
ROLLBACK;
SELECT * FROM ranks ORDER BY id;
CREATE FUNCTION failing(n integer) RETURNS integer LANGUAGE plpgsql
    AS $$ BEGIN IF n = 3 THEN RAISE 'no %', n USING ERRCODE = 'P0042'; END IF; RETURN n; END $$;
\set VERBOSITY terse
CREATE MATERIALIZED VIEW never AS SELECT failing(id) FROM item;
SELECT * FROM never;
SET client_min_messages = warning;
DROP SCHEMA materialized_volatile CASCADE;
