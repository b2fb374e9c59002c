-- Scans of shadows. A function that reads a lake table finds it empty, and its reads are in no tree: so they are
-- counted, and so are the rows that it writes there.

-- Scans that PostgreSQL itself made of a shadow for DDL within a function: for a constraint, or an index. The gateway
-- checks existing rows (obligations.sql).
CREATE TABLE pg_sluice.ddl_scan (relid oid NOT NULL, scans bigint NOT NULL);


-- How often this transaction has scanned each shadow, or an index of one.
CREATE FUNCTION pg_sluice.scans_of_each() RETURNS TABLE (relid oid, scans bigint) LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.relid, pg_stat_get_xact_numscans(r.relid)
        + (SELECT coalesce(sum(pg_stat_get_xact_numscans(i.indexrelid)), 0)::bigint FROM pg_index i WHERE i.indrelid = r.relid)
    FROM pg_sluice.relation r
$$;

-- How often this transaction has scanned shadows, without those that are `filled`, and without DDL. A greater number
-- after a statement that PostgreSQL alone ran means that the statement read an empty table in place of the lake. A
-- table that the statement itself has created, after the one that was the `newest` then, has only its shadow's rows.
CREATE FUNCTION pg_sluice.shadow_scans(filled oid[] DEFAULT '{}', newest bigint DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH counted AS (
        SELECT r.relid FROM pg_sluice.relation r WHERE r.relid <> ALL (filled) AND NOT coalesce(
            r.table_id > newest AND NOT EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = r.relid), false)
    )
    SELECT coalesce(sum(pg_stat_get_xact_numscans(o)), 0)::bigint
        - (SELECT coalesce(sum(d.scans), 0)::bigint FROM pg_sluice.ddl_scan d JOIN counted USING (relid))
    FROM (SELECT relid FROM counted UNION ALL SELECT indexrelid FROM pg_index JOIN counted ON relid = indrelid) AS scanned (o)
$$;

-- The shadows that this transaction has scanned, without DDL, and how many rows it has added there, and changed or
-- removed, undone ones included.
CREATE FUNCTION pg_sluice.touches_of_each() RETURNS TABLE (relid oid, scans bigint, added bigint, replaced bigint) LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.relid, s.scans - d.scans, c.added, c.replaced
    FROM pg_sluice.scans_of_each() s
    CROSS JOIN LATERAL (SELECT coalesce(sum(x.scans), 0)::bigint AS scans FROM pg_sluice.ddl_scan x WHERE x.relid = s.relid) d
    CROSS JOIN LATERAL (SELECT pg_stat_get_xact_tuples_inserted(s.relid) AS added,
        pg_stat_get_xact_tuples_updated(s.relid) + pg_stat_get_xact_tuples_deleted(s.relid) AS replaced) c
$$;

-- The shadows that functions have truncated, and how this transaction had used them until the first TRUNCATE that was
-- not undone. What it does with them afterwards needs none of the lake's rows, and PostgreSQL resets its counts of rows.
-- The gateway takes these notes away with the rows of filled shadows.
CREATE UNLOGGED TABLE pg_sluice.truncated (relid oid NOT NULL, scans bigint NOT NULL, added bigint NOT NULL, replaced bigint NOT NULL);

CREATE FUNCTION pg_sluice.note_truncate(shadow oid) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO pg_sluice.truncated SELECT t.* FROM pg_sluice.touches_of_each() t
        WHERE t.relid = shadow AND NOT EXISTS (SELECT FROM pg_sluice.truncated n WHERE n.relid = shadow)
$$;

-- At COMMIT: a note that nobody has taken is of a TRUNCATE that would leave the lake's rows in place.
CREATE FUNCTION pg_sluice.refuse_truncated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_sluice.truncated n WHERE n.relid = NEW.relid) AND NOT pg_sluice.is_filled() THEN
        PERFORM pg_sluice.refuse(format('writing table "%s" from within a function or procedure', (
            SELECT c.relname FROM pg_class c WHERE c.oid = NEW.relid)));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER pg_sluice_truncated AFTER INSERT ON pg_sluice.truncated DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.refuse_truncated();

