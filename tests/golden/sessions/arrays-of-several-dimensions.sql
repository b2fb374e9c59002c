-- Columns that are declared with several dimensions: PostgreSQL does not look at the number, here it says how values are kept.
CREATE SCHEMA dimensions;
SET search_path = dimensions;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN percent AS integer CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN matrix AS numeric[][];
CREATE TABLE t (id integer PRIMARY KEY, i integer[][], n numeric(6, 2)[][], x text[][], m mood[][], p percent[][], d matrix, z timestamptz[][], flat integer[]);
\d t
INSERT INTO t VALUES (1, '{{1,2},{3,4}}', '{{1.5,2},{NULL,4.25}}', '{{a,"b c"},{"",NULL}}', '{{sad,ok},{ok,sad}}', '{{0,100}}', '{{1.50},{2}}', '{{2024-01-01 00:00+00},{2024-07-01 12:00+00}}', '{1,2}'),
    (2, '{1,2,3}', '{}', '{x}', '{ok}', '{5}', '{3}', '{}', '{}'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, '[0:1]={7,8}', '{{{1},{2}}}', '{{{a}}}', NULL, NULL, '[2:2][3:3]={{9}}', '{infinity}', '{9}');
INSERT INTO t (id, p) VALUES (5, '{{5,101}}');
INSERT INTO t (id, i) VALUES (5, '{{1,2},{3}}');
INSERT INTO t (id, m) VALUES (5, '{{sad,glad}}');
SELECT * FROM t ORDER BY id;
SET timezone = 'Europe/Zurich';
SELECT id, z FROM t ORDER BY id;
RESET timezone;
SELECT id, i[1][2], i[2:2][1:2], array_ndims(i), array_dims(i), array_lower(i, 1), array_upper(i, 2), cardinality(i), array_length(n, 2) FROM t ORDER BY id;
SELECT id FROM t WHERE i = '{{1,2},{3,4}}';
SELECT id FROM t WHERE i <> '{1,2,3}' ORDER BY id;
SELECT id, i FROM t WHERE i > '{1,2,3}' ORDER BY i;
SELECT id, i FROM t WHERE 3 = ANY (i) ORDER BY id;
SELECT id, flat FROM t WHERE flat = '{1,2}' OR 9 = ANY (flat) ORDER BY id;
SELECT id, flat || i FROM t WHERE id = 2;
SELECT id, CASE WHEN id = 1 THEN i ELSE flat END, coalesce(i, flat, '{{0}}'), nullif(i, '{1,2,3}'), i IS NULL, flat IS NOT NULL FROM t ORDER BY id;
SELECT id, unnest(i) FROM t ORDER BY id, 2;
SELECT array_agg(flat ORDER BY id) FROM t WHERE id IN (1, 1);
SELECT i, count(*) FROM t GROUP BY i ORDER BY i;
SELECT DISTINCT i FROM t ORDER BY i;
SELECT i FROM t UNION SELECT flat FROM t ORDER BY 1;
SELECT a.id, b.id FROM t a JOIN t b ON a.i = b.i ORDER BY 1;
SELECT a.id FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.flat = a.i);
SELECT max(i), min(x), count(i) FROM t;
SELECT array_to_string(x, '-', '*'), array_to_json(i), to_jsonb(n), x::varchar(1)[] FROM t ORDER BY id;
INSERT INTO t (id, i, flat) VALUES (5, '{{5}}', '{5}') RETURNING *;
UPDATE t SET i = i || '{{5,6}}' WHERE id = 1 RETURNING id, i;
UPDATE t SET i[2][1] = 33 WHERE id = 1 RETURNING i;
UPDATE t SET i = '{1,2}' WHERE id = 2 RETURNING i, old.i;
UPDATE t SET i = flat, n = i WHERE id = 5 RETURNING i, n;
UPDATE t SET flat = i WHERE id = 2 RETURNING flat;
UPDATE t SET i = NULL WHERE i = '[0:1]={7,8}';
INSERT INTO t (id, i) VALUES (1, '{{9}}') ON CONFLICT (id) DO UPDATE SET i = excluded.i || t.i[1:1][1:1] RETURNING i;
MERGE INTO t USING (VALUES (2, '{{2}}'::integer[]), (6, '{{6,6}}')) v (k, a) ON id = k
    WHEN MATCHED THEN UPDATE SET i = a WHEN NOT MATCHED THEN INSERT (id, i) VALUES (k, a) RETURNING merge_action(), id, i;
