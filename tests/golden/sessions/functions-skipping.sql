-- Functions of users that take rows of a queue, and queries that lock rows by them.
CREATE SCHEMA functions_locking; SET search_path = functions_locking;
CREATE TABLE jobs (id bigserial PRIMARY KEY, payload jsonb, state text NOT NULL DEFAULT 'new', attempts int NOT NULL DEFAULT 0, taken_at timestamptz, worker text);
INSERT INTO jobs (payload) SELECT jsonb_build_object('n', g) FROM generate_series(1, 10) g;
CREATE FUNCTION take_job(who text) RETURNS jobs LANGUAGE plpgsql AS $$
DECLARE j jobs;
BEGIN
  SELECT * INTO j FROM jobs WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE jobs SET state = 'running', worker = who, attempts = attempts + 1 WHERE id = j.id RETURNING * INTO j;
  RETURN j;
END $$;
SELECT (take_job('a')).id;
SELECT id, state, worker, attempts FROM take_job('b');
SELECT (take_job('c')).state;
CREATE FUNCTION take_jobs(who text, n int) RETURNS SETOF jobs LANGUAGE sql AS $$
  UPDATE jobs SET state = 'running', worker = who WHERE id IN (SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT n FOR UPDATE SKIP LOCKED) RETURNING *;
$$;
SELECT id, worker FROM take_jobs('d', 3) ORDER BY id;
DO $$ DECLARE j jobs; BEGIN LOOP j := take_job('loop'); EXIT WHEN j.id IS NULL; RAISE NOTICE 'job % %', j.id, j.payload; END LOOP; END $$;
SELECT id, state, worker, attempts FROM jobs ORDER BY id;
CREATE FUNCTION fail_job(i bigint, why text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
 UPDATE jobs SET state = CASE WHEN attempts > 2 THEN 'dead' ELSE 'new' END, payload = payload || jsonb_build_object('error', why) WHERE id = i AND state = 'running';
 IF NOT FOUND THEN RAISE EXCEPTION 'job % is not running', i USING ERRCODE = 'no_data_found', HINT = 'look at jobs'; END IF; END $$;
SELECT fail_job(1, 'bad'); SELECT fail_job(99, 'bad');
SELECT id, state, payload FROM jobs WHERE id = 1 FOR UPDATE SKIP LOCKED;
CREATE FUNCTION prio(j jobs) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT (j.payload->>'n')::int * -1 $$;
SELECT id FROM jobs ORDER BY prio(jobs) LIMIT 3 FOR UPDATE SKIP LOCKED;
BEGIN; SELECT id, prio(jobs.*) FROM jobs WHERE prio(jobs) < -7 ORDER BY id FOR UPDATE NOWAIT; COMMIT;
CREATE FUNCTION vol(i bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN i % 2 = 0; END $$;
BEGIN; SELECT id FROM jobs WHERE vol(id) ORDER BY id FOR UPDATE SKIP LOCKED; SELECT id FROM jobs WHERE id = 3 AND vol(id+1) FOR NO KEY UPDATE NOWAIT; COMMIT;
DROP SCHEMA functions_locking CASCADE;
