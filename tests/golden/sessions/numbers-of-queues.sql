-- Queues as people write them: functions and procedures that number rows, and tell others of them. Sequences do not go
-- back, so each takes one number a row.
CREATE SCHEMA nq;
SET search_path = nq;
CREATE TABLE queue (name text PRIMARY KEY, waiting int NOT NULL DEFAULT 0);
CREATE TABLE job (id serial PRIMARY KEY, queue text REFERENCES queue, key text UNIQUE, payload jsonb, attempts int DEFAULT 0);
CREATE TABLE job_event (id bigserial PRIMARY KEY, job_id int, kind text);

CREATE FUNCTION add_job(which text, what jsonb, job_key text DEFAULT NULL) RETURNS job LANGUAGE plpgsql AS $$
DECLARE
    added job;
BEGIN
    INSERT INTO queue (name) VALUES (which) ON CONFLICT DO NOTHING;
    INSERT INTO job (queue, key, payload) VALUES (which, job_key, what)
        ON CONFLICT (key) DO UPDATE SET payload = excluded.payload RETURNING * INTO added;
    PERFORM pg_notify('jobs:insert', which);
    RETURN added;
END $$;
SELECT * FROM add_job('mail', '{"to": "a"}');
SELECT * FROM add_job('mail', '{"to": "b"}', 'b');
SELECT * FROM add_job('mail', '{"to": "c"}', 'b');
SELECT * FROM add_job('print', '[1, 2]');
SELECT (add_job('print', to_jsonb(i))).id FROM generate_series(1, 3) i;

-- Triggers that tell and number.
CREATE FUNCTION note_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_event (job_id, kind) VALUES (NEW.id, lower(TG_OP));
    PERFORM pg_notify('events', NEW.id::text);
    RETURN NEW;
END $$;
CREATE TRIGGER job_added AFTER INSERT ON job FOR EACH ROW EXECUTE FUNCTION note_job();
CREATE TRIGGER job_tried AFTER UPDATE OF attempts ON job FOR EACH ROW EXECUTE FUNCTION note_job();
INSERT INTO job (queue, payload) VALUES ('mail', '{}'), ('print', '{}') RETURNING id;
SELECT id FROM add_job('fax', 'null');
UPDATE job SET attempts = attempts + 1 WHERE queue = 'print';
SELECT id FROM add_job('fax', 'null', 'b');

-- Of a procedure the name may be a command's, too.
CREATE PROCEDURE load(which text, many int) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job (queue, payload) SELECT which, to_jsonb(i) FROM generate_series(1, many) i;
    UPDATE queue SET waiting = (SELECT count(*) FROM job WHERE queue = which) WHERE name = which;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no queue %', which;
    END IF;
    NOTIFY loaded;
END $$;
CALL load('mail', 2);
CALL load('fax', 1);
CALL load('telex', 1);
CALL load('print', 2);
DO $$
BEGIN
    PERFORM set_config('app.queue', 'print', true);
    INSERT INTO job (queue, payload) VALUES (current_setting('app.queue'), '0');
    PERFORM pg_notify('jobs:insert', current_setting('app.queue'));
END $$;

BEGIN;
SELECT id FROM add_job('mail', '1');
SAVEPOINT s;
CALL load('mail', 1);
ROLLBACK TO s;
SELECT id FROM add_job('mail', '2');
COMMIT;
SELECT id, queue, key, attempts FROM job ORDER BY id;
SELECT * FROM job_event ORDER BY id;
SELECT * FROM queue ORDER BY name;
