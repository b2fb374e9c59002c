-- VOLATILE functions of users, which only compute, in queries that lock rows.

CREATE TABLE tasks (id int PRIMARY KEY, status text, n int);
INSERT INTO tasks VALUES (1, 'open', 10), (2, 'closed', 20), (3, NULL, NULL);
CREATE FUNCTION code(v text) RETURNS int LANGUAGE plpgsql AS
    'BEGIN RETURN CASE v WHEN ''open'' THEN 1 WHEN ''closed'' THEN 2 END; END';
SELECT id, code(status) FROM tasks ORDER BY id FOR UPDATE;
SELECT id FROM tasks WHERE code(status) = 1 FOR UPDATE;
BEGIN;
SELECT id, code(status) FROM tasks WHERE id = 2 FOR UPDATE;
UPDATE tasks SET n = 5 WHERE id = 2;
SELECT id, code(status), n FROM tasks WHERE code(status) = 2 FOR NO KEY UPDATE;
SAVEPOINT a;
SELECT id / (id - 2), code(status) FROM tasks ORDER BY id FOR UPDATE;
ROLLBACK TO a;
SELECT id, code(status) FROM tasks ORDER BY code(status) NULLS FIRST FOR SHARE;
COMMIT;
PREPARE named(int) AS SELECT id FROM tasks WHERE id = $1;
EXECUTE named(code('open'));
\set FETCH_COUNT 2
SELECT id, code(status) FROM tasks ORDER BY id;
