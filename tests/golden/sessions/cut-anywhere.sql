-- Rows that are measured or held back while notices are told: rows arrive cut anywhere, and look like notices.
CREATE SCHEMA cut_anywhere;
SET search_path = cut_anywhere;
CREATE TABLE e (id int PRIMARY KEY, t text);
INSERT INTO e SELECT i, 'x' FROM generate_series(1,3) i;
CREATE FUNCTION says(text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN RAISE NOTICE 'said %', $1; RETURN repeat('N', 3000000); END $$;
CREATE TABLE r (n int, t text);
\o /dev/null
EXPLAIN ANALYZE SELECT id, repeat('N', 3000000), to_json(e) FROM e;
EXPLAIN ANALYZE SELECT says(t) FROM e;
\o
SELECT 'in step' AS one;
WITH a AS (INSERT INTO r VALUES (1, 'x') RETURNING n) INSERT INTO r SELECT n, repeat('N', 3000000) FROM a RETURNING n, t IS NULL, length(t);
\o /dev/null
WITH a AS (INSERT INTO r VALUES (1, 'x') RETURNING n) INSERT INTO r SELECT n, repeat('N', 3000000) FROM a RETURNING n, t;
WITH a AS (INSERT INTO r VALUES (1, 'x') RETURNING n) INSERT INTO r SELECT n, says('y') FROM a RETURNING n, t;
WITH a AS (INSERT INTO r VALUES (1, 'x') RETURNING n) SELECT n, says('y') FROM a;
\o
SELECT 'in step' AS two;
SET client_encoding = 'latin1';
\o /dev/null
EXPLAIN ANALYZE SELECT id, to_json(e) FROM e;
EXPLAIN ANALYZE SELECT says(t) FROM e;
\o
SELECT 'in step' AS three;
DROP TABLE e, r;
DROP FUNCTION says(text);
DROP SCHEMA cut_anywhere;
