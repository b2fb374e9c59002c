-- Pipelines: an implicit transaction up to Sync, blocks that begin and end within, errors, and what PostgreSQL warns of.
CREATE SCHEMA pipelines; SET search_path=pipelines;
CREATE TABLE t (id int PRIMARY KEY, n int);
\startpipeline
INSERT INTO t VALUES ($1, $2) \bind 1 1 \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 2 2 \sendpipeline
SELECT count(*) FROM t \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 1 3 \sendpipeline
SELECT 1 \bind \sendpipeline
\syncpipeline
SELECT count(*) FROM t \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 3 3 \sendpipeline
\endpipeline
SELECT * FROM t ORDER BY id;
\startpipeline
INSERT INTO t VALUES ($1, $2) \bind 4 4 \sendpipeline
BEGIN \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 5 5 \sendpipeline
\syncpipeline
SELECT count(*) FROM t \bind \sendpipeline
SAVEPOINT s \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 5 5 \sendpipeline
SELECT 2 \bind \sendpipeline
\syncpipeline
ROLLBACK TO s \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 6 6 \sendpipeline
COMMIT \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 7 7 \sendpipeline
SELECT 1/$1 \bind 0 \sendpipeline
\endpipeline
SELECT * FROM t ORDER BY id;
\startpipeline
INSERT INTO t VALUES ($1, $2) \bind 8 8 \sendpipeline
COMMIT \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 9 9 \sendpipeline
ROLLBACK \bind \sendpipeline
INSERT INTO t VALUES ($1, $2) \bind 10 10 \sendpipeline
\endpipeline
SELECT * FROM t ORDER BY id;
\startpipeline
SET LOCAL work_mem = '7MB' \bind \sendpipeline
SHOW work_mem \bind \sendpipeline
SAVEPOINT x \bind \sendpipeline
SELECT 5 \bind \sendpipeline
\endpipeline
\startpipeline
SELECT count(*) FROM t \bind \sendpipeline
UPDATE t SET n = -n \bind \sendpipeline
SAVEPOINT x \bind \sendpipeline
\endpipeline
SELECT count(*) FROM t WHERE n < 0;
\startpipeline
SELECT id FROM t ORDER BY id \parse a
\bind_named a \sendpipeline
DELETE FROM t WHERE id = $1 RETURNING id \parse b
\bind_named b 3 \sendpipeline
\bind_named b 4 \sendpipeline
\flushrequest
\getresults
\bind_named a \sendpipeline
\syncpipeline
\bind_named nope \sendpipeline
\bind_named a \sendpipeline
\endpipeline
BEGIN ISOLATION LEVEL REPEATABLE READ;
\startpipeline
SELECT count(*) FROM t \bind \sendpipeline
COMMIT AND CHAIN \bind \sendpipeline
SHOW transaction_isolation \bind \sendpipeline
\endpipeline
COMMIT;
SELECT 1 \; SELECT nope \; SELECT 2;
SELECT count(*) FROM t \bind \g
INSERT INTO t VALUES (1,1) ON CONFLICT DO NOTHING \bind \g
BEGIN \bind \g
SELECT 1/0 \bind \g
SELECT count(*) FROM t \bind \g
COMMIT \bind \g
DROP SCHEMA pipelines CASCADE;
