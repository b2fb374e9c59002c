-- Indexes, as clients make, see and drop them, and what the UNIQUE ones keep.
CREATE SCHEMA indexed;
SET search_path = indexed;
CREATE TABLE t (id int, n int, s text, d numeric(10,2), gone timestamptz, j jsonb, a int[]);
INSERT INTO t (id, n, s, d) VALUES (1, 10, 'A', 1.5), (2, 20, 'b', 2.5), (3, NULL, NULL, NULL);
CREATE INDEX ON t (n);
CREATE INDEX IF NOT EXISTS t_n_idx ON t (n);
CREATE INDEX t_n_idx ON t (n);
CREATE INDEX ON t (lower(s)) WHERE n > 5;
CREATE INDEX CONCURRENTLY tc ON t (n DESC NULLS LAST, s text_pattern_ops) INCLUDE (d);
CREATE INDEX tb ON t USING brin (n);
CREATE INDEX th ON t USING hash (s);
CREATE INDEX tj ON t USING gin (j);
CREATE INDEX ta ON t USING gin (a);
CREATE INDEX te ON t ((n + 1), (d * 2) DESC);
CREATE INDEX tx ON t USING gin (s);
CREATE INDEX tx ON t (nosuch);
CREATE INDEX tx ON nosuch (n);
CREATE INDEX tx ON t (random());
\d t
SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'indexed' ORDER BY 1;
SELECT * FROM t WHERE n = 10 OR lower(s) = 'b' ORDER BY id;
ALTER INDEX t_n_idx RENAME TO renamed;
ALTER INDEX nosuch RENAME TO other;
REINDEX INDEX renamed;
REINDEX TABLE t;
REINDEX TABLE CONCURRENTLY t;
REINDEX INDEX CONCURRENTLY renamed;
DROP INDEX tb, th;
DROP INDEX CONCURRENTLY tc;
DROP INDEX CONCURRENTLY ta, tj;
DROP INDEX IF EXISTS tc;
DROP INDEX tc;
\d t
BEGIN;
CREATE INDEX CONCURRENTLY ON t (n);
ROLLBACK;
BEGIN;
DROP INDEX CONCURRENTLY te;
ROLLBACK;
BEGIN;
REINDEX TABLE CONCURRENTLY t;
ROLLBACK;
CREATE INDEX CONCURRENTLY two ON t (n)\; SELECT 1;
BEGIN;
CREATE INDEX inside ON t (d);
SAVEPOINT s;
CREATE UNIQUE INDEX never ON t (n);
INSERT INTO t (id, n) VALUES (4, 10);
ROLLBACK TO s;
INSERT INTO t (id, n) VALUES (4, 10);
DROP INDEX te;
\d t
COMMIT;
\d t
CREATE UNIQUE INDEX once ON t (n);
DELETE FROM t WHERE id = 4;
CREATE UNIQUE INDEX once ON t (n);
INSERT INTO t (id, n) VALUES (5, 10);
INSERT INTO t (id, n) VALUES (5, 50), (6, 50);
INSERT INTO t (id, n) VALUES (5, NULL);
INSERT INTO t (id, n) VALUES (6, 10) ON CONFLICT (n) DO UPDATE SET s = 'again' RETURNING id, n, s;
INSERT INTO t (id, n) VALUES (6, 10) ON CONFLICT DO NOTHING;
UPDATE t SET n = 20 WHERE id = 1;
CREATE UNIQUE INDEX nulls ON t (n) NULLS NOT DISTINCT;
DELETE FROM t WHERE id = 5;
CREATE UNIQUE INDEX nulls ON t (n) NULLS NOT DISTINCT;
INSERT INTO t (id) VALUES (5);
DROP INDEX once, nulls;
CREATE UNIQUE INDEX tens ON t ((n % 10));
CREATE UNIQUE INDEX spelled ON t (lower(s)) WHERE n > 5;
INSERT INTO t (id, n, s) VALUES (7, 70, 'B');
INSERT INTO t (id, n, s) VALUES (7, 3, 'B');
INSERT INTO t (id, n, s) VALUES (8, 8, 'Q'), (9, 9, 'q');
INSERT INTO t (id, n, s) SELECT id + 100, n, upper(s) FROM t WHERE s = 'b';
UPDATE t SET n = 70 WHERE id = 7;
UPDATE t SET s = 'c' WHERE id = 7;
UPDATE t SET n = 70 WHERE id = 7;
COPY t (id, n, s) FROM STDIN;
10	100	x
11	101	C
\.
BEGIN;
DELETE FROM t WHERE s = 'c';
INSERT INTO t (id, n, s) VALUES (12, 120, 'C');
COMMIT;
SELECT id, n, s FROM t ORDER BY id;
DROP INDEX spelled;
CREATE UNIQUE INDEX live ON t (s) WHERE gone IS NULL;
INSERT INTO t (id, s) VALUES (20, 'C');
UPDATE t SET gone = '2026-01-01' WHERE id = 12;
INSERT INTO t (id, s) VALUES (20, 'C');
UPDATE t SET gone = NULL WHERE id = 12;
ALTER TABLE t ADD CONSTRAINT live_key UNIQUE USING INDEX live;
DROP INDEX live;
CREATE UNIQUE INDEX ids ON t (id);
ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY USING INDEX ids;
INSERT INTO t (id) VALUES (1);
INSERT INTO t (id) VALUES (NULL);
DROP INDEX pk;
ALTER TABLE t ALTER n TYPE bigint, ALTER s TYPE varchar(20);
\d t
ALTER TABLE t ALTER d TYPE text;
CREATE UNIQUE INDEX ON t (d);
INSERT INTO t (id, d) VALUES (30, '1.50');
ALTER TABLE t RENAME n TO number;
ALTER TABLE t DROP COLUMN d;
\d t
CREATE TABLE copied (LIKE t INCLUDING ALL);
INSERT INTO copied (id, number) VALUES (1, 1), (2, 2);
INSERT INTO copied (id, number) VALUES (1, 3);
\d copied
DROP TABLE t;
SELECT count(*) FROM pg_indexes WHERE schemaname = 'indexed' AND tablename = 't';
SET client_min_messages = error;
DROP SCHEMA indexed CASCADE;
