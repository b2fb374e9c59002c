-- Queries that only read columns: every type, own and deleted rows, columns added later, views, cursors, COPY.
CREATE TABLE t (id int, n numeric, m numeric(10,2), x text, v varchar(5), c char(5), b bytea, f float4, g float8, d date, ti time, ts timestamp, tz timestamptz, iv interval, u uuid, j json, jb jsonb, bo boolean, ar int[], ta text[], o oid, i2 int2, i8 int8);
INSERT INTO t SELECT n, n / 3.0, n / 7.0, 'x' || n, 'v' || n, 'c', '\x00ff', n / 3.0, n / 9.0, date '2020-01-01' + n, time '00:00' + n * interval '1 minute', timestamp '2020-01-01' + n * interval '1 hour', timestamptz '2020-01-01 00:00+00' + n * interval '1 hour', n * interval '1 day 2 hours', '00000000-0000-0000-0000-000000000001', '{"a": 1}', '{"b": [1]}', n % 2 = 0, ARRAY[n, NULL], ARRAY['a', NULL, 'b"c'], n, n, n FROM generate_series(1, 5) n;
INSERT INTO t (id) VALUES (NULL), (7); INSERT INTO t (d, ts, tz, f, g, n, ti) VALUES ('infinity', '-infinity', 'infinity', 'NaN', '-Infinity', 'NaN', '24:00'), ('0044-03-15 BC', '0044-03-15 BC', '9999-12-31 23:59+00', 1e-30, 1e300, 1e-20, '12:34:56.789');
DELETE FROM t WHERE id = 3; UPDATE t SET x = 'changed' WHERE id = 4;
SELECT id, n, m, x, v, c, b, f, g, d, ti, ts, tz, iv, u, j, jb, bo, o, i2, i8 FROM t ORDER BY id, d, x;
SET TIME ZONE 'America/New_York'; SET datestyle = 'SQL, DMY'; SET intervalstyle = 'iso_8601'; SET bytea_output = 'escape'; SET extra_float_digits = 0;
SELECT count(*) FROM (SELECT * FROM t) s;
CREATE TABLE one AS SELECT * FROM t WHERE id = 1;
SELECT id, n, m, x, v, c, b, f, g, d, ti, ts, tz, iv, u, j, jb, bo, o, i2, i8 FROM one;
SELECT * FROM one;
SELECT x, x, id FROM one; SELECT FROM one; SELECT ctid IS NULL FROM one; SELECT one FROM one; SELECT * FROM one LIMIT 0; SELECT * FROM one OFFSET 1; SELECT x FROM one LIMIT 1 OFFSET 0; SELECT x FROM one LIMIT -1; SELECT x FROM one LIMIT NULL; SELECT x FROM one FETCH FIRST 1 ROWS WITH TIES;
SELECT id FROM t LIMIT factorial(3)::bigint; SELECT id FROM t LIMIT int8inc(1); SELECT id FROM t LIMIT abs(-2); SELECT id FROM t LIMIT 2::smallint OFFSET '1'; SELECT id FROM t OFFSET 7::bigint; SELECT id FROM t LIMIT length('ab'); SELECT id FROM t LIMIT (SELECT 1); SELECT id FROM t LIMIT 2 OFFSET -1; SELECT id FROM t LIMIT 1.5; SELECT id FROM t LIMIT ALL OFFSET 6;
\copy one TO STDOUT
\copy one (x, id) TO STDOUT (FORMAT csv, HEADER)
ALTER TABLE one ADD k int DEFAULT 5, ADD w text, ADD z timestamptz DEFAULT '2024-01-01 00:00+00', DROP COLUMN n; SELECT k, w, z, x FROM one;
INSERT INTO one (id) VALUES (9); SELECT z, k, w, id FROM one;
ALTER TABLE one RENAME x TO y; ALTER TABLE one ALTER id TYPE bigint; SELECT y, id FROM one;
CREATE VIEW seen AS SELECT id AS a, y AS b FROM one; SELECT b FROM seen; SELECT b, a FROM (SELECT * FROM seen) q LIMIT 1; CREATE VIEW cut AS SELECT id FROM one LIMIT 1; SELECT * FROM cut;
BEGIN; INSERT INTO one (id, y) VALUES (10, 'own'); SELECT id, y FROM one; SAVEPOINT s; DELETE FROM one WHERE id = 9; SELECT id, y FROM one; ROLLBACK TO s; SELECT id FROM one; ROLLBACK; SELECT id FROM one;
BEGIN; DECLARE c CURSOR FOR SELECT id, y FROM one; FETCH 1 c; FETCH ALL c; COMMIT;
CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED, c int GENERATED ALWAYS AS (a * 3) VIRTUAL); INSERT INTO g VALUES (1), (2); SELECT a, b FROM g; SELECT c FROM g; SELECT * FROM g;
CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN pos AS int CHECK (VALUE > 0); CREATE TYPE pt AS (x int, y text); CREATE TABLE u (m mood, p pos, q pt, ms mood[], r int4range, i inet, t tsvector, bt bit(3), mo money); INSERT INTO u VALUES ('ok', 3, (1, 'a'), '{sad,ok}', '[1,3)', '10.0.0.1/8', 'a b', B'101', 5); SELECT m, p FROM u; SELECT q, ms, r, i, t, bt, mo, m FROM u; ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'; SELECT m FROM u; TABLE u;
CREATE MATERIALIZED VIEW mv AS SELECT id FROM one WITH NO DATA; SELECT * FROM mv; REFRESH MATERIALIZED VIEW mv; TABLE mv;
PREPARE p AS SELECT y FROM one; EXECUTE p; PREPARE pl (int) AS SELECT id FROM one LIMIT $1; EXECUTE pl (1); EXECUTE pl (-1);
SELECT id FROM ONLY one; SELECT o.* FROM one o; SELECT id FROM one TABLESAMPLE SYSTEM (100); SELECT DISTINCT k FROM one; SELECT id FROM one FOR UPDATE; WITH w AS (SELECT id FROM one) SELECT * FROM w; SELECT id::text FROM one; SELECT y::varchar FROM one;
DROP TABLE t, one, g, u CASCADE; DROP TYPE mood, pt; DROP DOMAIN pos;
