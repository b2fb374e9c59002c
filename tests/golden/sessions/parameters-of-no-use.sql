-- A `$1` in a query that has no parameters, as typing errors and tools' literals give it.
\set VERBOSITY verbose
CREATE TABLE plain (a int, b text);
INSERT INTO plain VALUES (1, 'x');
SELECT * FROM plain WHERE a >= $1;
SELECT * FROM plain WHERE a >= $20;
SELECT b, $1 FROM plain;
SELECT $1 FROM plain WHERE a = $1 OR b = $1;
INSERT INTO plain VALUES ($1, 'y');
UPDATE plain SET b = $2 WHERE a = $1;
DELETE FROM plain WHERE a = $1 RETURNING *;
CREATE TABLE copied AS SELECT $1::int AS a FROM plain;
EXPLAIN SELECT * FROM plain WHERE a = $1;
COPY (SELECT * FROM plain WHERE a = $1) TO STDOUT;
SELECT 1; SELECT * FROM plain WHERE a = $1; SELECT 2;
SELECT 1\; SELECT * FROM plain WHERE a = $1\; SELECT 2;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM plain WHERE a = $1;
ROLLBACK;
BEGIN;
SELECT * FROM plain WHERE a = $1;
SELECT 1;
ROLLBACK;
PREPARE one (int) AS SELECT * FROM plain WHERE a = $1;
EXECUTE one (1);
EXECUTE one ($1);
SELECT * FROM plain WHERE b <> '$1';
SELECT * FROM plain WHERE a = $1 \bind 1 \g
DROP TABLE plain;
