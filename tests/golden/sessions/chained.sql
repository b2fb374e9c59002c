-- AND CHAIN outside of a block that the client has begun: alone, in a query of several statements, and in a pipeline.
CREATE SCHEMA chained;
SET search_path = chained;
CREATE TABLE t (n integer);
COMMIT AND CHAIN;
ROLLBACK AND CHAIN;
INSERT INTO t VALUES (1) \; COMMIT AND CHAIN;
INSERT INTO t VALUES (2) \; ROLLBACK AND CHAIN \; INSERT INTO t VALUES (3);
COMMIT AND CHAIN \; INSERT INTO t VALUES (4);
INSERT INTO t VALUES (5) \; COMMIT \; INSERT INTO t VALUES (6) \; END WORK AND CHAIN;
INSERT INTO t VALUES (7) \; ROLLBACK \; INSERT INTO t VALUES (8) \; ABORT TRANSACTION AND CHAIN;
SET TRANSACTION READ ONLY \; COMMIT AND CHAIN;
SHOW transaction_read_only;
INSERT INTO t VALUES (9) \; COMMIT AND NO CHAIN;
INSERT INTO t VALUES (10) \; ROLLBACK AND NO CHAIN;
SELECT * FROM t ORDER BY n;
BEGIN ISOLATION LEVEL REPEATABLE READ \; INSERT INTO t VALUES (11) \; COMMIT AND CHAIN;
SHOW transaction_isolation;
INSERT INTO t VALUES (12);
COMMIT AND NO CHAIN;
SELECT * FROM t ORDER BY n;
\startpipeline
INSERT INTO t VALUES ($1) \bind 13 \sendpipeline
COMMIT AND CHAIN \bind \sendpipeline
INSERT INTO t VALUES ($1) \bind 14 \sendpipeline
\syncpipeline
INSERT INTO t VALUES ($1) \bind 15 \sendpipeline
ROLLBACK AND CHAIN \bind \sendpipeline
\syncpipeline
INSERT INTO t VALUES ($1) \bind 16 \sendpipeline
COMMIT \bind \sendpipeline
INSERT INTO t VALUES ($1) \bind 17 \sendpipeline
COMMIT AND CHAIN \bind \sendpipeline
\endpipeline
SELECT * FROM t ORDER BY n;
DROP SCHEMA chained CASCADE;
