-- Gateways that write to the lake. Each has a number, which is in the names of its files, and is alive as long as the
-- backend that has registered it (backends.sql). A dead one is marked as ended. From then on nothing that it wrote is
-- published, so that its files without a snapshot can be removed.
CREATE TABLE pg_sluice.gateway (
    gateway_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ended timestamptz, cleaned boolean NOT NULL DEFAULT false,
    process_id integer NOT NULL, backend_started bigint NOT NULL);

-- The number in a file's name (storage/parquet/layout.py); NULL if there is none.
CREATE FUNCTION pg_sluice.writer_of(path text) RETURNS integer LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT substring(path FROM '^_?[0-9a-f-]{36}-w([0-9]{1,9})')::integer
$$;

-- A new gateway's number, which belongs to the calling backend. Its living sessions under another number continue under
-- this one.
CREATE FUNCTION pg_sluice.register_gateway(reached_at text DEFAULT NULL, before integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id integer;
BEGIN
    INSERT INTO pg_sluice.gateway (address, process_id, backend_started)
        VALUES (reached_at, pg_backend_pid(), pg_sluice.backend_started(pg_backend_pid())) RETURNING gateway_id INTO id;
    UPDATE pg_sluice.session SET gateway_id = id WHERE gateway_id = before;
    RETURN id;
END $$;

-- Mark dead gateways and end their backends; return whether any has files to be searched. No commit runs meanwhile: a
-- dead gateway's commit is published either by now or never. With `asked_by`, the gateway of that number has been heard
-- all the time: any other that has been silent for two leases counts as dead, whatever it holds. So do numbers that
-- their own gateway has `given_up`.
CREATE FUNCTION pg_sluice.end_gateways(asked_by integer DEFAULT NULL, given_up integer[] DEFAULT '{}') RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    silent integer[] := ARRAY(
        SELECT g.gateway_id FROM pg_sluice.gateway g WHERE g.ended IS NULL AND (g.gateway_id = ANY (given_up)
            OR (g.gateway_id <> asked_by AND g.granted > 0
                AND g.granted + 2 * pg_sluice.length_of('delay') + pg_sluice.length_of('clock_skew')
                    < pg_sluice.physical_time())));
BEGIN
    -- First, because they may hold what is locked next.
    PERFORM pg_sluice.end_backend(a.pid, pg_sluice.backend_started(a.pid)) FROM pg_sluice.session s
        JOIN pg_stat_activity a ON a.pid = s.process_id AND a.backend_start = s.backend_start
        WHERE s.gateway_id = ANY (silent);
    PERFORM FROM pg_sluice.gateway g WHERE g.ended IS NULL AND (g.gateway_id = ANY (silent)
        OR NOT pg_sluice.lives(g.process_id, g.backend_started));
    IF FOUND THEN
        LOCK TABLE pg_sluice.head IN EXCLUSIVE MODE;
        UPDATE pg_sluice.gateway g SET ended = now() WHERE g.ended IS NULL AND (g.gateway_id = ANY (silent)
            OR NOT pg_sluice.lives(g.process_id, g.backend_started));
        PERFORM pg_sluice.end_backend(a.pid, pg_sluice.backend_started(a.pid)) FROM pg_sluice.gateway g
            JOIN pg_sluice.session s USING (gateway_id)
            JOIN pg_stat_activity a ON a.pid = s.process_id AND a.backend_start = s.backend_start
            WHERE g.ended IS NOT NULL;
        PERFORM pg_sluice.end_backend(g.process_id, g.backend_started) FROM pg_sluice.gateway g
            WHERE g.gateway_id = ANY (silent);
    END IF;
    RETURN EXISTS (SELECT FROM pg_sluice.gateway g WHERE g.ended IS NOT NULL AND NOT g.cleaned);
END $$;

-- Before publishing, with `head` locked: 40001 for files of a gateway that counts as dead.
CREATE FUNCTION pg_sluice.confirm_writers() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
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
