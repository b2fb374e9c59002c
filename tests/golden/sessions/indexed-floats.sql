-- NaN and both zeros by an index over double precision.
CREATE SCHEMA indexed_floats;
SET search_path = indexed_floats;
CREATE TABLE measure (id integer, a integer, d double precision);
INSERT INTO measure SELECT n, n % 3, CASE n WHEN 20001 THEN 'NaN'::float8 WHEN 20002 THEN '-0'::float8 WHEN 20003 THEN NULL ELSE n END FROM generate_series(1, 20003) n;
CREATE INDEX ON measure (d);
CREATE INDEX ON measure (a, d);
SELECT id, d FROM measure WHERE d > 19999 ORDER BY id;
SELECT count(*) FROM measure WHERE d >= 19999;
SELECT id FROM measure WHERE d IN (0, 1) ORDER BY id;
SELECT id, d FROM measure WHERE d = 0;
SELECT id, d FROM measure WHERE d < 2 ORDER BY id;
SELECT id, d FROM measure WHERE a = 0 AND d > 19997 ORDER BY id;
SELECT id FROM measure WHERE d > 19999 AND d < 1000000;
SELECT id FROM measure WHERE d IS NULL;
