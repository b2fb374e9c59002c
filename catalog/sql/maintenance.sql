-- Compaction, and expiry of snapshots.
--
--   compaction   new files replace old ones as one snapshot, in which no row changes
--   expiry       snapshots before the horizon are removed, and files of only these are scheduled for deletion
--
-- The horizon is the oldest snapshot that may still be read: by the retention, by a gateway that reads it (`reader`),
-- or by a session that has chosen it (`pinned`). All older ones are removed, no younger ones: so no gaps appear.

-- maintenance_settings.py, as rows.
CREATE TABLE pg_sluice.maintenance_setting (
    name text PRIMARY KEY, type regtype NOT NULL, preset text NOT NULL, description text NOT NULL);

CREATE VIEW pg_sluice.maintenance_settings AS
    SELECT m.name, coalesce((
        SELECT substr(c, length(m.name) + 2) FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c
        WHERE s.setrole = 0 AND s.setdatabase = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND lower(split_part(c, '=', 1)) = m.name), m.preset) AS value, m.preset, m.description
    FROM pg_sluice.maintenance_setting m;
GRANT SELECT ON pg_sluice.maintenance_settings TO PUBLIC;


-- A transaction that names rows of a table by file and position holds the table's row here FOR KEY SHARE until it ends
-- (row_locks.sql). Compaction, which moves rows, yields to it.
CREATE TABLE pg_sluice.placed (relid oid PRIMARY KEY);

CREATE FUNCTION pg_sluice.hold_off_compaction(shadow oid) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('hold_off_compaction');
    PERFORM FROM pg_sluice.placed p WHERE p.relid = shadow FOR KEY SHARE;
END $$;

-- The results of compaction. `rows_changed` is the last snapshot before it in which rows or schema changed.
CREATE TABLE pg_sluice.compaction (
    snapshot_id bigint NOT NULL, table_id bigint NOT NULL, rows_changed bigint NOT NULL,
    files_before integer NOT NULL, files_after integer NOT NULL, bytes_before bigint NOT NULL, bytes_after bigint NOT NULL,
    row_count bigint NOT NULL, PRIMARY KEY (table_id, snapshot_id));

-- The last snapshot that changed a table's rows or schema, ignoring compaction since.
CREATE FUNCTION pg_sluice.rows_changed(r pg_sluice.relation) RETURNS bigint LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT c.rows_changed FROM pg_sluice.compaction c
                     WHERE c.table_id = r.table_id AND c.snapshot_id = r.changed_snapshot), r.changed_snapshot)
$$;


