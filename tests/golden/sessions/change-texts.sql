-- Expressions and options that are cut out of a change's text, where PostgreSQL's tree tells what they are.
CREATE TABLE texts (id int PRIMARY KEY, a int, b int, "C, d" text);
INSERT INTO texts SELECT g, g, g + 1, 'x' || g FROM generate_series(1, 5) g;
ALTER TABLE texts ALTER a TYPE int[] USING ARRAY[a, b], ALTER U&"\0062" TYPE text USING $$,$$ || b;
SELECT * FROM texts ORDER BY id;
ALTER TABLE texts ALTER COLUMN a TYPE text USING a[1] || ', ' || a[2] /* , */, ADD COLUMN e int DEFAULT 5; -- , USING
SELECT * FROM texts ORDER BY id;
SET standard_conforming_strings = off;
SET escape_string_warning = off;
ALTER TABLE texts ALTER a TYPE text USING 'it\'s, ' || a;
SELECT * FROM texts ORDER BY id;
SET standard_conforming_strings = on;
ALTER TABLE texts ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED;
ALTER TABLE texts ALTER g SET EXPRESSION AS (id * (1 + 2)), ALTER e SET DEFAULT 7;
SELECT id, g FROM texts ORDER BY id;
BEGIN;
ALTER TABLE texts ALTER e TYPE int[] USING ARRAY[e, id];
SELECT id, e FROM texts ORDER BY id;
ROLLBACK;
ALTER TABLE texts ALTER a TYPE int USING ARRAY[1, 2];
ALTER TABLE texts DISABLE TRIGGER ALL, ADD COLUMN h int;
ALTER TABLE texts ENABLE TRIGGER ALL;
-- Indexes that are made, dropped and made anew CONCURRENTLY.
CREATE INDEX CONCURRENTLY IF NOT EXISTS "by a" ON texts (a);
CREATE INDEX /* CONCURRENTLY */ CONCURRENTLY IF NOT EXISTS "by a" ON texts (a);
CREATE UNIQUE INDEX CONCURRENTLY by_id ON ONLY ( texts ) (id, a) WHERE id > 1;
CREATE INDEX CONCURRENTLY ON ONLY texts USING btree ((lower(a) || 'concurrently'));
CREATE INDEX CONCURRENTLY wrong ON texts (nothing);
CREATE INDEX CONCURRENTLY "by a" ON texts (a);
\d texts
REINDEX (VERBOSE off, CONCURRENTLY) TABLE texts;
REINDEX INDEX CONCURRENTLY "by a";
REINDEX (CONCURRENTLY 'on') INDEX "by a";
REINDEX (CONCURRENTLY, CONCURRENTLY off) INDEX "by a";
REINDEX ("Concurrently" true) INDEX "by a";
REINDEX (VERBOSE maybe, CONCURRENTLY) INDEX "by a";
REINDEX (TABLESPACE "my ts", CONCURRENTLY) INDEX "by a";
REINDEX TABLE CONCURRENTLY "no table";
DROP INDEX CONCURRENTLY IF EXISTS "q""x", by_id;
DROP INDEX CONCURRENTLY IF EXISTS "q""x";
DROP INDEX CONCURRENTLY by_id RESTRICT;
DROP INDEX CONCURRENTLY by_id;
\d texts
DROP TABLE texts;
