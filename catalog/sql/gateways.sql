-- Gateways that write to the lake. Each has a number, which is in the names of its files, and holds an advisory lock for
-- as long as it lives. One whose lock is free is marked as ended; from then on nothing that it wrote is published, so
-- that its files which no snapshot names can be removed.
CREATE TABLE pg_sluice.gateway (
    gateway_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ended timestamptz, cleaned boolean NOT NULL DEFAULT false);

-- The number in a file's name (storage/layout.py); NULL where there is none.
CREATE FUNCTION pg_sluice.writer_of(path text) RETURNS integer LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog AS $$
    SELECT substring(path FROM '^_?[0-9a-f-]{36}-w([0-9]{1,9})')::integer
$$;

-- A new gateway's number. The lock is the caller's before anybody can see the number. Sessions that it had under another
-- number, and that live still, go on under this one.
CREATE FUNCTION pg_sluice.register_gateway(reached_at text DEFAULT NULL, before integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    id integer;
BEGIN
    LOOP
        id := nextval(pg_get_serial_sequence('pg_sluice.gateway', 'gateway_id'));
        EXIT WHEN pg_try_advisory_lock(pg_sluice.gateway_lock(), id);  -- a client might hold it
    END LOOP;
    INSERT INTO pg_sluice.gateway (gateway_id, address, process_id) OVERRIDING SYSTEM VALUE
        VALUES (id, reached_at, pg_backend_pid());
    UPDATE pg_sluice.session SET gateway_id = id WHERE gateway_id = before;
    RETURN id;
END $$;

-- The first half of the locks' keys.
CREATE FUNCTION pg_sluice.gateway_lock() RETURNS integer LANGUAGE sql IMMUTABLE RETURN hashtext('sluice gateway');

-- Mark gateways that are gone, and end what they have left at work; whether there is any whose files are to be looked
-- through. No commit is under way meanwhile: what one of them publishes is either published by now or never. With
-- `asked_by`, the gateway of that number has been heard all the while: any other that has been silent for two leases is
-- held to be gone, whatever it holds. So are numbers that their own gateway has `given_up`.
CREATE FUNCTION pg_sluice.end_gateways(asked_by integer DEFAULT NULL, given_up integer[] DEFAULT '{}') RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    silent integer[] := ARRAY(
        SELECT g.gateway_id FROM pg_sluice.gateway g WHERE g.ended IS NULL AND (g.gateway_id = ANY (given_up)
            OR (g.gateway_id <> asked_by AND g.granted > 0
                AND g.granted + 2 * pg_sluice.length_of('delay') + pg_sluice.length_of('clock_skew')
                    < pg_sluice.physical_time())));
BEGIN
    -- First, for they may hold what is locked next.
    PERFORM pg_terminate_backend(a.pid) FROM pg_sluice.session s
        JOIN pg_stat_activity a ON a.pid = s.process_id AND a.backend_start = s.backend_start
        WHERE s.gateway_id = ANY (silent);
    PERFORM FROM pg_sluice.gateway g WHERE g.ended IS NULL AND (g.gateway_id = ANY (silent)
        OR pg_try_advisory_xact_lock(pg_sluice.gateway_lock(), g.gateway_id));
    IF FOUND THEN
        LOCK TABLE pg_sluice.head IN EXCLUSIVE MODE;
        UPDATE pg_sluice.gateway g SET ended = now() WHERE g.ended IS NULL AND (g.gateway_id = ANY (silent)
            OR pg_try_advisory_xact_lock(pg_sluice.gateway_lock(), g.gateway_id));
        PERFORM pg_terminate_backend(a.pid) FROM pg_sluice.gateway g
            JOIN pg_sluice.session s USING (gateway_id)
            JOIN pg_stat_activity a ON a.pid = s.process_id AND a.backend_start = s.backend_start
            WHERE g.ended IS NOT NULL;
        PERFORM pg_terminate_backend(k.pid) FROM pg_locks k WHERE k.locktype = 'advisory'
            AND k.classid = pg_sluice.gateway_lock()::bigint::oid AND k.objid::bigint = ANY (silent)
            AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    END IF;
    RETURN EXISTS (SELECT FROM pg_sluice.gateway g WHERE g.ended IS NOT NULL AND NOT g.cleaned);
END $$;

-- Before publishing, with `head` locked: 40001 for files of a gateway that is held to be gone.
CREATE FUNCTION pg_sluice.confirm_writers() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_sluice.staged s
        CROSS JOIN LATERAL jsonb_array_elements((s.change -> 'data_files') || (s.change -> 'delete_files')) f
        CROSS JOIN LATERAL pg_sluice.writer_of(f ->> 'path') w
        WHERE w IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_sluice.gateway g WHERE g.gateway_id = w AND g.ended IS NULL)) THEN
        RAISE EXCEPTION 'could not serialize access: the gateway had lost the catalog'
            USING ERRCODE = 'serialization_failure', HINT = 'The transaction might succeed if retried.';
    END IF;
END $$;

REVOKE ALL ON FUNCTION
    pg_sluice.writer_of(text), pg_sluice.register_gateway(text, integer), pg_sluice.gateway_lock(), pg_sluice.end_gateways(integer, integer[]),
    pg_sluice.confirm_writers() FROM PUBLIC;