-- Replace old files by new ones. `replaced` lists the old ones, each with its delete file when it was read; `change` is
-- as for publish_rows. Returns NULL if done, or the reason why it yields; then nothing has happened. The caller's
-- lock_timeout is short: any other session goes first.
CREATE FUNCTION pg_sluice.publish_compaction(
    shadow oid, version bigint, replaced jsonb, change jsonb
) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r pg_sluice.relation; snapshot bigint; before record; after record; files bigint[];
BEGIN
    PERFORM FROM pg_sluice.placed p WHERE p.relid = shadow FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 'rows of the table are locked';
    END IF;
    PERFORM FROM pg_sluice.changing o WHERE o.relid = shadow FOR UPDATE SKIP LOCKED;
    IF NOT FOUND
       OR EXISTS (SELECT FROM pg_sluice.schema_change c WHERE c.relid = shadow AND c.finished IS NULL) THEN
        RETURN 'the table''s schema is being changed';
    END IF;
    SELECT * INTO r FROM pg_sluice.relation k WHERE k.relid = shadow FOR UPDATE;
    IF NOT FOUND OR r.schema_version <> version THEN
        RETURN 'the table''s schema has changed';
    END IF;
    LOCK TABLE pg_sluice.head IN EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM jsonb_array_elements(change -> 'data_files') f
               CROSS JOIN LATERAL pg_sluice.writer_of(f ->> 'path') w
               WHERE w IS NOT NULL AND NOT EXISTS (
                   SELECT FROM pg_sluice.gateway g WHERE g.gateway_id = w AND g.ended IS NULL)) THEN
        RETURN 'the gateway had lost the catalog';
    END IF;
    SELECT array_agg((o ->> 'data_file_id')::bigint) INTO files FROM jsonb_array_elements(replaced) o;
    IF EXISTS (
        SELECT FROM jsonb_array_elements(replaced) o
        LEFT JOIN pg_sluice.data_file f
            ON f.data_file_id = (o ->> 'data_file_id')::bigint AND f.table_id = r.table_id AND f.end_snapshot IS NULL
        LEFT JOIN pg_sluice.delete_file d ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL
        WHERE f.data_file_id IS NULL OR d.delete_file_id IS DISTINCT FROM (o ->> 'delete_file_id')::bigint) THEN
        RETURN 'rows of the files have changed';
    END IF;
    snapshot := pg_sluice.take_numbers('pg_sluice.snapshot_id');
    SELECT count(*) AS files, sum(f.file_size_bytes) AS bytes, sum(f.record_count) AS records,
           min(coalesce(f.file_order, f.data_file_id)) AS place INTO before
        FROM pg_sluice.data_file f WHERE f.data_file_id = ANY (files);
    UPDATE pg_sluice.data_file SET end_snapshot = snapshot WHERE data_file_id = ANY (files);
    UPDATE pg_sluice.delete_file SET end_snapshot = snapshot
        WHERE data_file_id = ANY (files) AND end_snapshot IS NULL;
    UPDATE pg_ducklake.ducklake_table_stats SET record_count = record_count - before.records,
        file_size_bytes = file_size_bytes - before.bytes WHERE table_id = r.table_id;
    PERFORM pg_sluice.publish_rows(snapshot, change || jsonb_build_object('place', before.place));
    UPDATE pg_sluice.relation SET changed_snapshot = snapshot WHERE relid = shadow;
    SELECT count(*) AS files, coalesce(sum((f ->> 'size_bytes')::bigint), 0) AS bytes,
           coalesce(sum((f ->> 'record_count')::bigint), 0) AS records
        INTO after FROM jsonb_array_elements(change -> 'data_files') f;
    INSERT INTO pg_sluice.compaction VALUES (
        snapshot, r.table_id, pg_sluice.rows_changed(r), before.files, after.files, before.bytes, after.bytes, after.records);
    INSERT INTO pg_ducklake.ducklake_snapshot VALUES (
        snapshot, clock_timestamp(), (SELECT last_value FROM pg_sluice.schema_version),
        (SELECT last_value + 1 FROM pg_sluice.catalog_id), (SELECT last_value + 1 FROM pg_sluice.file_id));
    INSERT INTO pg_ducklake.ducklake_snapshot_changes
        VALUES (snapshot, format('compacted_table:%s', r.table_id), session_user, NULL, NULL);
    RETURN NULL;
END $$;


-- The turn to compact a table: it belongs to the backend named here, as long as that is alive (backends.sql).
CREATE TABLE pg_sluice.compacting (relid oid PRIMARY KEY, process_id integer NOT NULL, backend_started bigint NOT NULL);

-- Take the turn for the calling backend, until it ends or gives the turn back; return whether it was free. The row
-- serialises simultaneous callers, and each sees the row of the one before.
CREATE FUNCTION pg_sluice.take_turn(shadow oid) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO pg_sluice.compacting AS c
        VALUES (shadow, pg_backend_pid(), pg_sluice.backend_started(pg_backend_pid()))
        ON CONFLICT (relid) DO UPDATE
            SET process_id = excluded.process_id, backend_started = excluded.backend_started
            WHERE NOT pg_sluice.lives(c.process_id, c.backend_started);
    RETURN FOUND;
END $$;

CREATE FUNCTION pg_sluice.give_turn(shadow oid) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM pg_sluice.compacting c WHERE c.relid = shadow AND c.process_id = pg_backend_pid()
        AND c.backend_started = pg_sluice.backend_started(pg_backend_pid())
$$;


-- Gateways that read the lake, each with the snapshot before which it reads nothing. A row lives as long as the backend
-- that has registered it (backends.sql). `refreshed` is the time of its last report.
CREATE TABLE pg_sluice.reader (
    reader_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, floor bigint NOT NULL,
    process_id integer NOT NULL, backend_started bigint NOT NULL,
    refreshed timestamptz NOT NULL DEFAULT clock_timestamp());

