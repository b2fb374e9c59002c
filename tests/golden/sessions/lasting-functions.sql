-- Advisory locks and settings over rows of the lake: what they leave behind lasts as long as in PostgreSQL.
\pset null <null>
CREATE SCHEMA locks;
SET search_path = locks;
CREATE TABLE job (id integer PRIMARY KEY, state text, task text);
INSERT INTO job SELECT n, CASE WHEN n % 2 = 0 THEN 'done' ELSE 'new' END, 'task ' || n FROM generate_series(1, 8) n;
SELECT pg_try_advisory_lock(id), * FROM job WHERE state = 'new' ORDER BY id;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid < 10;
SELECT pg_advisory_unlock(id) FROM job WHERE state = 'new' ORDER BY id;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid < 10;
BEGIN;
SELECT pg_advisory_xact_lock(id) FROM job WHERE id < 3;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid < 10;
UPDATE job SET state = 'taken' WHERE id < 3;
SAVEPOINT s;
SELECT pg_try_advisory_xact_lock_shared(id, 7) FROM job WHERE id = 5;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND objid < 10 AND classid < 10;
ROLLBACK TO s;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND objid < 10 AND classid < 10;
COMMIT;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND objid < 10 AND classid < 10;
SELECT * FROM job WHERE id < 4 ORDER BY id;
SELECT id FROM job WHERE state = 'new' AND pg_try_advisory_lock(id) ORDER BY id LIMIT 1;
SELECT pg_advisory_unlock_all();
WITH RECURSIVE j AS (
    SELECT (j).*, pg_try_advisory_lock((j).id) AS locked FROM (SELECT j FROM job j WHERE state = 'new' ORDER BY id LIMIT 1) t
    UNION ALL (
        SELECT (j).*, pg_try_advisory_lock((j).id) FROM (
            SELECT (SELECT j FROM job j WHERE state = 'new' AND id > jobs.id ORDER BY id LIMIT 1) AS j
            FROM j AS jobs WHERE jobs.id IS NOT NULL LIMIT 1) t)
) SELECT id, locked FROM j WHERE locked LIMIT 1;
SELECT pg_advisory_unlock_all();
SELECT set_config('my.last', id::text, false) FROM job ORDER BY id;
SHOW my.last;
BEGIN;
SELECT set_config('my.last', id::text, true) FROM job WHERE id = 2;
SHOW my.last;
ROLLBACK;
SHOW my.last;
SELECT id / (id - 3), pg_advisory_lock(id) FROM job ORDER BY id;
SELECT pg_advisory_unlock_all();
PREPARE p(int) AS SELECT id, pg_try_advisory_lock($1, id) FROM job WHERE id = $1;
EXECUTE p(4);
SELECT pg_advisory_unlock(4, 4);
SELECT pg_advisory_unlock(4, 4);
SELECT cardinality(array_shuffle(ARRAY[id, 2])), array_sample(ARRAY[id], 1) FROM job WHERE id = 1;
SELECT * FROM job ORDER BY id;
