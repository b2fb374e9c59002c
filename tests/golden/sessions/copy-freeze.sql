-- FREEZE asks that the transaction has made or truncated the table.
CREATE SCHEMA copy_freeze;
SET search_path = copy_freeze;
CREATE TABLE f (n integer);
COPY f FROM STDIN (FREEZE);
1
\.
\echo :SQLSTATE
COPY f FROM STDIN (FREEZE off);
1
\.
BEGIN;
TRUNCATE f;
COPY f FROM STDIN (FREEZE on);
2
3
\.
COMMIT;
SELECT * FROM f ORDER BY n;
BEGIN;
CREATE TABLE made (n integer, t text);
COPY made FROM STDIN (FREEZE, FORMAT csv) WHERE n > 1;
1,a
2,b
\.
SELECT * FROM made;
COMMIT;
SELECT * FROM made;
BEGIN;
TRUNCATE f;
SAVEPOINT s;
COPY f FROM STDIN (FREEZE);
4
\.
\echo :SQLSTATE
ROLLBACK;
BEGIN;
SAVEPOINT s;
TRUNCATE f;
RELEASE s;
COPY f FROM STDIN (FREEZE);
5
\.
COMMIT;
SELECT * FROM f;
BEGIN;
TRUNCATE f;
SAVEPOINT s;
TRUNCATE f;
ROLLBACK TO s;
COPY f FROM STDIN (FREEZE);
6
\.
ROLLBACK;
BEGIN;
INSERT INTO f VALUES (7);
COPY f FROM STDIN (FREEZE);
8
\.
ROLLBACK;
SELECT * FROM f;
-- A query of the extended protocol before it does no harm, a cursor does.
BEGIN;
TRUNCATE f;
SELECT count($1) FROM f \bind x \g
SELECT 1 AS one WHERE $1 \bind true \g
COPY f FROM STDIN (FREEZE);
9
\.
DECLARE c CURSOR FOR SELECT 1;
COPY f FROM STDIN (FREEZE);
10
\.
\echo :SQLSTATE
ROLLBACK;