-- The shadows, without those that are `filled`, into which this transaction has inserted rows, and how many, undone
-- ones included; and those that it has truncated. A greater number after a statement that PostgreSQL alone ran means
-- that the lake lacks those rows.
CREATE FUNCTION pg_sluice.shadow_writes(filled oid[]) RETURNS TABLE (name name, rows bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.relname, w.rows FROM pg_sluice.relation r JOIN pg_class c ON c.oid = r.relid
    CROSS JOIN LATERAL (SELECT pg_stat_get_xact_tuples_inserted(c.oid)
        + (SELECT count(*) FROM pg_sluice.truncated n WHERE n.relid = r.relid) AS rows) w
    WHERE r.relid <> ALL (filled) AND w.rows > 0 ORDER BY c.oid
$$;

-- The shadows that this transaction has scanned or changed, as `touches_of_each`; whether the table is newer than the
-- one that was the `newest` then, and no other session has it; and whether functions have truncated it: the numbers are
-- then those until the TRUNCATE. What PostgreSQL has written anew, of a table with rows in the lake, is changed.
CREATE FUNCTION pg_sluice.shadow_touches(newest bigint)
RETURNS TABLE (relid bigint, scans bigint, added bigint, replaced bigint, made boolean, truncated boolean)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.relid::bigint, coalesce(n.scans, t.scans), coalesce(n.added, t.added), coalesce(n.replaced, t.replaced) + w.columns,
        r.table_id > newest AND NOT EXISTS (SELECT FROM pg_sluice.published_shape p WHERE p.relid = r.relid),
        n.relid IS NOT NULL
    FROM pg_sluice.relation r JOIN pg_sluice.touches_of_each() t ON t.relid = r.relid
    LEFT JOIN pg_sluice.truncated n ON n.relid = r.relid
    CROSS JOIN LATERAL (SELECT count(*) AS columns FROM pg_sluice.column_obligation o WHERE o.relid = r.relid) w
    WHERE t.scans > 0 OR t.added > 0 OR t.replaced > 0 OR n.relid IS NOT NULL OR w.columns > 0 ORDER BY r.relid
$$;

-- Backends whose gateway has filled the shadows that a function needs, and takes the function's changes there: rows of
-- running transactions, which no other session sees.
-- `unchecked`: PostgreSQL checks no references meanwhile, as the gateway does so at the end.
CREATE UNLOGGED TABLE pg_sluice.filled (backend integer PRIMARY KEY, unchecked boolean NOT NULL);

CREATE FUNCTION pg_sluice.is_filled() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.filled WHERE backend = pg_backend_pid())
$$;

CREATE FUNCTION pg_sluice.is_checked() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.filled WHERE backend = pg_backend_pid() AND NOT unchecked)
$$;

