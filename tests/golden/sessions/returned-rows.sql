-- RETURNING: the rows that OLD and NEW have not, and subqueries, which see the tables as they were before the statement.
CREATE SCHEMA returned_rows;
SET search_path = returned_rows;
CREATE TABLE t (id integer PRIMARY KEY, x text, g integer GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE other (n integer);
INSERT INTO t SELECT s, 'x' || s FROM generate_series(1, 12) s;
INSERT INTO other VALUES (7), (8), (9);
-- DELETE makes no row
DELETE FROM t WHERE id = 1 RETURNING old.x, new.x, new.g, x, new IS NULL AS gone;
DELETE FROM t WHERE id = 2 RETURNING old.*, new.*;
DELETE FROM t USING other WHERE id = 3 AND n = 7 RETURNING WITH (OLD AS o, NEW AS w) o.x, w.x || '!', coalesce(w.id, -1), (SELECT w.id), n;
DELETE FROM t WHERE id = 4 RETURNING old.tableoid::regclass, new.tableoid::regclass, tableoid::regclass;
WITH gone AS (DELETE FROM t WHERE id = 5 RETURNING old.id AS o, new.id AS n) SELECT * FROM gone;
PREPARE gone(integer) AS DELETE FROM t WHERE id = $1 RETURNING old.x, new.x;
EXECUTE gone(7);
DEALLOCATE gone;
-- INSERT replaces none
INSERT INTO t SELECT n + 100, 'new' FROM other RETURNING old.id, new.id, old.x IS NULL, old.tableoid::regclass, new.tableoid::regclass;
-- subqueries
INSERT INTO t SELECT n + 200, 'new' FROM other RETURNING id, (SELECT count(*) FROM t), EXISTS (SELECT FROM t y WHERE y.id = t.id), (SELECT max(n) FROM other WHERE n + 200 < t.id);
INSERT INTO t VALUES (300, 'new') RETURNING (SELECT max(id) FROM t), (SELECT old.id), (SELECT new.id), (SELECT count(*) FROM other);
WITH w AS (SELECT max(n) AS m FROM other) INSERT INTO t SELECT m + 300, 'with' FROM w RETURNING id, (SELECT m FROM w), (SELECT count(*) FROM t);
INSERT INTO other SELECT id FROM t WHERE id = 300 RETURNING n, (SELECT count(*) FROM other), (SELECT x FROM t WHERE id = n);
BEGIN;
INSERT INTO other VALUES (50);
INSERT INTO t SELECT n + 1, 'own' FROM other WHERE n = 50 RETURNING id, (SELECT max(id) FROM t WHERE id < 100), (SELECT count(*) FROM other);
INSERT INTO t SELECT n + 2, 'own' FROM other WHERE n = 50 RETURNING id, (SELECT max(id) FROM t WHERE id < 100), (SELECT count(*) FROM other);
DELETE FROM t WHERE id BETWEEN 50 AND 60 RETURNING id, new.id, (SELECT count(*) FROM t WHERE id BETWEEN 50 AND 60);
ROLLBACK;
PREPARE made(integer) AS INSERT INTO t VALUES ($1, 'prepared') RETURNING (SELECT max(id) FROM t), (SELECT count(*) FROM other WHERE n < $1);
EXECUTE made(400);
EXECUTE made(401);
UPDATE t SET x = 'z' WHERE id = 400 RETURNING old.x, new.x, (SELECT y.x FROM t y WHERE y.id = t.id), (SELECT count(*) FROM other);
SELECT * FROM t ORDER BY id;
DROP SCHEMA returned_rows CASCADE;
