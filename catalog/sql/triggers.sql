-- Triggers of users on lake tables. They are PostgreSQL's own, on the shadows, and fire when a gateway has PostgreSQL
-- execute a statement over the lake's rows there (gateway/execution/functions/trigger_statement.py). Here is which
-- changes of which tables fire any.

-- Whether it is a user's trigger, and not one of Sluice's.
CREATE FUNCTION pg_sluice.is_of_users(t pg_trigger) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT NOT t.tgisinternal
        AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.oid = t.tgfoid AND p.pronamespace = 'pg_sluice'::regnamespace)
$$;

-- Refuse triggers whose names are for Sluice's own.
CREATE FUNCTION pg_sluice.check_triggers(changed oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t pg_trigger;
BEGIN
    FOR t IN SELECT g.* FROM pg_trigger g WHERE g.tgrelid = changed AND pg_sluice.is_of_users(g) LOOP
        IF starts_with(t.tgname, 'pg_sluice') THEN
            PERFORM pg_sluice.refuse(format('a trigger named "%s"', t.tgname));
        END IF;
    END LOOP;
END $$;

-- The tables whose changes another's triggers may follow, by the actions of foreign keys and TRUNCATE … CASCADE: those
-- that the table refers to, and so on, itself among them.
CREATE FUNCTION pg_sluice.tables_above(changed oid) RETURNS SETOF oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE above (relid) AS (
        SELECT changed
        UNION SELECT k.confrelid FROM above a JOIN pg_constraint k ON k.conrelid = a.relid AND k.contype = 'f')
    SELECT relid FROM above
$$;

-- The changes of a table that fire triggers of users, also of tables that follow by foreign keys: the sum of 4
-- (INSERT), 8 (DELETE), 16 (UPDATE) and 32 (TRUNCATE, with CASCADE), as in pg_trigger.tgtype. A foreign key is found by
-- its trigger on the table that it refers to. No client may set session_replication_role, so those that are ENABLEd as
-- REPLICA fire for none. By index alone, as other functions here: within a block that makes thousands of objects, PostgreSQL
-- knows of few, and would read all of its catalogs for each.
CREATE FUNCTION pg_sluice.fires(changed oid) RETURNS integer LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    WITH RECURSIVE reached (relid, event, first) AS (
        SELECT changed, e, e FROM unnest(ARRAY[4, 8, 16, 32]) AS u (e)
        UNION SELECT n.relid, n.event, r.first FROM reached r CROSS JOIN LATERAL (
            SELECT k.conrelid, CASE WHEN r.event = 32 THEN 32 WHEN r.event = 8 AND k.confdeltype = 'c' THEN 8 ELSE 16 END
            FROM pg_trigger t CROSS JOIN LATERAL (SELECT c.* FROM pg_constraint c WHERE c.oid = t.tgconstraint LIMIT 1) AS k
            WHERE t.tgrelid = r.relid AND k.contype = 'f' AND k.confrelid = r.relid
                AND CASE r.event WHEN 8 THEN k.confdeltype WHEN 16 THEN k.confupdtype WHEN 32 THEN 'c' END IN ('c', 'n', 'd')
            OFFSET 0) AS n (relid, event)
    )
    SELECT coalesce(bit_or(r.first), 0) FROM reached r CROSS JOIN LATERAL (
        SELECT FROM pg_trigger t WHERE t.tgrelid = r.relid AND t.tgtype & r.event <> 0 AND t.tgenabled IN ('O', 'A')
            AND pg_sluice.is_of_users(t) LIMIT 1) AS fired  -- not all tables' triggers at once
$$;

-- The last step of the schema log, and the lake tables that fire triggers, in JSON by OID: the result of `fires` for
-- each.
CREATE FUNCTION pg_sluice.fired_triggers(OUT step bigint, OUT fired jsonb) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    WITH above AS (
        SELECT DISTINCT pg_sluice.tables_above(t.tgrelid) AS relid FROM pg_trigger t
        WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND pg_sluice.is_of_users(t)
    )
    SELECT coalesce((SELECT max(s.step_id) FROM pg_sluice.schema_step s), 0), coalesce((
        SELECT jsonb_object_agg(a.relid::bigint, f.events) FROM above a JOIN pg_sluice.relation r ON r.relid = a.relid
        CROSS JOIN LATERAL (SELECT pg_sluice.fires(a.relid) AS events OFFSET 0) f WHERE f.events <> 0), '{}')
$$;

-- The triggers of a table's shape (enlistment.sql): its own, and those that a change of it fires.
CREATE FUNCTION pg_sluice.trigger_shape(shadow oid) RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_array(pg_sluice.fires(shadow), (
        SELECT jsonb_agg(jsonb_build_array(t.tgname, t.tgfoid::bigint, t.tgtype, t.tgenabled, t.tgattr::text, encode(t.tgargs, 'hex'),
                                           regexp_replace(t.tgqual::text, E':location -?\\d+', '', 'g'),
                                           t.tgoldtable, t.tgnewtable, t.tgdeferrable, t.tginitdeferred) ORDER BY t.tgname)
        FROM pg_trigger t WHERE t.tgrelid = shadow AND pg_sluice.is_of_users(t)))
$$;

-- The triggers that do not fire while the transaction copies rows, though they are ENABLEd as ALWAYS or REPLICA
-- (`still_triggers` in superuser.sql).
CREATE UNLOGGED TABLE pg_sluice.stilled (backend integer NOT NULL, trigger oid NOT NULL, enabled "char" NOT NULL);

-- Deferred triggers of users wait in PostgreSQL's own queue, behind an event of ours: a row that was here, which precedes
-- those of each statement. At COMMIT the gateway makes them immediate, over filled shadows, and they fire. Ours is the
-- first, and defers what they queue from then on (`defer_again` in superuser.sql), as at PostgreSQL's COMMIT
-- (gateway/execution/functions/late_triggers.py).
CREATE UNLOGGED TABLE pg_sluice.late ();

CREATE FUNCTION pg_sluice.precede_late() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('precede_late');
    IF pg_sluice.backend_setting('transaction_read_only') = 'on' THEN
        RETURN;  -- nothing can be queued
    END IF;
    INSERT INTO pg_sluice.late DEFAULT VALUES;
    DELETE FROM pg_sluice.late;  -- no other transaction's are visible
END $$;

-- A mark of the functions of users, and of what depends on them: casts, operators, constraints, views, triggers. It is
-- another as soon as one of these is. Who learns what functions do learns it for a mark: a function or a dependency
-- that is replaced comes back with a higher xmin.
CREATE FUNCTION pg_sluice.code_mark() RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT concat_ws(' ', count(*), sum(p.xmin::text::bigint), sum(d.found), sum(d.changed))
        FROM pg_proc p CROSS JOIN LATERAL (
            SELECT count(*) AS found, sum(g.xmin::text::bigint) AS changed FROM pg_depend g
            WHERE g.refclassid = 'pg_proc'::regclass AND g.refobjid = p.oid) d
        WHERE p.oid >= 16384 AND p.pronamespace <> 'pg_sluice'::regnamespace);
END $$;
