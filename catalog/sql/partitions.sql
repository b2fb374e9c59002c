-- Partition keys: by which values of columns the files of a table are divided (sluice.partition_by). They are DuckLake's;
-- the rows of one file have one value of each, but for files from before the key.

-- The partition key's columns, in order; `transform` as DuckLake names it: identity, year, month, day, hour, bucket(N).
-- A column that is dropped leaves the key; others stay.
CREATE TABLE pg_sluice.partition_column (
    relid oid NOT NULL REFERENCES pg_sluice.relation ON DELETE CASCADE,
    place integer NOT NULL, attnum smallint NOT NULL, transform text NOT NULL,
    PRIMARY KEY (relid, place), UNIQUE (relid, attnum, transform)
);

-- The partition key as it is now, in order; `place` counts from 0.
CREATE FUNCTION pg_sluice.partition_key(shadow oid)
RETURNS TABLE (place bigint, attnum smallint, name name, transform text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT row_number() OVER (ORDER BY p.place) - 1, p.attnum, a.attname, p.transform
    FROM pg_sluice.partition_column p JOIN pg_attribute a ON a.attrelid = p.relid AND a.attnum = p.attnum
    WHERE p.relid = shadow AND NOT a.attisdropped
$$;

-- Refuse a partition key with a column whose type its transform does not take. Equal values must be stored alike, and the
-- hash of `bucket` must be the one that DuckDB computes.
CREATE FUNCTION pg_sluice.check_partition_key(shadow oid) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k record; c pg_attribute; form text; type_name text;
BEGIN
    FOR k IN SELECT p.attnum, p.transform FROM pg_sluice.partition_key(shadow) p ORDER BY p.place LOOP
        SELECT a.* INTO c FROM pg_attribute a WHERE a.attrelid = shadow AND a.attnum = k.attnum;
        form := pg_sluice.column_type(c.atttypid, pg_sluice.kept_typmod(c));
        type_name := format_type(c.atttypid, c.atttypmod);
        IF k.transform IN ('year', 'month', 'day', 'hour') THEN
            IF form NOT IN ('date', 'timestamp', 'timestamptz') OR (form = 'date' AND k.transform = 'hour') THEN
                RAISE EXCEPTION 'column "%" of type % has no %', c.attname, type_name, k.transform
                    USING ERRCODE = 'invalid_table_definition';
            END IF;
        ELSIF NOT pg_sluice.is_ordered(pg_sluice.base_type(c.atttypid)) THEN
            RAISE EXCEPTION 'could not identify an ordering operator for type %', format_type(c.atttypid, NULL)
                USING ERRCODE = 'undefined_function', HINT = 'Use an explicit ordering operator or modify the query.';
        ELSIF NOT pg_sluice.has_bounds(c) OR form LIKE 'float%'
            OR (k.transform <> 'identity' AND (form = 'boolean' OR form LIKE 'decimal%')) THEN
            PERFORM pg_sluice.refuse(format('sluice.partition_by with column "%s" of type %s', c.attname, type_name));
        END IF;
    END LOOP;
END $$;

-- Set a partition key: [[column, transform], …]; none for no key.
CREATE FUNCTION pg_sluice.set_partition_key(shadow oid, columns jsonb) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('set_partition_key');
    DELETE FROM pg_sluice.partition_column p WHERE p.relid = shadow;
    INSERT INTO pg_sluice.partition_column
        SELECT shadow, k.place, k.attnum, k.key ->> 1 FROM pg_sluice.key_columns(shadow, columns, false) k;
    PERFORM pg_sluice.check_partition_key(shadow);
END $$;

-- The key by which DuckLake has a table divided now, [[column ID, transform], …]; no row if it has none.
CREATE FUNCTION pg_sluice.live_partition_key(of_table bigint, OUT id bigint, OUT key jsonb) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT i.partition_id, jsonb_agg(jsonb_build_array(c.column_id, c.transform) ORDER BY c.partition_key_index)
    FROM pg_ducklake.ducklake_partition_info i JOIN pg_ducklake.ducklake_partition_column c USING (partition_id, table_id)
    WHERE i.table_id = of_table AND i.end_snapshot IS NULL GROUP BY i.partition_id
$$;

-- Update DuckLake's rows of a table's partition key; return the change, in DuckLake's words. A column with other values has
-- another ID, and so the key is a new one.
CREATE FUNCTION pg_sluice.publish_partition_key(snapshot bigint, of_table bigint, shadow oid) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted jsonb; present jsonb; id bigint;
BEGIN
    DELETE FROM pg_sluice.partition_column p WHERE p.relid = shadow
        AND NOT EXISTS (SELECT FROM pg_sluice.partition_key(shadow) k WHERE k.attnum = p.attnum);
    SELECT jsonb_agg(jsonb_build_array(l.column_id, k.transform) ORDER BY k.place) INTO wanted
        FROM pg_sluice.partition_key(shadow) k JOIN pg_sluice.attribute l ON l.relid = shadow AND l.attnum = k.attnum;
    SELECT l.key INTO present FROM pg_sluice.live_partition_key(of_table) l;
    IF wanted IS NOT DISTINCT FROM present THEN
        RETURN NULL;
    END IF;
    UPDATE pg_ducklake.ducklake_partition_info i SET end_snapshot = snapshot
        WHERE i.table_id = of_table AND i.end_snapshot IS NULL;
    IF wanted IS NOT NULL THEN
        id := pg_sluice.take_numbers('pg_sluice.catalog_id');
        INSERT INTO pg_ducklake.ducklake_partition_info VALUES (id, of_table, snapshot, NULL);
        INSERT INTO pg_ducklake.ducklake_partition_column
            SELECT id, of_table, w.place - 1, (w.f ->> 0)::bigint, w.f ->> 1
            FROM jsonb_array_elements(wanted) WITH ORDINALITY w (f, place);
    END IF;
    RETURN format('altered_table:%s', of_table);
END $$;

-- The partition values of files. DuckDB 1.5.5 looks for rows with a value of a column in a bucket, by the key of the snapshot
-- that it reads, in files that have the bucket here alone. So files that are not divided by that key have all its buckets.
CREATE VIEW pg_ducklake.ducklake_file_partition_value WITH (security_invoker) AS
    SELECT f.data_file_id, f.table_id, v.place - 1 AS partition_key_index, v.value::varchar AS partition_value
    FROM pg_sluice.data_file f CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE WHEN f.partition_id IS NOT NULL THEN f.partition -> 'texts' END) WITH ORDINALITY v (value, place)
    UNION ALL
    SELECT f.data_file_id, f.table_id, c.partition_key_index, bucket::varchar
    FROM pg_ducklake.ducklake_partition_column c JOIN pg_ducklake.ducklake_partition_info i USING (partition_id, table_id)
    JOIN pg_sluice.data_file f ON f.table_id = c.table_id AND f.hot_rows IS NULL
        AND f.partition_id IS DISTINCT FROM c.partition_id
        AND (f.end_snapshot IS NULL OR f.end_snapshot > i.begin_snapshot)
        AND (i.end_snapshot IS NULL OR i.end_snapshot > f.begin_snapshot)
    CROSS JOIN LATERAL generate_series(0, substring(c.transform FROM '^bucket\(([0-9]+)\)$')::integer - 1) AS bucket;

