-- Data files and delete files, also those whose content is here in place of a file: hot rows, and few deleted
-- positions. DuckLake has a place for such rows, "data inlining" (DuckLake specification 1.0): one table for each table
-- and version of its schema. Here these are views.
--
-- A table of hot rows is read like any other, because what has no file is a data file all the same: its rows have
-- places in it, its deleted positions are those of a delete file, and compaction merges it into a larger file.

-- As in the specification, and `hot_rows`: the rows in JSON (storage/parquet/hot_rows.py), NULL for a Parquet file.
-- `schema_version` tells in which of DuckLake's tables they are, `statistics` what DuckLake's table of statistics has of a
-- file, `partition` how its rows were divided (see publish_rows).
CREATE TABLE pg_sluice.data_file (
    data_file_id bigint PRIMARY KEY, table_id bigint, begin_snapshot bigint, end_snapshot bigint, file_order bigint,
    path varchar, path_is_relative boolean, file_format varchar, record_count bigint, file_size_bytes bigint,
    footer_size bigint, row_id_start bigint, partition_id bigint, encryption_key varchar, mapping_id bigint,
    partial_max bigint, hot_rows jsonb, schema_version bigint, statistics jsonb, partition jsonb);
CREATE INDEX ON pg_sluice.data_file (table_id, begin_snapshot);
CREATE INDEX ON pg_sluice.data_file (table_id, end_snapshot);
CREATE INDEX ON pg_sluice.data_file (table_id, schema_version) WHERE hot_rows IS NOT NULL;

-- The same with `positions`: few that are deleted, in place of a file. Then the columns after it tell which file has
-- those deleted before; it has none of these. For DuckDB, a position is never in two places.
CREATE TABLE pg_sluice.delete_file (
    delete_file_id bigint PRIMARY KEY, table_id bigint, begin_snapshot bigint, end_snapshot bigint, data_file_id bigint,
    path varchar, path_is_relative boolean, format varchar, delete_count bigint, file_size_bytes bigint,
    footer_size bigint, encryption_key varchar, partial_max bigint, positions bigint[], base_path varchar,
    base_count bigint, base_size_bytes bigint, base_footer_size bigint);
CREATE INDEX ON pg_sluice.delete_file (table_id, begin_snapshot);
CREATE INDEX ON pg_sluice.delete_file (data_file_id);

-- Readers have rights on the tables themselves, and so has nobody else: with the owner's rights, these views would show
-- everything to a member of pg_read_all_data, which the tables' policies do not.
CREATE VIEW pg_ducklake.ducklake_data_file WITH (security_invoker) AS
    SELECT data_file_id, table_id, begin_snapshot, end_snapshot, file_order, path, path_is_relative, file_format,
           record_count, file_size_bytes, footer_size, row_id_start, partition_id, encryption_key, mapping_id, partial_max
    FROM pg_sluice.data_file WHERE hot_rows IS NULL;
CREATE VIEW pg_ducklake.ducklake_delete_file WITH (security_invoker) AS
    SELECT delete_file_id, table_id, begin_snapshot, end_snapshot, data_file_id, coalesce(base_path, path) AS path,
           path_is_relative, format, coalesce(base_count, delete_count) AS delete_count,
           coalesce(base_size_bytes, file_size_bytes) AS file_size_bytes,
           coalesce(base_footer_size, footer_size) AS footer_size, encryption_key, partial_max
    FROM pg_sluice.delete_file WHERE positions IS NULL OR base_path IS NOT NULL;


