-- What triggers do beside the lake, and settings that mislead nobody.
CREATE SCHEMA tbs; SET search_path = tbs; SET client_min_messages = notice;
CREATE TABLE p (id integer PRIMARY KEY, n integer); CREATE TABLE c (id integer, p integer REFERENCES p);
CREATE TABLE t (id integer PRIMARY KEY, n integer); CREATE TABLE log (what text);
INSERT INTO p VALUES (1, 1);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO c VALUES (NEW.id, NEW.n); RETURN NEW; END $$;
CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
SET sluice.unchecked = 'on'; SET sluice.filled = 'on'; SET sluice.watched = 'off';
INSERT INTO t VALUES (1, 1);
INSERT INTO t VALUES (2, 5);
DO $$ BEGIN INSERT INTO c VALUES (9, 9); END $$;
SELECT * FROM c ORDER BY 1; SELECT * FROM t ORDER BY 1;
RESET sluice.unchecked; RESET sluice.filled; RESET sluice.watched;
-- effects beside
CREATE TEMPORARY TABLE tmp (what text);
CREATE FUNCTION beside() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tmp VALUES ('row ' || NEW.id);
    PERFORM set_config('app.last', NEW.id::text, false);
    PERFORM pg_notify('heard', NEW.id::text);
    CREATE TEMPORARY TABLE IF NOT EXISTS made (id integer);
    INSERT INTO made VALUES (NEW.id);
    INSERT INTO log VALUES ('log ' || NEW.id || ' ' || (SELECT count(*) FROM log));
    RETURN NEW;
END $$;
CREATE TRIGGER b AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION beside();
INSERT INTO t VALUES (3, 1), (4, 1);
SELECT * FROM tmp ORDER BY 1; SELECT current_setting('app.last'); SELECT * FROM made ORDER BY 1; SELECT * FROM log ORDER BY 1;
BEGIN; INSERT INTO t VALUES (5, 1); INSERT INTO t VALUES (6, 1); COMMIT;
SELECT * FROM tmp ORDER BY 1; SELECT * FROM made ORDER BY 1; SELECT * FROM log ORDER BY 1;
-- helper functions of another table's trigger
CREATE FUNCTION helper(i integer) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('app.helped', i::text, false); END $$;
CREATE FUNCTION by_helper() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM helper(NEW.id); RETURN NEW; END $$;
CREATE TRIGGER h AFTER INSERT ON c FOR EACH ROW EXECUTE FUNCTION by_helper();
INSERT INTO t VALUES (77, 1);
SELECT current_setting('app.helped', true);
-- transactions, truncate, lock
CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN LOCK TABLE p; PERFORM pg_advisory_xact_lock(5); RETURN NEW; END $$;
CREATE TRIGGER z AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION bad();
INSERT INTO t VALUES (8, 1);
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory';
CREATE OR REPLACE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN COMMIT; RETURN NEW; END $$;
INSERT INTO t VALUES (9, 1);
DROP TRIGGER z ON t;
INSERT INTO t VALUES (10, 1) \; INSERT INTO t VALUES (10, 1) \; INSERT INTO t VALUES (11, 1);
INSERT INTO t VALUES (12, 1) \; INSERT INTO t VALUES (13, 1) \; SELECT count(*) FROM t;
\d t
SELECT event_manipulation, action_timing, action_statement FROM information_schema.triggers WHERE event_object_table = 't' ORDER BY 1, 2, 3;
UPDATE p SET id = 1 WHERE id = 1; DELETE FROM p WHERE id = 1;
SELECT count(*) FROM c;
DROP SCHEMA tbs CASCADE;
