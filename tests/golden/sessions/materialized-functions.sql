-- Materialized views whose queries call functions made by users.
CREATE SCHEMA functional;
SET search_path = functional;
CREATE TABLE item (id integer PRIMARY KEY, name text, price numeric(8, 2));
INSERT INTO item SELECT n, 'item ' || n, n * 1.25 FROM generate_series(1, 5) n;
CREATE FUNCTION doubled(n numeric) RETURNS numeric IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN n * 2; END $$;
CREATE FUNCTION shown(i item) RETURNS text STABLE LANGUAGE sql AS $$ SELECT i.name || ' for ' || i.price $$;
CREATE FUNCTION cheaper(p numeric) RETURNS bigint STABLE LANGUAGE plpgsql
    AS $$ BEGIN RETURN (SELECT count(*) FROM functional.item WHERE price < p); END $$;
CREATE FUNCTION numbers(up_to integer) RETURNS SETOF integer STABLE LANGUAGE plpgsql
    AS $$ BEGIN RETURN QUERY SELECT generate_series(1, up_to); END $$;
CREATE FUNCTION joined(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT concat_ws('+', $1, $2) $$;
CREATE AGGREGATE together(text) (SFUNC = joined, STYPE = text);
CREATE MATERIALIZED VIEW twice AS SELECT id, doubled(price) AS price, shown(i) FROM item i WHERE doubled(id) > 2;
SELECT * FROM twice ORDER BY id;
CREATE UNIQUE INDEX twice_id ON twice (id);
UPDATE item SET price = price + 1 WHERE id = 3;
INSERT INTO item VALUES (6, 'new', 0.5);
REFRESH MATERIALIZED VIEW twice;
SELECT * FROM twice ORDER BY id;
DELETE FROM item WHERE id = 2;
REFRESH MATERIALIZED VIEW CONCURRENTLY twice;
SELECT * FROM twice ORDER BY id;
CREATE MATERIALIZED VIEW ranks AS SELECT id, cheaper(price) AS rank FROM item;
SELECT * FROM ranks ORDER BY id;
CREATE MATERIALIZED VIEW alone AS SELECT n, doubled(n) AS twice FROM numbers(3) AS n;
SELECT * FROM alone ORDER BY n;
CREATE OR REPLACE FUNCTION doubled(n numeric) RETURNS numeric IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN n * 20; END $$;
REFRESH MATERIALIZED VIEW alone;
SELECT * FROM alone ORDER BY n;
CREATE MATERIALIZED VIEW agg AS SELECT id % 2 AS odd, together(name ORDER BY id) FROM item GROUP BY 1;
SELECT * FROM agg ORDER BY odd;
CREATE MATERIALIZED VIEW late AS SELECT doubled(id) FROM item WITH NO DATA;
SELECT * FROM late;
REFRESH MATERIALIZED VIEW late;
SELECT count(*) FROM late;
CREATE FUNCTION failing(n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql
    AS $$ BEGIN IF n = 4 THEN RAISE 'no %', n USING ERRCODE = 'P0042'; END IF; RETURN n; END $$;
\set VERBOSITY terse
CREATE MATERIALIZED VIEW never AS SELECT failing(id) FROM item;
SELECT * FROM never;
CREATE MATERIALIZED VIEW never AS SELECT failing(n) FROM numbers(4) n;
SELECT * FROM never;
BEGIN;
INSERT INTO item VALUES (7, 'mine', 7);
REFRESH MATERIALIZED VIEW ranks;
SELECT * FROM ranks ORDER BY id;
ROLLBACK;
SELECT * FROM ranks ORDER BY id;
DROP FUNCTION doubled(numeric);
SET client_min_messages = warning;
DROP SCHEMA functional CASCADE;
