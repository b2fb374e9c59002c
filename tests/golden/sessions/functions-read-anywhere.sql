-- Functions that read lake tables, wherever a statement calls them
CREATE SCHEMA read_anywhere;
SET search_path = read_anywhere;
CREATE TABLE item (id integer PRIMARY KEY, t text);
INSERT INTO item SELECT g, 'item ' || g FROM generate_series(1, 5) g;
CREATE FUNCTION counted(name text) RETURNS bigint LANGUAGE plpgsql AS
    $$ DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %I', name) INTO n; RETURN n; END $$;
CREATE FUNCTION opened() RETURNS refcursor LANGUAGE plpgsql AS
    $$ DECLARE made refcursor := 'made'; BEGIN OPEN made FOR EXECUTE 'SELECT * FROM item ORDER BY id'; RETURN made; END $$;
BEGIN;
SELECT opened();
FETCH 2 FROM made;
FETCH ALL FROM made;
COMMIT;
COPY (SELECT counted('item')) TO STDOUT;
CREATE TEMP TABLE x AS SELECT counted('item') AS n;
SELECT * FROM x;
INSERT INTO x SELECT counted('item') + 1;
SELECT * FROM x ORDER BY n;
UPDATE x SET n = counted('item') * 2 WHERE n = 5;
SELECT * FROM x ORDER BY n;
SELECT n FROM x WHERE n = counted('item') + 1;
PREPARE p AS SELECT count(*) FROM item;
DO $$ DECLARE n bigint; BEGIN EXECUTE 'EXECUTE p' INTO n; RAISE NOTICE '% rows', n; END $$;
PREPARE q AS SELECT counted('item');
EXECUTE q;
WITH w AS (SELECT counted('item') AS n) SELECT n + 1 FROM w;
SELECT g, counted('item') FROM generate_series(1, 2) g;
CREATE VIEW v AS SELECT counted('item') AS n;
SELECT * FROM v;
VALUES (counted('item'));
-- PostgreSQL's own functions that are given a query
SELECT word, ndoc FROM ts_stat('SELECT to_tsvector(''simple'', t) FROM item') ORDER BY word;
SELECT ts_rewrite('a', 'SELECT ''a''::tsquery, id::text::tsquery FROM item WHERE id = 3');
SELECT query_to_xml('SELECT * FROM item WHERE id < 3', true, true, '');
DO $$ BEGIN PERFORM count(*) FROM item; INSERT INTO item VALUES (6, 'six'); RAISE NOTICE '%', counted('item'); END $$;
SELECT count(*) FROM item;
DROP SCHEMA read_anywhere CASCADE;
