-- Updates of the gateways' cached tables: each reads only what has changed since.

-- The changes of a table since a snapshot: its description, if it may be another one; the data files that ended and
-- the new ones, with their statistics; the new delete files of older data files.
CREATE FUNCTION pg_sluice.version_since(shadow oid, since bigint, known_version bigint) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'description', CASE WHEN r.described_snapshot > since OR r.schema_version <> known_version
                            THEN (SELECT d.description FROM pg_sluice.describe(ARRAY[shadow]) d) END,
        'ended', coalesce((SELECT jsonb_agg(f.data_file_id) FROM pg_sluice.data_file f
                           WHERE f.table_id = r.table_id AND f.end_snapshot > since), '[]'),
        'files', coalesce((SELECT jsonb_agg(pg_sluice.data_file_json(f) ORDER BY coalesce(f.file_order, f.data_file_id), f.data_file_id)
                           FROM pg_sluice.data_file f
                           WHERE f.table_id = r.table_id AND f.begin_snapshot > since AND f.end_snapshot IS NULL), '[]'),
        'deletes', coalesce((SELECT jsonb_agg(pg_sluice.delete_file_json(d)) FROM pg_sluice.delete_file d
                             WHERE d.table_id = r.table_id AND d.begin_snapshot > since AND d.end_snapshot IS NULL),
                            '[]'))
    FROM pg_sluice.relation r WHERE r.relid = shadow
$$;

-- The last snapshots of these tables, and the changes since those that a gateway keeps (NULL for none). They are unknown
-- since an expired one.
CREATE FUNCTION pg_sluice.changed_since(tables oid[], snapshots bigint[], schema_versions bigint[])
RETURNS TABLE (relid bigint, changed_snapshot bigint, expired boolean, since jsonb) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.relid::bigint, r.changed_snapshot,
           r.changed_snapshot > k.snapshot AND k.snapshot < (SELECT min(snapshot_id) FROM pg_ducklake.ducklake_snapshot),
           CASE WHEN r.changed_snapshot > k.snapshot OR r.schema_version <> k.schema_version
                THEN pg_sluice.version_since(r.relid, k.snapshot, k.schema_version) END
    FROM unnest(tables, snapshots, schema_versions) AS k (relid, snapshot, schema_version)
    JOIN pg_sluice.relation r ON r.relid = k.relid
$$;

-- The same for the gateway at a session's backend, in a round trip with what else it asks.
CREATE FUNCTION pg_sluice.changed(tables oid[], snapshots bigint[], schema_versions bigint[])
RETURNS TABLE (relid bigint, changed_snapshot bigint, expired boolean, since jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('changed');
    RETURN QUERY SELECT * FROM pg_sluice.changed_since(tables, snapshots, schema_versions);
END $$;

CREATE FUNCTION pg_sluice.data_file_json(f pg_sluice.data_file) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'data_file_id', f.data_file_id, 'path', f.path, 'record_count', f.record_count,
        'size_bytes', f.file_size_bytes, 'footer_size', f.footer_size, 'row_id_start', f.row_id_start,
        'place', coalesce(f.file_order, f.data_file_id), 'hot_rows', f.hot_rows::text, 'partition', f.partition,
        'statistics', coalesce(f.statistics, (SELECT jsonb_object_agg(s.column_id, jsonb_build_object(
                'value_count', s.value_count, 'null_count', s.null_count, 'size_bytes', s.column_size_bytes,
                'minimum', s.min_value, 'maximum', s.max_value, 'contains_nan', s.contains_nan))
            FROM pg_ducklake.ducklake_file_column_stats s
            WHERE s.table_id = f.table_id AND s.data_file_id = f.data_file_id), '{}'))
$$;

CREATE FUNCTION pg_sluice.delete_file_json(d pg_sluice.delete_file) RETURNS jsonb LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'data_file_id', d.data_file_id, 'delete_file_id', d.delete_file_id, 'path', d.path,
        'delete_count', d.delete_count, 'size_bytes', d.file_size_bytes, 'footer_size', d.footer_size,
        'positions', d.positions, 'base', pg_sluice.base_json(d))
$$;

-- The file of the positions deleted before those that the catalog has; NULL for none.
CREATE FUNCTION pg_sluice.base_json(d pg_sluice.delete_file) RETURNS jsonb LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN d.base_path IS NOT NULL THEN jsonb_build_object(
        'path', d.base_path, 'delete_count', d.base_count, 'size_bytes', d.base_size_bytes,
        'footer_size', d.base_footer_size, 'delete_file_id', d.delete_file_id) END
$$;
