-- Schema synchronisation of gateways (catalog/schema/synchronisation.py has the rules and reasons; here are the
-- decisions that need one place).
--
--   publish() ──► write_update(): Tm ──► gateways report(), confirm ──► activate(): Tu ──► settle(): DDL returns
--
-- Timestamps are those of clock.py. They are taken under a lock that is held to the end of the transaction: so a
-- gateway that is told a safe time sees all that was written before it. The lock is on a table without rows, which no
-- client may lock and VACUUM has nothing to do in.

CREATE TABLE pg_sluice.timekeeping ();
CREATE TABLE pg_sluice.clock (last bigint NOT NULL);
INSERT INTO pg_sluice.clock VALUES (0);

CREATE TABLE pg_sluice.schema_update (
    version bigint PRIMARY KEY,
    objects bigint[] NOT NULL,          -- as in schema_step.table_id
    written bigint NOT NULL,            -- Tm
    made_active bigint,                 -- Tu, where that is before its time
    settled boolean NOT NULL DEFAULT false,
    gateway_id integer,                 -- whose session has written it
    process_id integer NOT NULL DEFAULT pg_backend_pid()
);
CREATE INDEX schema_update_unsettled ON pg_sluice.schema_update (version) WHERE NOT settled;

-- `granted`: the safe time that it was told last, 0 for none or for a gateway that has ended by itself.
ALTER TABLE pg_sluice.gateway
    ADD COLUMN granted bigint NOT NULL DEFAULT 0, ADD COLUMN confirmed bigint NOT NULL DEFAULT 0,
    ADD COLUMN sessions integer, ADD COLUMN address text,
    ADD COLUMN started timestamptz NOT NULL DEFAULT clock_timestamp();

-- The gateway of each client session's backend; rows may outlive their backends.
CREATE UNLOGGED TABLE pg_sluice.session (
    process_id integer PRIMARY KEY, backend_start timestamptz NOT NULL, gateway_id integer NOT NULL);


CREATE FUNCTION pg_sluice.physical_time() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint << 12
$$;

CREATE FUNCTION pg_sluice.length_of(setting text) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (s.value::numeric * 1000000)::bigint << 12 FROM pg_sluice.setting s WHERE s.name = setting
$$;

