-- Reads of old snapshots: the list of snapshots, for all roles, and no DDL in a session that reads an old one.

CREATE VIEW pg_sluice.snapshots AS
    SELECT snapshot_id, snapshot_time FROM pg_ducklake.ducklake_snapshot;
GRANT SELECT ON pg_sluice.snapshots TO PUBLIC;

-- For ALTER ROLE … SET.
GRANT SET ON PARAMETER "sluice.as_of" TO PUBLIC;

-- What a value of sluice.as_of names: nothing, a snapshot's number, `@` and microseconds since 1970, or `!` and the value
-- where it is invalid.
CREATE FUNCTION pg_sluice.named_snapshot(value text) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF value IS NULL OR value = '' OR value ~ '^\s*$' THEN
        RETURN '';
    ELSIF value ~ '^\s*[0-9]+\s*$' THEN
        RETURN btrim(value, E' \t\r\n');
    ELSIF pg_input_is_valid(value, 'timestamptz') THEN
        RETURN '@' || extract(epoch FROM value::timestamptz) * 1000000;
    END IF;
    RETURN '!' || value;
END $$;

CREATE FUNCTION pg_sluice.refuse_in_the_past() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- At COMMIT, the views of hot rows are made (hot_rows.sql), whatever the session reads by then.
    IF coalesce(pg_sluice.backend_setting('sluice.as_of', true), '') <> '' AND current_user <> 'sluice_metadata' THEN
        RAISE EXCEPTION 'cannot execute % while sluice.as_of is set', tg_tag
            USING ERRCODE = 'read_only_sql_transaction';
    END IF;
END $$;

-- The snapshots that open transactions have exported (pg_export_snapshot), by PostgreSQL's virtual transaction IDs; NULL
-- of one that has exported several.
CREATE UNLOGGED TABLE pg_sluice.exported_snapshot (transaction text PRIMARY KEY, snapshot_id bigint);