-- Snapshots that sessions have chosen (sluice.as_of).
CREATE TABLE pg_sluice.pinned (
    reader_id integer NOT NULL REFERENCES pg_sluice.reader ON DELETE CASCADE, snapshot_id bigint NOT NULL,
    PRIMARY KEY (reader_id, snapshot_id));

-- A new reader's number, which belongs to the calling backend; no snapshot expires meanwhile.
CREATE FUNCTION pg_sluice.register_reader(first bigint) RETURNS integer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id integer;
BEGIN
    LOCK TABLE pg_sluice.reader IN ROW EXCLUSIVE MODE;
    INSERT INTO pg_sluice.reader (floor, process_id, backend_started) VALUES (
        coalesce(first, (SELECT max(snapshot_id) FROM pg_ducklake.ducklake_snapshot)),
        pg_backend_pid(), pg_sluice.backend_started(pg_backend_pid())) RETURNING reader_id INTO id;
    RETURN id;
END $$;

-- Keep a snapshot; false if it is gone.
CREATE FUNCTION pg_sluice.pin(reader integer, snapshot bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE pg_sluice.reader IN ROW EXCLUSIVE MODE;
    INSERT INTO pg_sluice.pinned SELECT reader, s.snapshot_id FROM pg_ducklake.ducklake_snapshot s
        WHERE s.snapshot_id = snapshot ON CONFLICT DO NOTHING;
    RETURN FOUND OR EXISTS (SELECT FROM pg_sluice.pinned p WHERE p.reader_id = reader AND p.snapshot_id = snapshot);
END $$;


-- Remove unread snapshots older than `retention`; return how many. The newest one before the retention stays: it is the
-- state of the lake when the retention began.
CREATE FUNCTION pg_sluice.expire_snapshots(retention interval) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    horizon bigint; expired bigint;
BEGIN
    -- One session at a time; no snapshot is pinned and no reader appears between here and COMMIT.
    LOCK TABLE pg_sluice.reader IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM pg_sluice.reader r WHERE NOT pg_sluice.lives(r.process_id, r.backend_started);
    SELECT max(snapshot_id) INTO horizon FROM pg_ducklake.ducklake_snapshot
        WHERE snapshot_time <= clock_timestamp() - retention;
    horizon := least(coalesce(horizon, 0), (SELECT min(floor) FROM pg_sluice.reader),
                     (SELECT min(snapshot_id) FROM pg_sluice.pinned));
    DELETE FROM pg_ducklake.ducklake_snapshot WHERE snapshot_id < horizon;
    GET DIAGNOSTICS expired = ROW_COUNT;
    DELETE FROM pg_ducklake.ducklake_snapshot_changes WHERE snapshot_id < horizon;
    PERFORM pg_sluice.schedule_files(horizon);
    DELETE FROM pg_ducklake.ducklake_table WHERE end_snapshot <= horizon;
    PERFORM pg_sluice.drop_inlined(horizon);
    DELETE FROM pg_ducklake.ducklake_column WHERE end_snapshot <= horizon;
    DELETE FROM pg_ducklake.ducklake_sort_expression e USING pg_ducklake.ducklake_sort_info i
        WHERE e.sort_id = i.sort_id AND i.end_snapshot <= horizon;
    DELETE FROM pg_ducklake.ducklake_sort_info WHERE end_snapshot <= horizon;
    PERFORM pg_sluice.expire_partition_keys(horizon);
    DELETE FROM pg_ducklake.ducklake_schema s WHERE s.end_snapshot <= horizon
        AND NOT EXISTS (SELECT FROM pg_ducklake.ducklake_table t WHERE t.schema_id = s.schema_id);
    DELETE FROM pg_ducklake.ducklake_table_stats t
        WHERE NOT EXISTS (SELECT FROM pg_ducklake.ducklake_table k WHERE k.table_id = t.table_id);
    DELETE FROM pg_ducklake.ducklake_table_column_stats t
        WHERE NOT EXISTS (SELECT FROM pg_ducklake.ducklake_table k WHERE k.table_id = t.table_id);
    DELETE FROM pg_sluice.compaction c WHERE c.snapshot_id < horizon AND NOT EXISTS (
        SELECT FROM pg_sluice.relation r WHERE r.table_id = c.table_id AND r.changed_snapshot = c.snapshot_id);
    DELETE FROM pg_sluice.placed p WHERE p.relid IN (
        SELECT g.relid FROM pg_sluice.placed g WHERE NOT EXISTS (
            SELECT FROM pg_sluice.relation r WHERE r.relid = g.relid) FOR UPDATE SKIP LOCKED);
    DELETE FROM pg_sluice.changing o WHERE o.relid IN (
        SELECT g.relid FROM pg_sluice.changing g WHERE NOT EXISTS (
            SELECT FROM pg_sluice.relation r WHERE r.relid = g.relid) FOR UPDATE SKIP LOCKED);
    DELETE FROM pg_sluice.compacting c WHERE c.relid IN (
        SELECT g.relid FROM pg_sluice.compacting g WHERE NOT pg_sluice.lives(g.process_id, g.backend_started)
        FOR UPDATE SKIP LOCKED);
    RETURN expired;
END $$;

-- The files that no snapshot from `horizon` on has. Their paths are below the data path, as DuckLake has it.
CREATE FUNCTION pg_sluice.schedule_files(horizon bigint) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    WITH folder AS (
        SELECT DISTINCT ON (t.table_id) t.table_id, CASE WHEN t.path_is_relative THEN s.path || t.path
            ELSE substr(t.path, length(m.value) + 1) END AS path
        FROM pg_ducklake.ducklake_table t JOIN pg_ducklake.ducklake_schema s ON s.schema_id = t.schema_id
        CROSS JOIN (SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path') m
    ), data AS (
        DELETE FROM pg_sluice.data_file WHERE end_snapshot <= horizon
        RETURNING data_file_id, table_id, CASE WHEN hot_rows IS NULL THEN path END AS path
    ), deletes AS (
        DELETE FROM pg_sluice.delete_file WHERE end_snapshot <= horizon
        RETURNING delete_file_id, table_id, CASE WHEN positions IS NULL THEN path ELSE base_path END AS path
    ), statistics AS (
        DELETE FROM pg_ducklake.ducklake_file_column_stats s USING data
        WHERE s.table_id = data.table_id AND s.data_file_id = data.data_file_id
    )
    INSERT INTO pg_ducklake.ducklake_files_scheduled_for_deletion
        SELECT DISTINCT ON (gone.path) gone.id, folder.path || gone.path, true, clock_timestamp()
        FROM (SELECT * FROM data UNION ALL SELECT * FROM deletes) AS gone (id, table_id, path) JOIN folder USING (table_id)
        WHERE gone.path IS NOT NULL AND NOT EXISTS (  -- a file of positions may have further ones beside it later
            SELECT FROM pg_sluice.delete_file d
            WHERE d.base_path = gone.path AND d.table_id = gone.table_id AND (d.end_snapshot > horizon OR d.end_snapshot IS NULL));
$$;


-- The sizes of lake tables; their shadows are empty, so pg_relation_size and \dt+ say 0.
CREATE VIEW pg_sluice.table_sizes AS
    SELECT r.relid::regclass AS relation, count(f.data_file_id) AS files,
           coalesce(sum(f.record_count), 0)::bigint - coalesce(sum(d.delete_count), 0)::bigint AS row_count,
           coalesce(sum(d.delete_count), 0)::bigint AS deleted_rows,
           coalesce(sum(f.file_size_bytes), 0)::bigint + coalesce(sum(d.file_size_bytes), 0)::bigint AS bytes
    FROM pg_sluice.relation r
    LEFT JOIN pg_sluice.data_file f ON f.table_id = r.table_id AND f.end_snapshot IS NULL
    LEFT JOIN pg_sluice.delete_file d ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL
    WHERE has_table_privilege(r.relid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER, MAINTAIN')
    GROUP BY r.relid;
GRANT SELECT ON pg_sluice.table_sizes TO PUBLIC;