-- The SQL that makes a value of PostgreSQL, as DuckDB reads it, of one in JSON's text. Only built-in operators: a view
-- calls functions with its reader's rights.
CREATE FUNCTION pg_sluice.hot_value(ducklake text, value text) RETURNS text LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(CASE
        WHEN ducklake = 'int16' THEN '(%s)::smallint'
        WHEN ducklake = 'int32' THEN '(%s)::integer'
        WHEN ducklake = 'int64' THEN '(%s)::bigint'
        WHEN ducklake = 'float32' THEN '(%s)::real'
        WHEN ducklake = 'float64' THEN '(%s)::double precision'
        WHEN ducklake = 'boolean' THEN '(%s)::boolean'
        WHEN ducklake = 'uuid' THEN '(%s)::uuid'
        WHEN ducklake LIKE 'decimal%' THEN '(%s)::' || replace(ducklake, 'decimal', 'numeric')
        WHEN ducklake = 'blob' THEN 'decode(%s, ''hex'')'
        WHEN ducklake = 'date' THEN
            '(CASE %1$s WHEN ''2147483647'' THEN date ''infinity'' WHEN ''-2147483647'' THEN date ''-infinity'''
            ' ELSE date ''1970-01-01'' + (%1$s)::integer END)'
        WHEN ducklake = 'time' THEN
            '(CASE %1$s WHEN ''86400000000'' THEN time ''24:00'''
            ' ELSE time ''00:00'' + (%1$s)::bigint * interval ''1 microsecond'' END)'
        WHEN ducklake LIKE 'timestamp%' THEN
            '(CASE %1$s WHEN ''9223372036854775807'' THEN timestamp ''infinity'''
            ' WHEN ''-9223372036854775807'' THEN timestamp ''-infinity'''
            ' ELSE timestamp ''1970-01-01'' + make_interval(days => ((%1$s)::bigint / 86400000000)::integer)'
            ' + (%1$s)::bigint %% 86400000000 * interval ''1 microsecond'' END)'
            || CASE WHEN ducklake = 'timestamptz' THEN ' AT TIME ZONE ''UTC''' ELSE '' END
        WHEN ducklake = 'struct' THEN  -- an interval, as DuckDB reads a struct of a text
            'replace(replace(%s, ''"'', ''''), ''null'', ''NULL'')'
        ELSE '(%s)' END, value)
$$;

-- The same for the value at a place of a column, whose elements are of the type `element` if it is a list. A file that
-- was written without the column has its initial default.
CREATE FUNCTION pg_sluice.hot_column(
    column_id bigint, name text, ducklake text, element text, first_value text
) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s AS %I', CASE WHEN first_value IS NULL THEN stored
        ELSE format('CASE WHEN f.hot_rows ? %L THEN %s ELSE %s END', column_id, stored,
                    CASE WHEN ducklake = 'blob' THEN format('%L::bytea', first_value)
                         WHEN ducklake IN ('date', 'time', 'timestamp', 'timestamptz') THEN format('%L::%s', first_value, ducklake)
                         ELSE pg_sluice.hot_value(ducklake, quote_literal(first_value)) END) END, name)
    FROM (SELECT format('f.hot_rows -> %L -> ''values''', column_id) AS column_values) c
    CROSS JOIN LATERAL (SELECT CASE
        WHEN ducklake = 'list' AND element = 'struct' THEN format(
            'CASE jsonb_typeof(%2$s -> n) WHEN ''array'' THEN (SELECT ''['' || coalesce(string_agg('
            'coalesce(%1$s, ''NULL''), '', '' ORDER BY e.place), '''') || '']'' FROM'
            ' jsonb_array_elements(%2$s -> n) WITH ORDINALITY e (value, place)) END',
            pg_sluice.hot_value(element, 'e.value #>> ''{}'''), column_values)
        WHEN ducklake = 'list' THEN format(
            'CASE jsonb_typeof(%s -> n) WHEN ''array'' THEN ARRAY(SELECT %s FROM'
            ' jsonb_array_elements(%1$s -> n) WITH ORDINALITY e (value, place) ORDER BY e.place) END',
            column_values, pg_sluice.hot_value(element, 'e.value #>> ''{}'''))
        ELSE pg_sluice.hot_value(ducklake, column_values || ' ->> n') END AS stored) v
$$;

