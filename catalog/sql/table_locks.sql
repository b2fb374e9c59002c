-- LOCK TABLE. A transaction that uses a lake table releases its locks on the shadow at once, so that no schema change
-- waits for it. LOCK TABLE and TRUNCATE must wait for it as in PostgreSQL. So until it ends it keeps a lock on a
-- relation beside the shadow, in the mode that PostgreSQL would have taken on the table itself. LOCK TABLE takes that
-- lock first (and waits for earlier users of the table), then the shadow's (so that later ones wait for it).

CREATE FUNCTION pg_sluice.make_table_lock(table_id bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE TABLE pg_sluice.table_lock_%s ()', table_id);
END $$;

-- Remove those of dropped tables, if all transactions that used them have ended.
CREATE FUNCTION pg_sluice.drop_table_locks() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
    gone regclass;
BEGIN
    FOR gone IN SELECT c.oid FROM pg_class c
                WHERE c.relnamespace = 'pg_sluice'::regnamespace AND c.relname LIKE E'table\\_lock\\_%' AND NOT EXISTS (
                    SELECT FROM pg_sluice.relation r WHERE c.relname = format('table_lock_%s', r.table_id)) LOOP
        BEGIN
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', gone);
            EXECUTE format('DROP TABLE %s', gone);
        EXCEPTION WHEN lock_not_available OR undefined_table THEN
            NULL;  -- in use still, or somebody else has removed it: whoever drops a table next looks again
        END;
    END LOOP;
END $$;

CREATE FUNCTION pg_sluice.check_lock_mode(mode text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF mode NOT IN ('ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE',
                    'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE') THEN
        RAISE EXCEPTION 'no such lock: %', mode USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Take the locks of several tables, one after another. A dropped table has none: a later use of it will fail.
CREATE FUNCTION pg_sluice.lock_tables(relids oid[], mode text, nowait boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    PERFORM pg_sluice.authorize('lock_tables', 'lock_referenced');
    PERFORM pg_sluice.check_lock_mode(mode);
    FOR name IN SELECT format('pg_sluice.table_lock_%s', r.table_id)
                FROM unnest(relids) WITH ORDINALITY w (relid, n) JOIN pg_sluice.relation r USING (relid) ORDER BY n LOOP
        BEGIN
            EXECUTE format('LOCK TABLE %s IN %s MODE %s', name, mode, CASE WHEN nowait THEN 'NOWAIT' END);
        EXCEPTION WHEN undefined_table THEN
            NULL;
        END;
    END LOOP;
END $$;

-- Lock relations themselves, under any name, for a role whose rights were checked: those that exist.
CREATE FUNCTION pg_sluice.lock_relations(relids oid[], mode text, nowait boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name regclass;
BEGIN
    PERFORM pg_sluice.authorize('lock_relations');
    PERFORM pg_sluice.check_lock_mode(mode);
    FOR name IN SELECT c.oid FROM unnest(relids) WITH ORDINALITY w (oid, n) JOIN pg_class c USING (oid) ORDER BY n LOOP
        PERFORM pg_sluice.lock_relation(name, mode, nowait);
    END LOOP;
END $$;
