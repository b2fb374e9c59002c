-- UNLOGGED tables are ordinary ones, of which a notice tells: see the client's tests.
SET client_min_messages = warning;
CREATE UNLOGGED TABLE staging (id serial PRIMARY KEY, num int);
INSERT INTO staging (num) VALUES (3), (4) RETURNING *;
CREATE /* made anew */ UNLOGGED TABLE IF NOT EXISTS staging (id int);
CREATE UNLOGGED TABLE accessed AS SELECT num AS value FROM staging;
SELECT * FROM accessed ORDER BY value;
SELECT num INTO UNLOGGED TABLE kept FROM staging WHERE num > 3;
SELECT * FROM kept;
ALTER TABLE staging SET UNLOGGED;
ALTER TABLE staging SET LOGGED;
ALTER TABLE staging SET LOGGED;
SELECT num FROM staging ORDER BY id;
CREATE UNLOGGED TABLE wrong (a int, b nonsense);
CREATE UNLOGGED SEQUENCE numbers;
SELECT nextval('numbers');
BEGIN;
CREATE UNLOGGED TABLE another (a int REFERENCES staging, b text DEFAULT 'UNLOGGED TABLE');
INSERT INTO another VALUES (1);
SAVEPOINT here;
INSERT INTO another VALUES (9);
ROLLBACK TO here;
CREATE UNLOGGED TABLE unlogged (unlogged int, "UNLOGGED" text);
INSERT INTO unlogged SELECT 1, b FROM another;
COMMIT;
SELECT unlogged, "UNLOGGED" FROM unlogged;
CREATE UNLOGGED TABLE bound (a int) \bind \g
INSERT INTO bound VALUES ($1) RETURNING a \bind 5 \g
CREATE UNLOGGED TABLE one_of (a int)\; CREATE UNLOGGED TABLE two_of (LIKE one_of)\; SELECT 1 AS unlogged;
INSERT INTO two_of VALUES (1) RETURNING *;
DROP SEQUENCE numbers;
DROP TABLE one_of, two_of, bound, unlogged, another, kept, accessed, staging;
