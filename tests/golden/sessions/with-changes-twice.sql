-- Several queries in WITH that change the same tables: each row is changed once, and by whom PostgreSQL lets it.
CREATE SCHEMA changing_twice;
SET search_path = changing_twice;
SET client_min_messages = warning;
CREATE TABLE t (id integer PRIMARY KEY, x text, n integer DEFAULT 0);
INSERT INTO t SELECT g, 'old' FROM generate_series(1, 4) g;
WITH a AS (UPDATE t SET x = 'a'), b AS (UPDATE t SET x = 'b' WHERE id < 4), c AS (UPDATE t SET x = 'c' WHERE id < 3) SELECT 1;
SELECT * FROM t ORDER BY id;
WITH a AS (UPDATE t SET x = 'a2'), b AS (UPDATE t SET x = 'b2' WHERE id > 1) UPDATE t SET x = 'main2' WHERE id > 2 RETURNING id, x;
SELECT * FROM t ORDER BY id;
WITH a AS (UPDATE t SET x = 'a3' WHERE id < 3 RETURNING id) UPDATE t SET x = 'main3' FROM (SELECT max(id) FROM a) m (id) WHERE t.id <= m.id + 1 RETURNING t.id, t.x;
SELECT * FROM t ORDER BY id;
WITH a AS (UPDATE t SET x = 'a4' WHERE id < 3 RETURNING id), b AS (UPDATE t SET x = 'b4' WHERE id < 4 RETURNING id), c AS (UPDATE t SET n = 4 WHERE id IN (SELECT id + 1 FROM b))
SELECT count(*) FROM a;
SELECT * FROM t ORDER BY id;
WITH a AS (DELETE FROM t WHERE id = 1 RETURNING *) UPDATE t SET x = 'kept' WHERE id = 1 RETURNING *;
WITH a AS (UPDATE t SET x = 'updated' WHERE id = 1 RETURNING *) DELETE FROM t USING a WHERE t.id = a.id RETURNING *;
SELECT * FROM t ORDER BY id;
-- what others insert is not there
WITH a AS (INSERT INTO t VALUES (8, 'eight'), (9, 'nine') RETURNING id), b AS (UPDATE t SET n = n + 1 RETURNING id) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), count(*) FROM t;
WITH a AS (INSERT INTO t VALUES (10, 'ten') RETURNING id) DELETE FROM t WHERE id > (SELECT id FROM a) - 2 RETURNING id;
SELECT * FROM t ORDER BY id;
-- ON CONFLICT
WITH a AS (UPDATE t SET x = 'u6' WHERE id = 1 RETURNING *) INSERT INTO t SELECT 1, 'c' FROM a ON CONFLICT (id) DO UPDATE SET x = 'conflict';
WITH a AS (INSERT INTO t VALUES (19, 'new') RETURNING *) INSERT INTO t SELECT 19, 'c' FROM a ON CONFLICT (id) DO UPDATE SET x = 'conflict';
WITH a AS (INSERT INTO t VALUES (19, 'new') RETURNING *) INSERT INTO t SELECT 19, 'c' FROM a ON CONFLICT (id) DO UPDATE SET x = 'conflict' WHERE false;
WITH a AS (INSERT INTO t VALUES (19, 'new') RETURNING *) INSERT INTO t SELECT 19, 'c' FROM a ON CONFLICT (id) DO NOTHING RETURNING *;
WITH a AS (INSERT INTO t VALUES (18, 'new') RETURNING *) INSERT INTO t SELECT 18, 'c' FROM a;
WITH a AS (DELETE FROM t WHERE id = 1 RETURNING *) INSERT INTO t SELECT id, 'again' FROM a ON CONFLICT (id) DO UPDATE SET x = 'conflict' RETURNING *;
WITH a AS (UPDATE t SET x = 'first' WHERE id = 1 RETURNING id) INSERT INTO t SELECT id + 1, 'second' FROM a ON CONFLICT (id) DO UPDATE SET x = excluded.x || t.x RETURNING *;
WITH a AS (DELETE FROM t WHERE id = 2) INSERT INTO t VALUES (2, 'both');
SELECT * FROM t ORDER BY id;
-- MERGE
WITH a AS (UPDATE t SET x = 'u7' WHERE id = 1 RETURNING *) MERGE INTO t USING a ON t.id = a.id WHEN MATCHED THEN UPDATE SET x = 'merged';
WITH a AS (UPDATE t SET x = 'u7' WHERE id = 1 RETURNING *) MERGE INTO t USING a ON t.id = a.id WHEN MATCHED THEN DO NOTHING RETURNING merge_action(), t.*;
WITH a AS (DELETE FROM t WHERE id = 1 RETURNING *) MERGE INTO t USING a ON t.id = a.id WHEN MATCHED THEN DELETE;
WITH a AS (INSERT INTO t VALUES (20, 'i20') RETURNING *) MERGE INTO t USING a ON t.id = a.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (21, 'i21');
WITH a AS (MERGE INTO t USING (VALUES (1), (30)) v (k) ON id = k WHEN MATCHED THEN UPDATE SET x = 'm' WHEN NOT MATCHED THEN INSERT VALUES (k, 'm') RETURNING id)
UPDATE t SET n = n + 1 FROM (SELECT count(*) FROM a) c WHERE t.id IN (1, 2, 30) RETURNING t.*, c.count;
WITH a AS (INSERT INTO t VALUES (2, 'x') ON CONFLICT (id) DO UPDATE SET x = 'c8' RETURNING id) DELETE FROM t USING (SELECT sum(id) FROM a) s WHERE t.id BETWEEN s.sum AND 3 RETURNING t.id;
SELECT * FROM t ORDER BY id;
-- what Spark cannot compute
WITH a AS (UPDATE t SET x = 'json' WHERE id = 1 RETURNING to_json(t) AS j) UPDATE t SET x = format('%s/%s', j ->> 'x', t.x) FROM a WHERE factorial(id) < 3 RETURNING t.id, t.x;
SELECT * FROM t ORDER BY id;
-- in a block
BEGIN;
UPDATE t SET n = 100 WHERE id < 3;
WITH a AS (UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n), b AS (DELETE FROM t WHERE id < 3 RETURNING n) SELECT * FROM a, b;
SAVEPOINT s;
WITH a AS (UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n), b AS (DELETE FROM t RETURNING n) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b);
ROLLBACK TO s;
SELECT * FROM t ORDER BY id;
COMMIT;
SELECT * FROM t ORDER BY id;
-- foreign keys are looked at when all is done
CREATE TABLE p (id integer PRIMARY KEY);
CREATE TABLE c (p integer REFERENCES p, n integer);
CREATE TABLE r (p integer REFERENCES p ON DELETE RESTRICT);
CREATE TABLE k (p integer REFERENCES p ON DELETE CASCADE, n integer);
CREATE TABLE d (p integer REFERENCES p DEFERRABLE INITIALLY DEFERRED);
INSERT INTO p VALUES (1), (2), (3), (4), (5);
INSERT INTO c VALUES (1, 10), (2, 20);
INSERT INTO r VALUES (4), (5);
INSERT INTO k VALUES (3, 30);
WITH gone AS (DELETE FROM p WHERE id = 1 RETURNING id) DELETE FROM c USING gone WHERE c.p = gone.id RETURNING c.*;
WITH gone AS (DELETE FROM p WHERE id = 2 RETURNING id) UPDATE c SET n = 21 FROM gone WHERE c.p = gone.id RETURNING c.*;
WITH gone AS (DELETE FROM p WHERE id = 4 RETURNING id) DELETE FROM r USING gone WHERE r.p = gone.id RETURNING r.*;
WITH gone AS (DELETE FROM p WHERE id = 5 RETURNING id) SELECT * FROM gone;
WITH new AS (INSERT INTO c VALUES (50, 1) RETURNING p) INSERT INTO p SELECT p FROM new RETURNING *;
WITH new AS (INSERT INTO c VALUES (51, 1) RETURNING p) SELECT * FROM new;
WITH gone AS (DELETE FROM p WHERE id = 3 RETURNING id) SELECT * FROM gone;
WITH gone AS (DELETE FROM p WHERE id = 2 RETURNING id), rest AS (UPDATE c SET p = NULL WHERE p = 2) SELECT * FROM gone;
BEGIN;
WITH new AS (INSERT INTO d VALUES (60) RETURNING p) SELECT * FROM new;
INSERT INTO p VALUES (60);
COMMIT;
WITH new AS (INSERT INTO d VALUES (61) RETURNING p) SELECT * FROM new;
SELECT * FROM p ORDER BY 1;
SELECT * FROM c ORDER BY 2;
SELECT * FROM k;
SELECT * FROM r;
SELECT * FROM d;
DROP SCHEMA changing_twice CASCADE;
-- recursion, and WITH inside of WITH
CREATE SCHEMA changing_deep;
SET search_path = changing_deep;
CREATE TABLE node (id integer PRIMARY KEY, parent integer, note text);
INSERT INTO node VALUES (1, NULL, 'root'), (2, 1, 'a'), (3, 2, 'b'), (4, 1, 'c'), (5, NULL, 'other');
WITH RECURSIVE below (id) AS (SELECT 2 UNION ALL SELECT n.id FROM node n JOIN below b ON n.parent = b.id)
DELETE FROM node USING below WHERE node.id = below.id RETURNING node.id;
WITH RECURSIVE below AS (SELECT id, 0 AS depth FROM node WHERE parent IS NULL UNION ALL SELECT n.id, depth + 1 FROM node n JOIN below b ON n.parent = b.id),
    changed AS (UPDATE node SET note = note || depth FROM below WHERE below.id = node.id RETURNING node.*)
