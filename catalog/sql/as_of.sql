-- Reads of old snapshots: the list of snapshots, for all roles, and no DDL in a session that reads an old one.

CREATE VIEW pg_sluice.snapshots AS
    SELECT snapshot_id, snapshot_time FROM pg_ducklake.ducklake_snapshot;
GRANT SELECT ON pg_sluice.snapshots TO PUBLIC;

-- For ALTER ROLE … SET.
GRANT SET ON PARAMETER "sluice.as_of" TO PUBLIC;

CREATE FUNCTION pg_sluice.refuse_in_the_past() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- At COMMIT, the views of hot rows are made (hot_rows.sql), whatever the session reads by then.
    IF coalesce(pg_sluice.backend_setting('sluice.as_of', true), '') <> '' AND current_user <> 'sluice_metadata' THEN
        RAISE EXCEPTION 'cannot execute % while sluice.as_of is set', tg_tag
            USING ERRCODE = 'read_only_sql_transaction';
    END IF;
END $$;
