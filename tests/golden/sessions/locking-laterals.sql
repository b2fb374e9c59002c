-- Locking clauses in subqueries that depend on what is around them: queues take jobs for several kinds at once.
CREATE TABLE kind (name text PRIMARY KEY, most int);
CREATE TABLE job (id int PRIMARY KEY, kind text, priority int, state text DEFAULT 'queued', at timestamptz DEFAULT '2020-01-01', worker int);
CREATE TABLE log (job int, state text);
INSERT INTO kind VALUES ('a', 2), ('b', 1), ('c', 5);
INSERT INTO job (id, kind, priority) SELECT n, chr(96 + 1 + n % 2), n % 3 FROM generate_series(1, 12) n;
SELECT k.name, j.id FROM kind k CROSS JOIN LATERAL (
    SELECT c.id FROM job c WHERE c.kind = k.name AND c.state = 'queued' ORDER BY c.priority DESC, c.id LIMIT 2 FOR UPDATE SKIP LOCKED) j
    ORDER BY 1, 2;
SELECT k.name, j.id FROM kind k LEFT JOIN LATERAL (
    SELECT c.id FROM job c WHERE c.kind = k.name ORDER BY c.id LIMIT k.most FOR SHARE) j ON true ORDER BY 1, 2;
SELECT name, (SELECT c.id FROM job c WHERE c.kind = name ORDER BY c.id DESC LIMIT 1 FOR NO KEY UPDATE NOWAIT) FROM kind ORDER BY 1;
SELECT name, (SELECT c.id FROM job c WHERE c.kind = name ORDER BY c.id DESC LIMIT 1 FOR KEY SHARE SKIP LOCKED) FROM kind ORDER BY 1;
SELECT name FROM kind WHERE EXISTS (SELECT FROM job c WHERE c.kind = name FOR UPDATE) ORDER BY 1;
SELECT j.* FROM (SELECT id FROM job WHERE kind = 'a' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) j ORDER BY 1;
SELECT e.n, j.id FROM unnest(ARRAY['a', 'b', 'x']) e(n) CROSS JOIN LATERAL (
    SELECT id FROM job WHERE kind = e.n ORDER BY id OFFSET 1 LIMIT 1 FOR UPDATE SKIP LOCKED) j ORDER BY 1;
PREPARE take (text[], int, int) AS
WITH available AS (SELECT unnest($1) AS kind),
next_queued AS (
    SELECT j.id, j.priority FROM available CROSS JOIN LATERAL (
        SELECT c.id, c.priority FROM job c WHERE c.kind = available.kind AND c.state = 'queued' AND c.at < now()
        ORDER BY c.priority DESC, c.id LIMIT $2 FOR UPDATE SKIP LOCKED) j
    ORDER BY j.priority DESC, j.id LIMIT $2),
next_stale AS (
    SELECT s.id, s.priority FROM job s WHERE s.state = 'picked' AND s.kind = ANY ($1) AND s.at < now() - interval '100 years'
    ORDER BY s.priority DESC, s.id FOR UPDATE SKIP LOCKED LIMIT $2),
eligible AS (
    SELECT id FROM (SELECT id, priority FROM next_queued UNION ALL SELECT id, priority FROM next_stale) both_of
    ORDER BY priority DESC, id LIMIT $2),
claimed AS (UPDATE job SET state = 'picked', worker = $3 WHERE id IN (SELECT id FROM eligible) RETURNING *),
logged AS (INSERT INTO log SELECT id, state FROM claimed)
SELECT id, kind, priority, worker FROM claimed ORDER BY priority DESC, id;
EXECUTE take(ARRAY['a', 'b'], 3, 1);
BEGIN;
EXECUTE take(ARRAY['b', 'a', 'none'], 2, 2);
EXECUTE take(ARRAY['a'], 10, 3);
ROLLBACK;
EXECUTE take(ARRAY['a'], 10, 4);
SELECT id, state, worker FROM job ORDER BY id;
SELECT * FROM log ORDER BY 1;
WITH taken AS (
    SELECT j.id FROM kind k CROSS JOIN LATERAL (
        SELECT id FROM job WHERE kind = k.name AND state = 'queued' ORDER BY id LIMIT k.most FOR UPDATE SKIP LOCKED) j)
UPDATE job SET state = 'taken' FROM taken WHERE job.id = taken.id RETURNING job.id;
WITH taken AS (
    SELECT c.id FROM job c JOIN unnest(ARRAY['b', 'c']) e(n) ON e.n = c.kind ORDER BY c.id DESC LIMIT 2 FOR UPDATE OF c SKIP LOCKED)
DELETE FROM job WHERE id IN (SELECT id FROM taken) RETURNING id;
WITH taken AS (
    SELECT j.id, k.name FROM kind k CROSS JOIN LATERAL (
        SELECT id FROM job WHERE kind = k.name ORDER BY id LIMIT 1 FOR UPDATE) j)
INSERT INTO log SELECT id, name FROM taken RETURNING *;
SELECT id, state FROM job ORDER BY id;
DROP TABLE kind, job, log;