CREATE FUNCTION pg_sluice.set_filled(filled boolean, unchecked boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('set_filled');
    IF set_filled.filled THEN
        INSERT INTO pg_sluice.filled VALUES (pg_backend_pid(), set_filled.unchecked)
            ON CONFLICT (backend) DO UPDATE SET unchecked = EXCLUDED.unchecked;
    ELSE
        DELETE FROM pg_sluice.filled WHERE backend = pg_backend_pid();
        DELETE FROM pg_sluice.truncated;  -- no other transaction's are visible
    END IF;
    PERFORM set_config('sluice.filled', CASE WHEN set_filled.filled THEN 'on' ELSE '' END, true);
END $$;

-- The ID of the newest table, of any session.
CREATE FUNCTION pg_sluice.newest_table() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_sequence_last_value('pg_sluice.catalog_id')
$$;


-- While functions are watched (gateway/execution/shadow/function_guard.py), which a setting says: the scans before a
-- command.
CREATE FUNCTION pg_sluice.before_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_sluice.backend_setting('sluice.watched', true) = 'on' THEN
        PERFORM set_config('sluice.scanned', (SELECT coalesce(jsonb_object_agg(relid, scans), '{}')
                                              FROM pg_sluice.scans_of_each() WHERE scans > 0)::text, true);
    END IF;
END $$;

-- The command's scans of the tables that it changed, and of those that these refer to. A nested command leaves the
-- outer one without an excuse.
CREATE FUNCTION pg_sluice.after_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before jsonb := nullif(pg_sluice.backend_setting('sluice.scanned', true), '')::jsonb;
BEGIN
    IF before IS NULL OR pg_sluice.backend_setting('sluice.watched', true) IS DISTINCT FROM 'on' THEN
        RETURN;
    END IF;
    PERFORM set_config('sluice.scanned', '', true);
    INSERT INTO pg_sluice.ddl_scan
        WITH changed AS (
            SELECT coalesce(i.indrelid, c.objid) AS relid FROM pg_event_trigger_ddl_commands() c
            LEFT JOIN pg_index i ON i.indexrelid = c.objid WHERE c.classid = 'pg_class'::regclass
        )
        SELECT s.relid, s.scans - coalesce((before ->> s.relid::text)::bigint, 0)
        FROM pg_sluice.scans_of_each() s
        WHERE s.scans > coalesce((before ->> s.relid::text)::bigint, 0)
            AND s.relid IN (SELECT relid FROM changed
                            UNION SELECT k.confrelid FROM pg_constraint k JOIN changed ON relid = k.conrelid WHERE k.contype = 'f')
            AND NOT EXISTS (SELECT FROM changed WHERE pg_sluice.may_call_users(relid));
END $$;

-- Whether a table's columns, constraints and indexes depend on functions of users, or may: a command may have run some
-- of these.
CREATE FUNCTION pg_sluice.may_call_users(changed oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_depend d
        WHERE d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384
            AND (d.classid, d.objid) IN (
                SELECT 'pg_constraint'::regclass::oid, k.oid FROM pg_constraint k WHERE k.conrelid = changed
                UNION ALL SELECT 'pg_attrdef'::regclass, f.oid FROM pg_attrdef f WHERE f.adrelid = changed
                UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = changed))
        OR EXISTS (
            SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
            WHERE a.attrelid = changed AND a.attnum > 0 AND NOT a.attisdropped AND t.typtype = 'd')
$$;

-- The use of sequences before a statement that may be undone and executed again: of those that have such a name, and of
-- those that give numbers to such tables, if the client might set them itself. `others`: of any, where they are few.
CREATE FUNCTION pg_sluice.sequences_used(tables oid[], names name[], others boolean) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    client name := pg_sluice.client_role();
BEGIN
    PERFORM pg_sluice.authorize('sequences_used');
    RETURN (
        WITH named AS (SELECT c.oid FROM pg_class c WHERE c.relname = ANY (names) UNION SELECT unnest(tables)),
        found AS (
            SELECT n.oid FROM named n
            UNION SELECT q.seqrelid FROM pg_sequence q WHERE others AND (SELECT count(*) FROM pg_sequence) <= 100
            UNION SELECT d.objid FROM named n JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = n.oid
                WHERE d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
            UNION SELECT d.refobjid FROM named n JOIN pg_attrdef f ON f.adrelid = n.oid
                JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
                WHERE d.refclassid = 'pg_class'::regclass)
        SELECT jsonb_agg(pg_sluice.sequence_use(c.oid)) FROM found JOIN pg_class c USING (oid)
        WHERE (c.relpersistence = 'p' OR c.relnamespace = pg_my_temp_schema())
            AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(client, c.oid, 'UPDATE') END);
END $$;

-- The same statement was undone: its numbers are given again, as far as nobody has taken another since.
CREATE FUNCTION pg_sluice.rewind_sequences(used jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('rewind_sequences');
    PERFORM pg_sluice.rewind(u) FROM jsonb_array_elements(used) u;
END $$;