-- Make DuckLake's table of hot rows for a version of a table's schema.
CREATE FUNCTION pg_sluice.publish_inlined(shadow oid, of_table bigint, version bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET array_nulls = on AS $$
DECLARE
    name text := format('ducklake_inlined_data_%s_%s', of_table, version); columns text;
BEGIN
    SELECT coalesce(string_agg(', ' || pg_sluice.hot_column(
               l.column_id, a.attname, f.field_type, CASE f.field_type WHEN 'list' THEN (
                   SELECT e.field_type FROM pg_sluice.fields(a.attname, a.atttypid, m.typmod, l.column_id, NULL) e
                   WHERE e.parent_id = l.column_id ORDER BY e.field_id LIMIT 1) END, l.initial_default), '' ORDER BY a.attnum), '')
        INTO columns
        FROM pg_attribute a JOIN pg_sluice.attribute l ON l.relid = a.attrelid AND l.attnum = a.attnum
        CROSS JOIN LATERAL pg_sluice.kept_typmod(a) m (typmod)
        CROSS JOIN LATERAL pg_sluice.fields(a.attname, a.atttypid, m.typmod, l.column_id, NULL) f
        WHERE a.attrelid = shadow AND NOT a.attisdropped AND f.parent_id IS NULL;
    EXECUTE format($q$
        CREATE VIEW pg_ducklake.%I WITH (security_invoker) AS
        SELECT f.row_id_start + n AS row_id, f.begin_snapshot, least(f.end_snapshot, (
                   SELECT min(d.begin_snapshot) FROM pg_sluice.delete_file d
                   WHERE d.data_file_id = f.data_file_id AND d.positions @> ARRAY[n::bigint])) AS end_snapshot %s
        FROM pg_sluice.data_file f CROSS JOIN LATERAL generate_series(0, f.record_count::integer - 1) AS n
        WHERE f.table_id = %s AND f.schema_version = %s AND f.hot_rows IS NOT NULL $q$, name, columns, of_table, version);
    EXECUTE format('GRANT SELECT ON pg_ducklake.%I TO sluice_reader', name);
    INSERT INTO pg_ducklake.ducklake_inlined_data_tables VALUES (of_table, name, version);
END $$;

-- Make DuckLake's table of positions that are deleted from a table's files, once there are any. It has no versions, and
-- DuckLake's readers look for it at each snapshot.
CREATE FUNCTION pg_sluice.publish_inlined_deletes(of_table bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := format('ducklake_inlined_delete_%s', of_table);
BEGIN
    IF to_regclass(format('pg_ducklake.%I', name)) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format($q$
        CREATE VIEW pg_ducklake.%I WITH (security_invoker) AS
        SELECT d.data_file_id AS file_id, position AS row_id, min(d.begin_snapshot) AS begin_snapshot
        FROM pg_sluice.delete_file d JOIN pg_sluice.data_file f ON f.data_file_id = d.data_file_id
        CROSS JOIN LATERAL unnest(d.positions) AS position
        WHERE d.table_id = %s AND f.hot_rows IS NULL GROUP BY 1, 2 $q$, name, of_table);
    EXECUTE format('GRANT SELECT ON pg_ducklake.%I TO sluice_reader', name);
END $$;

-- Whether a column of that name keeps DuckLake from having hot rows of its table.
CREATE FUNCTION pg_sluice.is_inlined_name(name text) RETURNS boolean LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT lower(name) IN ('row_id', 'begin_snapshot', 'end_snapshot', '_ducklake_internal_snapshot_id',
                           '_ducklake_internal_row_id')
$$;

-- A table with a column of DuckLake's own names gets no table of hot rows, nor does one of very many columns, because
-- others wait to commit. storage/parquet/hot_rows.py knows both.
CREATE FUNCTION pg_sluice.may_be_inlined(shadow oid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) <= 200 AND bool_and(NOT pg_sluice.is_inlined_name(a.attname))
    FROM pg_attribute a WHERE a.attrelid = shadow AND a.attnum > 0 AND NOT a.attisdropped
$$;

-- The version of the schema in whose table the hot rows of a commit are. DuckLake's table is made with the first of them
-- since the table's schema has changed: most changes are followed by others. Readers that know the version look for no
-- more tables of it, so it is then one of its own. Hot rows of a table that may have none, as far as it has any, stay in
-- the table of the version before.
CREATE FUNCTION pg_sluice.take_inlined_version(snapshot bigint, of_table bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    version bigint := (SELECT max(i.schema_version) FROM pg_ducklake.ducklake_inlined_data_tables i WHERE i.table_id = of_table);
    newest record; shadow oid;
BEGIN
    SELECT v.schema_version, v.begin_snapshot INTO newest FROM pg_ducklake.ducklake_schema_versions v
        WHERE v.table_id = of_table ORDER BY v.schema_version DESC LIMIT 1;
    IF version >= newest.schema_version THEN
        RETURN version;
    END IF;
    SELECT r.relid INTO shadow FROM pg_sluice.relation r WHERE r.table_id = of_table;
    IF pg_sluice.may_be_inlined(shadow) IS NOT TRUE THEN
        RETURN version;
    END IF;
    IF newest.begin_snapshot < snapshot THEN
        newest.schema_version := pg_sluice.take_numbers('pg_sluice.schema_version');
        INSERT INTO pg_ducklake.ducklake_schema_versions VALUES (snapshot, newest.schema_version, of_table);
    END IF;
    PERFORM pg_sluice.publish_inlined(shadow, of_table, newest.schema_version);
    RETURN newest.schema_version;
END $$;

-- Drop the views of tables and versions that no snapshot from `horizon` on knows. If a reader is just reading one, the
-- rest is dropped another time.
CREATE FUNCTION pg_sluice.drop_inlined(horizon bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    i record; name text;
BEGIN
    FOR i IN SELECT t.table_id, t.table_name, t.schema_version FROM pg_ducklake.ducklake_inlined_data_tables t
             WHERE NOT EXISTS (SELECT FROM pg_sluice.data_file f WHERE f.table_id = t.table_id
                               AND f.schema_version = t.schema_version AND f.hot_rows IS NOT NULL)
                 AND (NOT EXISTS (SELECT FROM pg_ducklake.ducklake_table k WHERE k.table_id = t.table_id)
                      OR EXISTS (SELECT FROM pg_ducklake.ducklake_schema_versions later
                                 WHERE later.table_id = t.table_id AND later.schema_version > t.schema_version
                                     AND later.begin_snapshot <= horizon)) LOOP
        BEGIN
            EXECUTE format('DROP VIEW pg_ducklake.%I', i.table_name);
            DELETE FROM pg_ducklake.ducklake_inlined_data_tables t
                WHERE t.table_id = i.table_id AND t.schema_version = i.schema_version;
        EXCEPTION WHEN lock_not_available THEN
            RETURN;
        END;
    END LOOP;
    FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'pg_ducklake'::regnamespace
                AND c.relname ~ '^ducklake_inlined_delete_[0-9]+$' AND NOT EXISTS (
                    SELECT FROM pg_ducklake.ducklake_table k
                    WHERE k.table_id = substring(c.relname FROM '[0-9]+$')::bigint) LOOP
        EXECUTE format('DROP VIEW pg_ducklake.%I', name);
    END LOOP;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