CREATE FUNCTION pg_sluice.time_of(stamp bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT to_timestamp((stamp >> 12) / 1000000.0) $$;

-- The next timestamp, later than `heard`; under the lock.
CREATE FUNCTION pg_sluice.tick(heard bigint) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now bigint;
BEGIN
    UPDATE pg_sluice.clock SET last = greatest(pg_sluice.physical_time(), last + 1, heard + 1) RETURNING last INTO now;
    RETURN now;
END $$;

-- The time from which an update is active: when DD has passed, unless it was activated before.
CREATE FUNCTION pg_sluice.active_from(u pg_sluice.schema_update) RETURNS bigint LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(u.written + pg_sluice.length_of('delay'), u.made_active)
$$;

-- As Peer.serves_until.
CREATE FUNCTION pg_sluice.serves_until(g pg_sluice.gateway, u pg_sluice.schema_update) RETURNS bigint LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(g.granted, CASE WHEN g.confirmed >= u.written THEN pg_sluice.active_from(u) ELSE u.written END)
           + pg_sluice.length_of('delay')
$$;


-- A heartbeat of a gateway: up to when it has heard everything, and its clock. Takes the next step of each unsettled
-- update where that is possible now. Returns the next safe time, what has happened since (two DD more, because
-- notifications may come late), the unsettled updates, and, if there are any, all gateways. NULL if other sessions
-- hold the lock for long, and 55000 for a gateway that counts as dead.
CREATE FUNCTION pg_sluice.report(id integer, heard bigint, clock bigint, session_count integer) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    safe bigint; open bigint[]; number bigint; delay bigint := pg_sluice.length_of('delay');
BEGIN
    BEGIN
        LOCK TABLE pg_sluice.timekeeping IN EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RETURN NULL;
    END;
    PERFORM set_config('lock_timeout', '0', true);
    IF clock > greatest(pg_sluice.physical_time(), (SELECT last FROM pg_sluice.clock)) + delay THEN
        RAISE EXCEPTION 'the gateway''s clock is ahead of the catalog''s by more than DD';
    END IF;
    safe := pg_sluice.tick(clock);
    UPDATE pg_sluice.gateway SET confirmed = greatest(confirmed, heard), sessions = session_count
        WHERE gateway_id = id AND ended IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the gateway is held to be gone' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    FOR number IN SELECT u.version FROM pg_sluice.schema_update u WHERE NOT u.settled ORDER BY u.version LOOP
        IF pg_sluice.activate(number, safe) OR pg_sluice.settle(number, safe) THEN
            PERFORM pg_sluice.say('advanced');
        END IF;
    END LOOP;
    UPDATE pg_sluice.gateway SET granted = safe WHERE gateway_id = id;
    open := ARRAY(SELECT u.version FROM pg_sluice.schema_update u WHERE NOT u.settled ORDER BY u.version);
    RETURN jsonb_build_object(
        'safe', safe,
        'updates', coalesce((SELECT jsonb_agg(to_jsonb(u) ORDER BY u.version) FROM pg_sluice.schema_update u
                             WHERE greatest(u.written, u.made_active) > heard - 2 * delay
                             AND (heard > 0 OR u.written > safe - 2 * delay)), '[]'),
        'unsettled', open,
        'peers', coalesce((SELECT jsonb_agg(jsonb_build_object(
                'number', g.gateway_id, 'granted', g.granted, 'confirmed', g.confirmed, 'gone', g.ended IS NOT NULL))
            FROM pg_sluice.gateway g
            WHERE g.granted > CASE WHEN g.ended IS NULL THEN 0 ELSE safe - 4 * delay END), '[]'));
END $$;


-- In publish(), before the lock on `head`: wait until the update of these tables before this one is settled. Other
-- sessions that change rows of the same tables wait too.
CREATE FUNCTION pg_sluice.await_settled() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed bigint[] := ARRAY(SELECT r.table_id FROM pg_sluice.dirty d JOIN pg_sluice.relation r USING (relid));
    patience timestamptz := clock_timestamp() + make_interval(secs => (
        2 * (pg_sluice.length_of('delay') + pg_sluice.length_of('clock_skew')) >> 12) / 1000000.0 + 1);
BEGIN
    WHILE EXISTS (SELECT FROM pg_sluice.schema_update u WHERE NOT u.settled AND u.objects && changed) LOOP
        IF clock_timestamp() > patience THEN
            RAISE EXCEPTION 'could not serialize access: a change of the schema is not known to all gateways yet'
                USING ERRCODE = 'serialization_failure', HINT = 'The transaction might succeed if retried.';
        END IF;
        PERFORM pg_sleep(0.002);
    END LOOP;
END $$;


-- In publish(), with `head` locked: the schemas that this transaction changes have a new version from now on. If no
-- other gateway may serve by the one before, that is all: later operations of this gateway's sessions read it here.
-- Asserts that at most two adjacent versions are in use.
CREATE FUNCTION pg_sluice.write_update(snapshot bigint, number bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed bigint[] := ARRAY(SELECT DISTINCT s.table_id FROM pg_sluice.schema_step s WHERE s.snapshot_id = snapshot);
    own integer := pg_sluice.own_gateway();
    now bigint; alone boolean; delay bigint := pg_sluice.length_of('delay'); skew bigint := pg_sluice.length_of('clock_skew');
BEGIN
    IF changed = '{}' THEN
        RETURN;
    ELSIF EXISTS (SELECT FROM pg_sluice.schema_update u WHERE NOT u.settled AND u.objects && changed) THEN
        RAISE EXCEPTION 'could not serialize access: more than two versions of a schema would be in use'
            USING ERRCODE = 'serialization_failure', HINT = 'The transaction might succeed if retried.';
    END IF;
    LOCK TABLE pg_sluice.timekeeping IN EXCLUSIVE MODE;
    now := pg_sluice.tick(0);
    alone := NOT EXISTS (
        SELECT FROM pg_sluice.gateway g WHERE g.gateway_id IS DISTINCT FROM own
        AND g.granted + delay + skew >= now);
    INSERT INTO pg_sluice.schema_update (version, objects, written, made_active, settled, gateway_id)
        VALUES (number, changed, now, CASE WHEN alone THEN now END, alone, own);
    -- Updates settled long ago serve no operation.
    DELETE FROM pg_sluice.schema_update u WHERE u.settled AND u.written < now - 100 * delay;
    IF NOT alone THEN
        -- To the session, which holds back its answer until the update is settled. INFO is always sent.
        RAISE INFO 'a schema has changed' USING ERRCODE = 'SLU01', DETAIL = number;
    END IF;
END $$;


-- Activate an update if possible now, and return whether it was: every gateway knows it, or can no longer serve by what
-- it knew before. Under the lock, at a time later than all that gateways have reported.
CREATE FUNCTION pg_sluice.activate(number bigint, now bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pg_sluice.schema_update u SET made_active = now
        WHERE u.version = number AND NOT u.settled AND now <= pg_sluice.active_from(u) AND NOT EXISTS (
            SELECT FROM pg_sluice.gateway g WHERE g.confirmed < u.written AND now <= pg_sluice.serves_until(g, u));
    RETURN FOUND;
END $$;

-- Settle an update if possible now, and return whether it was: no gateway can serve by the version before it.
CREATE FUNCTION pg_sluice.settle(number bigint, now bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pg_sluice.schema_update u SET settled = true
        WHERE u.version = number AND NOT u.settled AND now > pg_sluice.active_from(u) AND NOT EXISTS (
            SELECT FROM pg_sluice.gateway g WHERE g.confirmed < pg_sluice.active_from(u)
            AND now <= pg_sluice.serves_until(g, u) + pg_sluice.length_of('clock_skew'));
    RETURN FOUND;
END $$;


-- The start of a backend, in microseconds since 1970; NULL if there is none. It distinguishes backends that have had
-- one process number (catalog/postgres/backends.py).
CREATE FUNCTION pg_sluice.backend_started(number integer) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT (extract(epoch FROM a.backend_start) * 1000000)::bigint FROM pg_stat_get_activity(number) a);

-- From now on, the backend of that number works for a gateway, which calls this over a connection of its own. Returns
-- the start of the backend.
CREATE FUNCTION pg_sluice.enter(number integer, id integer) RETURNS bigint LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO pg_sluice.session
        SELECT a.pid, a.backend_start, id FROM pg_stat_get_activity(number) a
        ON CONFLICT (process_id) DO UPDATE SET backend_start = excluded.backend_start, gateway_id = excluded.gateway_id
        RETURNING (extract(epoch FROM backend_start) * 1000000)::bigint
$$;

-- The gateway of this backend; NULL for the gateways' own. Process numbers are used again.
CREATE FUNCTION pg_sluice.own_gateway() RETURNS integer LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.gateway_id FROM pg_sluice.session s JOIN pg_stat_get_activity(pg_backend_pid()) a USING (backend_start)
    WHERE s.process_id = pg_backend_pid()
$$;

-- Before publishing, with `head` locked: 40001 if the gateway of this session counts as dead, or has no lease while
-- there are others.
CREATE FUNCTION pg_sluice.confirm_lease() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    g pg_sluice.gateway; now bigint; own integer := pg_sluice.own_gateway();
BEGIN
    SELECT * INTO g FROM pg_sluice.gateway WHERE gateway_id = own;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    now := greatest(pg_sluice.physical_time(), (SELECT c.last FROM pg_sluice.clock c));
    IF g.ended IS NOT NULL OR (now > g.granted + pg_sluice.length_of('delay') AND EXISTS (
            SELECT FROM pg_sluice.gateway o WHERE o.gateway_id <> g.gateway_id AND o.ended IS NULL AND o.granted > 0)) THEN
        RAISE EXCEPTION 'could not serialize access: the gateway had lost the catalog'
            USING ERRCODE = 'serialization_failure', HINT = 'The transaction might succeed if retried.';
    END IF;
END $$;


-- Gateways, for all roles: what each has heard of, and which schema updates wait for it.
CREATE FUNCTION pg_sluice.node_states() RETURNS TABLE (
    number integer, address text, started timestamptz, state text, version bigint, safe_time timestamptz, lag interval,
    sessions integer, waited_for_by bigint[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT g.gateway_id, g.address, g.started,
           CASE WHEN g.ended IS NOT NULL THEN 'gone'
                WHEN g.granted + pg_sluice.length_of('delay') < pg_sluice.physical_time() THEN 'silent'
                WHEN g.sessions IS NULL THEN 'starting'
                ELSE 'serving' END,
           (SELECT max(u.version) FROM pg_sluice.schema_update u WHERE u.written <= g.confirmed),
           pg_sluice.time_of(g.granted), clock_timestamp() - pg_sluice.time_of(g.granted), g.sessions,
           ARRAY(SELECT u.version FROM pg_sluice.schema_update u WHERE NOT u.settled
                 AND g.confirmed < coalesce(u.made_active, u.written)
                 AND pg_sluice.physical_time() <= pg_sluice.serves_until(g, u) + pg_sluice.length_of('clock_skew')
                 ORDER BY 1)
    FROM pg_sluice.gateway g WHERE g.granted > 0
$$;
CREATE VIEW pg_sluice.nodes AS SELECT * FROM pg_sluice.node_states();
GRANT SELECT ON pg_sluice.nodes TO PUBLIC;