DELETE FROM t WHERE i = '{{6,6}}' RETURNING id, i;
COPY t (id, i, x) FROM STDIN;
7	{{1,2},{3,4}}	{{"a,b"},{c}}
8	\N	{}
\.
COPY t (id, i) FROM STDIN;
9	{{1,2},{3}}
\.
COPY (SELECT id, i, x FROM t ORDER BY id) TO STDOUT (FORMAT csv);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, i, ARRAY[flat, flat] FROM t ORDER BY id;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
COMMIT;
CREATE TABLE keys (k integer[][] PRIMARY KEY, u date[][] UNIQUE);
INSERT INTO keys VALUES ('{{1,2}}', '{{2024-01-01}}'), ('{1,2}', '{2024-01-01}'), ('[0:1]={1,2}', NULL);
INSERT INTO keys VALUES ('{{1,2}}', NULL);
INSERT INTO keys VALUES ('{{1},{2}}', '{{2024-01-01}}');
INSERT INTO keys VALUES ('{{1},{2}}', NULL) ON CONFLICT DO NOTHING;
INSERT INTO keys VALUES ('{{1},{2}}', '{2024-02-02}') ON CONFLICT (k) DO UPDATE SET u = excluded.u RETURNING *;
SELECT * FROM keys WHERE k = '{{1,2}}';
SELECT * FROM keys ORDER BY k;
CREATE TABLE refers (k integer[][] REFERENCES keys ON DELETE CASCADE);
INSERT INTO refers VALUES ('{{1,2}}');
INSERT INTO refers VALUES ('{{1,3}}');
DELETE FROM keys WHERE k = '{{1,2}}';
SELECT * FROM refers;
CREATE TABLE copied AS SELECT id, i, x FROM t WHERE id <> 8;
SELECT * FROM copied ORDER BY id;
CREATE TABLE checked (c integer[][] CHECK (array_ndims(c) = 2) DEFAULT '{{0,0}}', g integer GENERATED ALWAYS AS (c[1][1]) STORED);
INSERT INTO checked DEFAULT VALUES RETURNING *;
INSERT INTO checked VALUES ('{1}');
INSERT INTO checked VALUES ('{{4,5}}') RETURNING *;
ALTER TABLE checked ADD COLUMN h integer[][] DEFAULT '{{8},{9}}', ADD COLUMN j integer[][];
SELECT * FROM checked ORDER BY g;
ALTER TABLE checked ALTER j TYPE text[][], ALTER h TYPE bigint[][];
UPDATE checked SET j = ARRAY[h, h]::text[] WHERE g = 4 RETURNING *;
ALTER TABLE checked ALTER j TYPE text USING j::text;
SELECT * FROM checked ORDER BY g;
CREATE INDEX ON t (i);
CREATE UNIQUE INDEX ON t (x);
CREATE VIEW v AS SELECT id, i[1][1] AS first, i FROM t;
SELECT * FROM v ORDER BY id;
CREATE MATERIALIZED VIEW mv AS SELECT id, i FROM t WHERE i IS NOT NULL;
SELECT * FROM mv ORDER BY id;
PREPARE p (integer[], integer) AS UPDATE t SET i = $1 WHERE id = $2 RETURNING i;
EXECUTE p ('{{1,1},{2,2}}', 3);
SELECT id FROM t WHERE id = ANY ('{1,2,3}') ORDER BY id;
SELECT id, i FROM t WHERE i = ANY (ARRAY['{{1,1},{2,2}}'::integer[]]) ORDER BY id;
DROP SCHEMA dimensions CASCADE;
