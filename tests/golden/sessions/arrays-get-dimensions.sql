-- Columns that are declared with one dimension, or none, and get values of several all the same: after a dump, or from ORMs.
CREATE SCHEMA get_dimensions;
SET search_path = get_dimensions;
CREATE TABLE t (id integer PRIMARY KEY, i integer[], n numeric(6, 2)[], x text[], b integer ARRAY, s integer DEFAULT 1);
INSERT INTO t (id, i, n, x) VALUES (1, '{1,2}', '{1.5,NULL}', '{a,"b c"}'), (2, NULL, '{}', NULL), (3, '{}', NULL, '{"{",""}');
INSERT INTO t (id, i) VALUES (4, '{{1,2},{3,4}}') RETURNING id, i;
INSERT INTO t (id, i, x) VALUES (5, '{5}', '{{a},{NULL}}'), (6, '[0:1]={6,7}', '{}') RETURNING *;
SELECT * FROM t ORDER BY id;
SELECT id, i[1], array_dims(i), 2 = ANY (i), array_length(x, 1) FROM t ORDER BY id;
SELECT id FROM t WHERE i = '{1,2}';
UPDATE t SET n = '{{1,2}}' WHERE id = 1 RETURNING n;
UPDATE t SET b = ARRAY[i, i] WHERE id = 1 RETURNING id, b;
SELECT * FROM t ORDER BY id;
BEGIN;
CREATE TABLE made (id integer, a integer[], c text[]);
INSERT INTO made VALUES (1, '{1}', '{x}');
INSERT INTO made VALUES (2, '{{2},{3}}', '{y}');
UPDATE made SET c = '{{z}}' WHERE id = 1;
SELECT * FROM made ORDER BY id;
COMMIT;
SELECT * FROM made ORDER BY id;
CREATE TABLE undone (id integer, a integer[]);
INSERT INTO undone VALUES (1, '{1}');
BEGIN;
SAVEPOINT s;
INSERT INTO undone VALUES (2, '{{2},{3}}');
SELECT * FROM undone ORDER BY id;
ROLLBACK TO s;
INSERT INTO undone VALUES (3, '{3}');
SELECT * FROM undone ORDER BY id;
COMMIT;
SELECT * FROM undone ORDER BY id;
INSERT INTO undone VALUES (4, '{{4}}');
BEGIN;
INSERT INTO undone VALUES (5, '{{5}}');
ROLLBACK;
SELECT * FROM undone ORDER BY id;
CREATE TABLE copied (id integer, a integer[], c text[]);
COPY copied FROM STDIN;
1	{1}	{a}
2	{{2},{3}}	{b}
3	{3}	{{c,d}}
4	\N	\N
\.
COPY copied TO STDOUT;
COPY copied FROM STDIN;
5	{{5}}	{{e}}
6	{{5},{1,2}}	{}
\.
SELECT * FROM copied ORDER BY id;
CREATE TABLE made_of (id, a, c) AS SELECT id, ARRAY[a, a], c FROM copied WHERE id = 1;
SELECT * FROM made_of ORDER BY id;
CREATE TABLE alone AS SELECT '{{1,2}}'::integer[] AS a;
SELECT * FROM alone;
INSERT INTO undone SELECT id, a FROM copied WHERE id = 2;
CREATE TABLE other (id integer, a integer[]);
INSERT INTO other SELECT id, a FROM copied WHERE id < 4;
SELECT * FROM other ORDER BY id;
CREATE TABLE merged (id integer PRIMARY KEY, a integer[]);
INSERT INTO merged VALUES (1, '{1}');
INSERT INTO merged VALUES (1, '{{1},{2}}') ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING a;
MERGE INTO merged USING other o ON o.id = merged.id WHEN NOT MATCHED THEN INSERT VALUES (o.id, ARRAY[o.a]);
SELECT * FROM merged ORDER BY id;
ALTER TABLE merged ALTER a TYPE bigint[];
SELECT * FROM merged ORDER BY id;
ALTER TABLE merged ADD CHECK (array_ndims(a) < 4);
INSERT INTO merged VALUES (9, '{{{{1}}}}');
ALTER TABLE merged ALTER a TYPE text[] USING ARRAY[a::text];
SELECT * FROM merged ORDER BY id;
CREATE FUNCTION put(k integer) RETURNS void LANGUAGE sql AS $$ INSERT INTO get_dimensions.undone VALUES (k, '{{7},{8}}') $$;
CREATE TABLE fresh (id integer, a integer[]);
DO $$ BEGIN INSERT INTO get_dimensions.fresh VALUES (1, '{{1}}'); END $$;
SELECT * FROM fresh;
SELECT put(70);
SELECT * FROM undone ORDER BY id;
DROP SCHEMA get_dimensions CASCADE;
