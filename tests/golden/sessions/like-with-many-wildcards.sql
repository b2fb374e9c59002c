-- LIKE takes time by the length of the text, whatever the number of %.
CREATE SCHEMA wildcards; SET search_path = wildcards;
CREATE TABLE t (id integer, s text);
INSERT INTO t SELECT i, repeat('z', 50) FROM generate_series(1, 3000) i;
INSERT INTO t VALUES (9000, 'zax' || chr(10) || 'bz%_x'), (9001, NULL), (9002, ''), (9003, 'ÄöÜ😀x');
SELECT count(*) FROM t WHERE s LIKE '%z%z%z%z%z%z%z%z%z%z%z%z%';
SELECT count(*) FROM t WHERE s LIKE '%z%z%z%z%z%z%z%z%z%z%z%z%x';
SELECT count(*) FROM t WHERE s LIKE repeat('z%', 30) || 'z';
SELECT count(*) FROM t WHERE s NOT LIKE '%z%z%z%z%z%z%z%z%x';
SELECT id FROM t WHERE s LIKE 'z%x%b%' ORDER BY 1;
SELECT id FROM t WHERE s LIKE '%z%\%\_%' ORDER BY 1;
SELECT id FROM t WHERE s LIKE '%z%\%\_x' ORDER BY 1;
SELECT id FROM t WHERE s LIKE '%a%_%z%' ORDER BY 1;
SELECT id FROM t WHERE s LIKE '%ö%_x' ORDER BY 1;
SELECT id FROM t WHERE s LIKE '%Ö%__' ORDER BY 1;
SELECT id FROM t WHERE s ILIKE '%ZA%bz%' ORDER BY 1;
SELECT id FROM t WHERE s NOT LIKE '%z%z%' ORDER BY 1;
SELECT count(*) FROM t WHERE s LIKE '_%_%_';
SELECT count(*) FROM t WHERE s LIKE '%zz%zz%zz';
SELECT count(*) FROM t WHERE s LIKE 'zz%zz%zz';
SELECT count(*) FROM t WHERE s LIKE '%%%';

-- rows as values of composite columns
CREATE TYPE pair AS (x integer, y text);
CREATE TABLE c (id integer, c pair, other pair);
INSERT INTO c VALUES (1, row(1, 'a')::pair);
UPDATE c SET c = (9, 'z') WHERE id = 1 RETURNING *;
UPDATE c SET c = (8, 'y')::pair WHERE id = 1 RETURNING *;
UPDATE c SET c = row(7, 'w'), other = c;
UPDATE c SET c = row(id, (c).y || 'x') RETURNING *;
MERGE INTO c USING (VALUES (1)) v (k) ON id = k WHEN MATCHED THEN UPDATE SET c = (6, 'm') RETURNING c;
INSERT INTO c SELECT id + 1, row(id, 'n')::pair, other FROM c RETURNING *;
SELECT * FROM c ORDER BY id;
SET client_min_messages = error;
DROP SCHEMA wildcards CASCADE;
