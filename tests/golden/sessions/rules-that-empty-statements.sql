-- A rule of a temporary table that leaves nothing of a statement, by both protocols.
CREATE TEMPORARY TABLE emptied (a integer);
CREATE RULE nothing AS ON INSERT TO emptied DO INSTEAD NOTHING;
CREATE RULE nothing_either AS ON UPDATE TO emptied DO INSTEAD NOTHING;
INSERT INTO emptied VALUES (1);
INSERT INTO emptied VALUES ($1) \bind 1 \g
UPDATE emptied SET a = 2;
INSERT INTO emptied VALUES (3) RETURNING a;
EXPLAIN INSERT INTO emptied VALUES (4);
EXPLAIN ANALYZE UPDATE emptied SET a = 5;
WITH changed AS (INSERT INTO emptied VALUES (6)) SELECT 1;
PREPARE emptying (integer) AS INSERT INTO emptied VALUES ($1);
EXECUTE emptying (7);
BEGIN;
INSERT INTO emptied VALUES ($1) \bind 8 \g
SAVEPOINT a;
INSERT INTO emptied VALUES ('nine');
ROLLBACK TO a;
UPDATE emptied SET a = 10 \; INSERT INTO emptied VALUES (11);
COMMIT;
DROP RULE nothing ON emptied;
INSERT INTO emptied VALUES (12) RETURNING a;
EXECUTE emptying (13);
TABLE emptied ORDER BY a;
