-- Before COMMIT a transaction locks the rows of its tables in `relation`: FOR UPDATE where it publishes, FOR SHARE where
-- it has looked keys up, FOR KEY SHARE where it has read. A block that carries changes of schema out in a window
-- (docs/schema-changes.md) locks such rows for moments, in savepoints that it releases within the window. PostgreSQL then
-- lets who waits for the row wait for the end of the block, though the window is undone at once: it knows a released
-- savepoint only as a part of the whole transaction. So one waits in attempts, and looks at the row again. A change of
-- schema waits so for its turn (schema_changes.sql).

-- Lock a table's row. A table that is gone has none.
CREATE FUNCTION pg_sluice.lock_for_commit(shadow oid, strength text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF strength = 'UPDATE' THEN
        PERFORM FROM pg_sluice.relation r WHERE r.relid = shadow FOR UPDATE SKIP LOCKED;
    ELSIF strength = 'SHARE' THEN
        PERFORM FROM pg_sluice.relation r WHERE r.relid = shadow FOR SHARE SKIP LOCKED;
    ELSE
        PERFORM FROM pg_sluice.relation r WHERE r.relid = shadow FOR KEY SHARE SKIP LOCKED;
    END IF;
    IF NOT FOUND AND EXISTS (SELECT FROM pg_sluice.relation r WHERE r.relid = shadow) THEN
        PERFORM pg_sluice.await_row('relation', shadow, strength);
    END IF;
END $$;

-- Lock a table's row in this relation of pg_sluice, after up to the session's lock_timeout. Attempts grow until
-- PostgreSQL looks for a deadlock within one.
CREATE FUNCTION pg_sluice.await_row(of_relation name, shadow oid, strength text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    session_limit text := pg_sluice.backend_setting('lock_timeout');
    ends timestamptz := clock_timestamp() + nullif(session_limit::interval, '0');
    longest interval := pg_sluice.backend_setting('deadlock_timeout')::interval + '500ms';
    attempt interval := '100ms';
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', ceil(extract(epoch FROM least(attempt, ends - clock_timestamp())) * 1000)
                ::integer || 'ms', true);
            EXECUTE format('SELECT FROM pg_sluice.%I r WHERE r.relid = $1 FOR %s', of_relation, strength) USING shadow;
            PERFORM set_config('lock_timeout', session_limit, true);
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() >= ends THEN
                RAISE;
            END IF;
            attempt := least(2 * attempt, longest);
        END;
    END LOOP;
END $$;

-- Lock the tables that the transaction has changed.
CREATE FUNCTION pg_sluice.lock_changed() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed oid;
BEGIN
    FOR changed IN SELECT s.relid FROM pg_sluice.staged s UNION SELECT d.relid FROM pg_sluice.dirty d ORDER BY 1 LOOP
        PERFORM pg_sluice.lock_for_commit(changed, 'UPDATE');
    END LOOP;
END $$;
