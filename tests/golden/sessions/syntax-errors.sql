-- A query of several statements is parsed as a whole before any of it is carried out.
CREATE SCHEMA parsed;
SET search_path = parsed;
CREATE TABLE t (n integer);
INSERT INTO t VALUES (1) \; COMMIT \; SELEC 2;
SELECT count(*) FROM t \; SELECT 1 FROM WHERE \; SELECT 3;
BEGIN \; INSERT INTO t VALUES (2) \; COMMIT \; nonsense;
SELECT count(*) FROM t;
BEGIN;
INSERT INTO t VALUES (3);
SAVEPOINT s;
INSERT INTO t VALUES (4) \; INSERT INTO t VALUES (5) \; SELECT 'unfinished;
';
SELECT 1;
ROLLBACK TO s;
INSERT INTO t VALUES (6) \; SELECT sum(n) FROM t;
INSERT INTO t VALUES (7) \; SELECT count(*) FROM nowhere;
SELECT 1 \; SELECT FROM FROM;
ROLLBACK TO s \; SELECT sum(n) FROM t \; COMMIT;
SELECT sum(n) FROM t;
BEGIN;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ \; SHOW transaction_isolation \; SELECT count(*) FROM t;
COMMIT;
\; SELECT 1 \; \; SELECT count(*) FROM t \;
;
-- One alone: its error may be about the semicolon, or stand behind spaces and comments.
SELECT 1 FROM ;
SELECT 1 +
   /* nothing */ ;
UPDATE t SET  ;
ALTER TABLE ;
BEGIN;
DELETE FROM ;
ROLLBACK;
CREATE TABLE made (n integer) \; INSERT INTO made VALUES (1) \; SELECT * FROM made \; CREATE TABLE made (;
SELECT count(*) FROM made;
DROP SCHEMA parsed CASCADE;