SELECT * FROM changed ORDER BY id;
WITH RECURSIVE changed AS (UPDATE node SET note = 'deep ' || n FROM counted WHERE id = n RETURNING id, note), counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 4)
SELECT c.id, c.note, n FROM changed c JOIN counted ON n = id ORDER BY 1;
WITH RECURSIVE walked (id) AS (SELECT id FROM node WHERE id = 1 UNION ALL SELECT n.id FROM node n, walked w WHERE n.parent = w.id)
    SEARCH DEPTH FIRST BY id SET place CYCLE id SET again TO 'yes' DEFAULT 'no' USING path,
    gone AS (DELETE FROM node WHERE id = 4 RETURNING id)
SELECT id FROM gone;
WITH gone AS (DELETE FROM node WHERE id = 5 RETURNING *),
    noted AS (WITH inner_one AS (SELECT id + 10 AS id, upper(note) AS note FROM gone) INSERT INTO node (id, note) SELECT id, note FROM inner_one RETURNING *),
    shown AS (WITH both_of AS (SELECT id FROM gone UNION ALL SELECT id FROM noted) SELECT array_agg(id ORDER BY id) AS ids FROM both_of)
SELECT ids, (SELECT count(*) FROM node) FROM shown;
WITH gone AS (DELETE FROM node WHERE id = 15 RETURNING *) SELECT * FROM (WITH gone AS (SELECT 'another' AS note) SELECT note FROM gone) s;
SELECT * FROM node ORDER BY id;
DROP SCHEMA changing_deep CASCADE;
-- functions made by users, and tables that are not in the lake
CREATE SCHEMA changing_beside;
SET search_path = changing_beside;
CREATE TABLE item (id integer PRIMARY KEY, n integer);
INSERT INTO item SELECT g, g FROM generate_series(1, 5) g;
CREATE TEMPORARY TABLE log (id integer, n integer);
CREATE FUNCTION twice(n integer) RETURNS integer LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN n * 2; END $$;
CREATE FUNCTION numbers() RETURNS SETOF integer LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT g FROM generate_series(2, 3) g; END $$;
WITH wanted AS (SELECT n FROM numbers() n), gone AS (DELETE FROM item USING wanted WHERE id = wanted.n RETURNING id, item.n) INSERT INTO log SELECT id, twice(n) FROM gone;
SELECT * FROM log ORDER BY id;
WITH logged AS (INSERT INTO log VALUES (4, twice(4)) RETURNING id) UPDATE item SET n = twice(item.n) FROM logged WHERE item.id = logged.id RETURNING item.*;
WITH changed AS (UPDATE item SET n = n + 1 RETURNING n), forgotten AS (DELETE FROM log RETURNING *) SELECT twice(sum(n)::integer), (SELECT count(*) FROM forgotten) FROM changed;
SELECT * FROM item ORDER BY id;
SELECT * FROM log;
DROP SCHEMA changing_beside CASCADE;