-- Forget keys that no snapshot from `horizon` on has, unless files that were divided by them are still there.
CREATE FUNCTION pg_sluice.expire_partition_keys(horizon bigint) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM pg_ducklake.ducklake_partition_info i WHERE i.end_snapshot <= horizon
            AND NOT EXISTS (SELECT FROM pg_sluice.data_file f WHERE f.table_id = i.table_id AND f.partition_id = i.partition_id)
        RETURNING i.partition_id
    )
    DELETE FROM pg_ducklake.ducklake_partition_column c USING gone WHERE c.partition_id = gone.partition_id
$$;

-- How each lake table is laid out, as sluice.sort_by and sluice.partition_by say it; pg_class.reloptions cannot.
CREATE VIEW pg_sluice.table_layout AS
    SELECT r.relid::regclass AS relation, s.sort_by, p.partition_by
    FROM pg_sluice.relation r
    CROSS JOIN LATERAL (
        SELECT string_agg(
            quote_ident(a.attname) || CASE WHEN s.descending THEN ' DESC' ELSE '' END
            || CASE WHEN s.nulls_first = s.descending THEN '' WHEN s.nulls_first THEN ' NULLS FIRST' ELSE ' NULLS LAST' END,
            ', ' ORDER BY s.place) AS sort_by
        FROM pg_sluice.sort_column s
        JOIN pg_attribute a ON a.attrelid = s.relid AND a.attnum = s.attnum AND NOT a.attisdropped
        WHERE s.relid = r.relid) s
    CROSS JOIN LATERAL (
        SELECT string_agg(CASE WHEN p.transform = 'identity' THEN quote_ident(a.attname)
                               WHEN p.transform LIKE 'bucket%' THEN format('%s, %I)', rtrim(p.transform, ')'), a.attname)
                               ELSE format('%s(%I)', p.transform, a.attname) END, ', ' ORDER BY p.place) AS partition_by
        FROM pg_sluice.partition_column p
        JOIN pg_attribute a ON a.attrelid = p.relid AND a.attnum = p.attnum AND NOT a.attisdropped
        WHERE p.relid = r.relid) p
    WHERE (s.sort_by IS NOT NULL OR p.partition_by IS NOT NULL)
        AND has_table_privilege(r.relid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER, MAINTAIN');
GRANT SELECT ON pg_sluice.table_layout TO PUBLIC;
