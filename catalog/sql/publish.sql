-- COMMIT: deferred triggers on `dirty` and `staged` publish schema and rows as one DuckLake snapshot.

-- The lesser (or, for direction > 0, the greater) of two bounds in DuckLake's texts; NULL if either is unknown.
CREATE FUNCTION pg_sluice.bound(ducklake text, direction integer, a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a_first boolean;
BEGIN
    IF a IS NULL OR b IS NULL THEN
        RETURN NULL;
    END IF;
    a_first := CASE
        WHEN ducklake LIKE 'int%' OR ducklake LIKE 'decimal%' THEN a::numeric <= b::numeric
        WHEN ducklake LIKE 'float%' THEN a::float8 <= b::float8
        WHEN ducklake = 'date' THEN a::date <= b::date
        WHEN ducklake = 'timestamp' THEN a::timestamp <= b::timestamp
        WHEN ducklake = 'timestamptz' THEN a::timestamptz <= b::timestamptz
        ELSE a COLLATE "C" <= b COLLATE "C" END;
    RETURN CASE WHEN a_first = (direction < 0) THEN a ELSE b END;
END $$;


-- Update DuckLake's rows of one schema to the catalog; return the changes, in DuckLake's words.
CREATE FUNCTION pg_sluice.publish_schema(snapshot bigint, namespace name) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    present boolean := EXISTS (SELECT FROM pg_namespace WHERE nspname = namespace);
    id bigint := (SELECT schema_id FROM pg_ducklake.ducklake_schema
                  WHERE schema_name = namespace AND end_snapshot IS NULL);
BEGIN
    IF present AND id IS NULL THEN
        INSERT INTO pg_ducklake.ducklake_schema VALUES (
            pg_sluice.take_numbers('pg_sluice.catalog_id'), gen_random_uuid(), snapshot, NULL, namespace,
            format('%s/', regexp_replace(namespace, '[^A-Za-z0-9_]', '_', 'g')), true);
        RETURN format('created_schema:"%s"', replace(namespace, '"', '""'));
    ELSIF NOT present AND id IS NOT NULL THEN
        UPDATE pg_ducklake.ducklake_schema SET end_snapshot = snapshot WHERE schema_id = id AND end_snapshot IS NULL;
        RETURN format('dropped_schema:%s', id);
    END IF;
    RETURN NULL;
END $$;


-- The initial default of a column, as DuckDB reads it: the mark of years before Christ stands behind the date, and each
-- byte has a code.
CREATE FUNCTION pg_sluice.initial_value(ducklake text, value text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN ducklake IN ('date', 'timestamp', 'timestamptz') THEN regexp_replace(value, E'^(\\S+)(.*) BC$', E'\\1 (BC)\\2')
                WHEN ducklake = 'blob' THEN regexp_replace(substr(value, 3), '..', E'\\\\x\\&', 'g')
                ELSE value END
$$;

CREATE FUNCTION pg_sluice.publish_table(snapshot bigint, shadow oid) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r pg_sluice.relation; c record; t pg_ducklake.ducklake_table; schema_of bigint; changes text[];
    renamed boolean; columns_changed bigint;
BEGIN
    SELECT * INTO r FROM pg_sluice.relation WHERE relid = shadow;
    IF NOT FOUND THEN
        RETURN changes;  -- made and dropped in this transaction
    END IF;
    PERFORM pg_sluice.note_populated(snapshot, r);
    SELECT * INTO t FROM pg_ducklake.ducklake_table WHERE table_id = r.table_id AND end_snapshot IS NULL;
    SELECT k.relname, n.nspname INTO c FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace
        WHERE k.oid = shadow;
    IF NOT FOUND THEN
        UPDATE pg_ducklake.ducklake_table SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
        UPDATE pg_ducklake.ducklake_column SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
        UPDATE pg_ducklake.ducklake_sort_info SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
        UPDATE pg_ducklake.ducklake_partition_info SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
        PERFORM pg_sluice.end_files(snapshot, r.table_id);
        DELETE FROM pg_sluice.constraint_known WHERE relid = shadow;
        DELETE FROM pg_sluice.index_known WHERE relid = shadow;
        DELETE FROM pg_sluice.lake_index WHERE relid = shadow;
        DELETE FROM pg_sluice.relation WHERE relid = shadow;
        DELETE FROM pg_sluice.writer WHERE relid IN (
            SELECT w.relid FROM pg_sluice.writer w WHERE w.relid = shadow FOR UPDATE SKIP LOCKED);
        RETURN CASE WHEN t.table_id IS NULL THEN changes ELSE changes || format('dropped_table:%s', r.table_id) END;
    END IF;

    changes := array_remove(changes || pg_sluice.publish_schema(snapshot, c.nspname), NULL);
    SELECT schema_id INTO STRICT schema_of FROM pg_ducklake.ducklake_schema
        WHERE schema_name = c.nspname AND end_snapshot IS NULL;
    renamed := t.table_id IS NOT NULL AND (t.table_name, t.schema_id) IS DISTINCT FROM (c.relname::varchar, schema_of);
    IF renamed THEN
        UPDATE pg_ducklake.ducklake_table SET end_snapshot = snapshot
            WHERE table_id = r.table_id AND end_snapshot IS NULL;
    END IF;
    IF t.table_id IS NULL OR renamed THEN
        -- The path is written as absolute below the data path (see `path_of`): a rename moves no file.
        INSERT INTO pg_ducklake.ducklake_table VALUES (
            r.table_id, r.table_uuid, snapshot, NULL, schema_of, c.relname,
            CASE WHEN r.schema_path = (SELECT path FROM pg_ducklake.ducklake_schema
                                       WHERE schema_id = schema_of AND end_snapshot IS NULL)
                 THEN r.path
                 ELSE (SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path')
                      || r.schema_path || r.path END,
            r.schema_path = (SELECT path FROM pg_ducklake.ducklake_schema
                             WHERE schema_id = schema_of AND end_snapshot IS NULL));
        changes := changes || CASE WHEN renamed THEN format('altered_table:%s', r.table_id)
            ELSE format('created_table:"%s"."%s"', replace(c.nspname, '"', '""'), replace(c.relname, '"', '""')) END;
    END IF;
    IF t.table_id IS NULL THEN
        INSERT INTO pg_ducklake.ducklake_table_stats VALUES (r.table_id, 0, 0, 0);
    END IF;

    WITH wanted AS (
        SELECT f.field_id, a.attnum, f.field_name, f.field_type, l.initial_default, f.parent_id,
               CASE WHEN f.parent_id IS NULL THEN NOT pg_sluice.is_not_null(a) ELSE true END AS nullable,
               CASE WHEN f.parent_id IS NULL THEN pg_sluice.initial_value(f.field_type, l.initial_default) END AS first_value
        FROM pg_attribute a
        JOIN pg_sluice.attribute l ON l.relid = a.attrelid AND l.attnum = a.attnum
        CROSS JOIN LATERAL pg_sluice.fields(a.attname, a.atttypid, pg_sluice.kept_typmod(a), l.column_id, NULL) f
        WHERE a.attrelid = shadow AND NOT a.attisdropped
    ), ended AS (
        UPDATE pg_ducklake.ducklake_column k SET end_snapshot = snapshot
        WHERE k.table_id = r.table_id AND k.end_snapshot IS NULL AND NOT EXISTS (
            SELECT FROM wanted w WHERE w.field_id = k.column_id AND w.field_name = k.column_name
                AND w.field_type = k.column_type AND w.nullable = k.nulls_allowed)
        RETURNING k.column_id
    ), added AS (
        INSERT INTO pg_ducklake.ducklake_column
        -- Columns are in the table's order, whatever changes of their types have made of their fields.
        SELECT w.field_id, snapshot, NULL, r.table_id, CASE WHEN w.parent_id IS NULL THEN w.attnum ELSE w.field_id END,
               w.field_name, w.field_type, w.first_value,
               coalesce(w.first_value, 'NULL'), w.nullable, w.parent_id, 'literal', 'duckdb'
        FROM wanted w
        WHERE NOT EXISTS (SELECT FROM pg_ducklake.ducklake_column k WHERE k.table_id = r.table_id
                          AND k.column_id = w.field_id AND k.end_snapshot IS NULL
                          AND k.column_name = w.field_name AND k.column_type = w.field_type
                          AND k.nulls_allowed = w.nullable)
        RETURNING column_id
    ), unbounded AS (
        -- Existing files have its first value, whatever the bounds of future files.
        INSERT INTO pg_ducklake.ducklake_table_column_stats
        SELECT r.table_id, w.field_id, true, true, NULL, NULL, NULL FROM wanted w
        WHERE t.table_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_ducklake.ducklake_column k WHERE k.table_id = r.table_id AND k.column_id = w.field_id)
    )
    SELECT (SELECT count(*) FROM ended) + (SELECT count(*) FROM added) INTO columns_changed;
    IF columns_changed > 0 AND t.table_id IS NOT NULL AND NOT renamed THEN
        changes := changes || format('altered_table:%s', r.table_id);
    END IF;
    changes := array_remove(changes || pg_sluice.publish_sort_key(snapshot, r.table_id, shadow)
                            || pg_sluice.publish_partition_key(snapshot, r.table_id, shadow), NULL);
    DELETE FROM pg_sluice.attribute l WHERE l.relid = shadow AND NOT EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = shadow AND a.attnum = l.attnum AND NOT a.attisdropped);
    PERFORM pg_sluice.publish_indexes(shadow);
    IF cardinality(changes) > 0 THEN
        INSERT INTO pg_ducklake.ducklake_schema_versions
            VALUES (snapshot, currval('pg_sluice.schema_version'), r.table_id);
    END IF;
    -- Also for changes that DuckLake does not hold, such as a constraint: cached descriptions of the table are stale.
    UPDATE pg_sluice.relation SET changed_snapshot = snapshot, described_snapshot = snapshot WHERE relid = shadow;
    RETURN changes;
END $$;


CREATE FUNCTION pg_sluice.end_files(snapshot bigint, of_table bigint) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    UPDATE pg_sluice.data_file SET end_snapshot = snapshot
        WHERE table_id = of_table AND end_snapshot IS NULL;
    UPDATE pg_sluice.delete_file SET end_snapshot = snapshot
        WHERE table_id = of_table AND end_snapshot IS NULL;
$$;


-- Data files of one change (see publish_rows), in order; all in one statement, because others wait to commit. A file
-- with rows of other files takes the place of the first of these (`place`): rows keep their order.
CREATE FUNCTION pg_sluice.publish_files(snapshot bigint, of_table bigint, files jsonb, place bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_row bigint; first_id bigint; live record; inlined bigint;
BEGIN
    SELECT * INTO live FROM pg_sluice.live_partition_key(of_table);
    IF EXISTS (SELECT FROM jsonb_array_elements(files) f WHERE f ->> 'hot_rows' IS NOT NULL) THEN
        inlined := pg_sluice.take_inlined_version(snapshot, of_table);
    END IF;
    first_id := pg_sluice.take_numbers('pg_sluice.file_id', jsonb_array_length(files));
    SELECT next_row_id INTO STRICT first_row FROM pg_ducklake.ducklake_table_stats WHERE table_id = of_table FOR UPDATE;
    WITH numbered AS MATERIALIZED (
        SELECT first_id + e.place - 1 AS id, e.place, e.f, (e.f ->> 'record_count')::bigint AS records,
               (e.f ->> 'size_bytes')::bigint AS bytes, e.f ->> 'hot_rows' AS hot_rows,
               -- Of a key that is the table's by now: it may have changed while the file was written.
               jsonb_typeof(e.f #> '{partition,values}') = 'array' AND e.f #> '{partition,key}' = live.key AS divided
        FROM jsonb_array_elements(files) WITH ORDINALITY e (f, place)
    ), added AS (
        INSERT INTO pg_sluice.data_file
        SELECT n.id, of_table, snapshot, NULL, publish_files.place, n.f ->> 'path', true, 'parquet', n.records, n.bytes,
               (n.f ->> 'footer_size')::bigint, first_row + sum(n.records) OVER (ORDER BY n.place) - n.records,
               CASE WHEN n.divided THEN live.id END, NULL, NULL, NULL, n.hot_rows::jsonb,
               CASE WHEN n.hot_rows IS NOT NULL THEN inlined END,
               CASE WHEN n.hot_rows IS NOT NULL THEN n.f -> 'statistics' END, nullif(n.f -> 'partition', 'null')
        FROM numbered n
    ), described AS (
        INSERT INTO pg_ducklake.ducklake_file_column_stats
        SELECT n.id, of_table, s.key::bigint, (s.value ->> 'size_bytes')::bigint, (s.value ->> 'value_count')::bigint,
               (s.value ->> 'null_count')::bigint, s.value ->> 'minimum', s.value ->> 'maximum',
               (s.value ->> 'contains_nan')::boolean, NULL
        FROM numbered n CROSS JOIN LATERAL jsonb_each(n.f -> 'statistics') s WHERE n.hot_rows IS NULL
    )
    UPDATE pg_ducklake.ducklake_table_stats t SET
        record_count = t.record_count + n.records, next_row_id = t.next_row_id + n.records,
        file_size_bytes = t.file_size_bytes + n.bytes
    FROM (SELECT sum(records) AS records, sum(bytes) AS bytes FROM numbered) n WHERE t.table_id = of_table;
    PERFORM pg_sluice.widen(of_table, files);
END $$;


-- Delete files of one change, after its data files: each replaces the former one of its data file.
CREATE FUNCTION pg_sluice.publish_delete_files(snapshot bigint, of_table bigint, files jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    data_files bigint[]; gone boolean; replaced boolean; first_id bigint;
BEGIN
    WITH own AS MATERIALIZED (
        SELECT d.path, d.data_file_id FROM pg_sluice.data_file d
        WHERE d.table_id = of_table AND d.begin_snapshot = snapshot AND d.end_snapshot IS NULL
    ), asked AS MATERIALIZED (
        SELECT e.place, (e.f ->> 'replaces')::bigint AS replaces,
               coalesce(d.data_file_id, own.data_file_id) AS data_file
        FROM jsonb_array_elements(files) WITH ORDINALITY e (f, place)
        LEFT JOIN pg_sluice.data_file d ON d.data_file_id = (e.f ->> 'data_file_id')::bigint
            AND d.table_id = of_table AND d.end_snapshot IS NULL
        LEFT JOIN own ON own.path = e.f ->> 'data_path' AND e.f ->> 'data_file_id' IS NULL
    )
    SELECT array_agg(a.data_file ORDER BY a.place), bool_or(a.data_file IS NULL),
           bool_or(live.delete_file_id IS DISTINCT FROM a.replaces)
        INTO data_files, gone, replaced
        FROM asked a LEFT JOIN pg_sluice.delete_file live
            ON live.data_file_id = a.data_file AND live.end_snapshot IS NULL;
    IF gone THEN
        RAISE EXCEPTION 'could not serialize access due to concurrent delete' USING ERRCODE = 'serialization_failure';
    ELSIF replaced THEN
        RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE pg_sluice.delete_file d SET end_snapshot = snapshot
        WHERE d.data_file_id = ANY (data_files) AND d.end_snapshot IS NULL;
    first_id := pg_sluice.take_numbers('pg_sluice.file_id', jsonb_array_length(files));
    INSERT INTO pg_sluice.delete_file
        SELECT first_id + e.place - 1, of_table, snapshot, NULL, data_files[e.place], e.f ->> 'path', true,
               'parquet', (e.f ->> 'delete_count')::bigint, (e.f ->> 'size_bytes')::bigint,
               (e.f ->> 'footer_size')::bigint, NULL, NULL,
               CASE WHEN jsonb_typeof(e.f -> 'positions') = 'array'
                    THEN ARRAY(SELECT p::bigint FROM jsonb_array_elements_text(e.f -> 'positions') p) END,
               e.f #>> '{base,path}', (e.f #>> '{base,delete_count}')::bigint,
               (e.f #>> '{base,size_bytes}')::bigint, (e.f #>> '{base,footer_size}')::bigint
        FROM jsonb_array_elements(files) WITH ORDINALITY e (f, place);
    IF EXISTS (SELECT FROM pg_sluice.delete_file d JOIN pg_sluice.data_file f ON f.data_file_id = d.data_file_id
               WHERE d.delete_file_id >= first_id AND d.positions IS NOT NULL AND f.hot_rows IS NULL) THEN
        PERFORM pg_sluice.publish_inlined_deletes(of_table);
    END IF;
END $$;


-- The least (or greatest) of several bounds, in DuckLake's texts; none of them may be NULL.
CREATE FUNCTION pg_sluice.next_bound(a text, ducklake text, direction integer, b text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN a IS NULL THEN b ELSE pg_sluice.bound(ducklake, direction, a, b) END;

CREATE AGGREGATE pg_sluice.bound_of_all (ducklake text, direction integer, value text) (
    SFUNC = pg_sluice.next_bound, STYPE = text);


-- Widen the table's column statistics by those of new files (see publish_rows); unknown bounds make the table's unknown.
-- They never become narrower, because DuckDB uses them for every snapshot. Most commits change few of them.
CREATE FUNCTION pg_sluice.widen(of_table bigint, files jsonb) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    WITH described AS MATERIALIZED (
        SELECT s.key::bigint AS column_id, (s.value ->> 'null_count')::bigint AS null_count,
               s.value ->> 'minimum' AS min_value, s.value ->> 'maximum' AS max_value,
               (s.value ->> 'contains_nan')::boolean AS contains_nan
        FROM jsonb_array_elements(files) f CROSS JOIN LATERAL jsonb_each(f -> 'statistics') s
    ), added AS MATERIALIZED (
        SELECT s.column_id, k.column_type, bool_or(s.null_count > 0) AS contains_null,
               CASE WHEN bool_or(s.contains_nan) OR bool_and(s.contains_nan IS NOT NULL)
                    THEN bool_or(s.contains_nan) END AS contains_nan,
               CASE WHEN bool_and(s.min_value IS NOT NULL)
                    THEN pg_sluice.bound_of_all(k.column_type, -1, s.min_value) END AS min_value,
               CASE WHEN bool_and(s.max_value IS NOT NULL)
                    THEN pg_sluice.bound_of_all(k.column_type, 1, s.max_value) END AS max_value
        FROM described s
        LEFT JOIN pg_ducklake.ducklake_column k
            ON k.table_id = of_table AND k.column_id = s.column_id AND k.end_snapshot IS NULL
        GROUP BY s.column_id, k.column_type
    ), wide AS MATERIALIZED (
        SELECT t.column_id, t.contains_null OR a.contains_null AS contains_null,
               t.contains_nan OR a.contains_nan AS contains_nan,
               pg_sluice.bound(a.column_type, -1, t.min_value, a.min_value) AS min_value,
               pg_sluice.bound(a.column_type, 1, t.max_value, a.max_value) AS max_value
        FROM added a JOIN pg_ducklake.ducklake_table_column_stats t ON t.table_id = of_table AND t.column_id = a.column_id
        WHERE a.column_type IS NOT NULL
    ), widened AS (
        UPDATE pg_ducklake.ducklake_table_column_stats t SET
            contains_null = w.contains_null, contains_nan = w.contains_nan, min_value = w.min_value, max_value = w.max_value
        FROM wide w WHERE t.table_id = of_table AND t.column_id = w.column_id
            AND (t.contains_null, t.contains_nan, t.min_value, t.max_value)
                IS DISTINCT FROM (w.contains_null, w.contains_nan, w.min_value, w.max_value)
    )
    INSERT INTO pg_ducklake.ducklake_table_column_stats
    SELECT of_table, a.column_id, a.contains_null, a.contains_nan, a.min_value, a.max_value, NULL FROM added a
    WHERE NOT EXISTS (SELECT FROM pg_ducklake.ducklake_table_column_stats t
                      WHERE t.table_id = of_table AND t.column_id = a.column_id);
$$;


-- How many rows the transaction's statements have added to a table, replaced and removed. Rows that a statement has
-- both added and removed are replaced; TRUNCATE and rewritten files do not count.
CREATE FUNCTION pg_sluice.counts(shadow oid, OUT inserted bigint, OUT updated bigint, OUT deleted bigint) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    WITH deletion AS (
        SELECT s.staged_id, (f ->> 'delete_count')::bigint - coalesce(
            lag((f ->> 'delete_count')::bigint) OVER (PARTITION BY f ->> 'data_path' ORDER BY s.staged_id),
            (SELECT d.delete_count FROM pg_sluice.delete_file d
             WHERE d.delete_file_id = (f ->> 'replaces')::bigint), 0) AS rows
        FROM pg_sluice.staged s CROSS JOIN LATERAL jsonb_array_elements(s.change -> 'delete_files') f WHERE s.relid = shadow
    ), each AS (
        SELECT (SELECT coalesce(sum((f ->> 'record_count')::bigint), 0)
                FROM jsonb_array_elements(s.change -> 'data_files') f
                -- Their rows are in another file by now, which has them too.
                WHERE f ->> 'path' NOT IN (
                    SELECT p FROM pg_sluice.staged c CROSS JOIN LATERAL jsonb_array_elements_text(c.change -> 'combined') e (p)
                    WHERE c.relid = shadow))::bigint AS added,
               (SELECT coalesce(sum(d.rows), 0) FROM deletion d WHERE d.staged_id = s.staged_id)::bigint AS gone
        FROM pg_sluice.staged s WHERE s.relid = shadow AND (s.change ->> 'truncate')::boolean IS NOT TRUE)
    SELECT sum(added - least(added, gone))::bigint, sum(least(added, gone))::bigint, sum(gone - least(added, gone))::bigint
    FROM each
$$;


-- One staged change of one table:
--   {"relid": …, "truncate": bool, "place": file_order or lacking, "counts": as `counts` has them, or lacking,
--    "data_files":   [{"path", "record_count", "size_bytes", "footer_size",
--                      "statistics": {column_id: {value_count, null_count, size_bytes, minimum, maximum,
--                                                 contains_nan}},
--                      "hot_rows": the rows as JSON's text, in place of a file, or null,
--                      "partition": null, or the key by which the rows were divided, [[column ID, transform]], their
--                                   values (null for rows of several), and the texts that DuckLake has of these}],
--    "delete_files": [{"data_path", "data_file_id" (null for a data file of the same change),
--                      "replaces": delete_file_id or null, "path", "delete_count", "size_bytes", "footer_size",
--                      "positions": those deleted, in place of a file, or null,
--                      "base": the file that has others, or null: its path, delete_count, size_bytes, footer_size}],
--    "combined":     [path of a data file that was staged before, whose rows are in these]}
-- A delete file whose predecessor is no longer the live one, or whose data file is gone, means that another
-- transaction changed the same rows' file: 40001.
CREATE FUNCTION pg_sluice.publish_rows(snapshot bigint, change jsonb) RETURNS text[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id bigint := (SELECT table_id FROM pg_sluice.relation WHERE relid = (change ->> 'relid')::oid);
    changes text[];
BEGIN
    IF id IS NULL THEN
        RAISE EXCEPTION 'could not serialize access: the table was dropped meanwhile'
            USING ERRCODE = 'serialization_failure';
    END IF;
    IF (change ->> 'truncate')::boolean THEN
        PERFORM pg_sluice.end_files(snapshot, id);
        UPDATE pg_ducklake.ducklake_table_stats SET record_count = 0, file_size_bytes = 0 WHERE table_id = id;
        changes := changes || format('deleted_from_table:%s', id);
    END IF;

    IF jsonb_array_length(change -> 'data_files') > 0 THEN
        PERFORM pg_sluice.publish_files(snapshot, id, change -> 'data_files', (change ->> 'place')::bigint);
        changes := changes || format('inserted_into_table:%s', id);
    END IF;

    IF jsonb_array_length(change -> 'delete_files') > 0 THEN
        PERFORM pg_sluice.publish_delete_files(snapshot, id, change -> 'delete_files');
        changes := changes || format('deleted_from_table:%s', id);
    END IF;
    UPDATE pg_sluice.relation SET changed_snapshot = snapshot,
        inserted = inserted + coalesce((change #>> '{counts,inserted}')::bigint, 0),
        updated = updated + coalesce((change #>> '{counts,updated}')::bigint, 0),
        deleted = deleted + coalesce((change #>> '{counts,deleted}')::bigint, 0)
        WHERE table_id = id;
    RETURN changes;
END $$;


-- SET CONSTRAINTS ALL IMMEDIATE fires what is deferred to COMMIT at once, and requires no privilege. The gateway keeps
-- it from the backend (gateway/session/constraint_modes.py), but cannot do so inside functions: `publish` would hold
-- `head` until the transaction ends, and all others would wait. At COMMIT no function calls it, and its context is a
-- single line.
CREATE FUNCTION pg_sluice.refuse_early(context text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF strpos(context, E'\n') > 0 THEN
        PERFORM pg_sluice.refuse('SET CONSTRAINTS ALL IMMEDIATE from within a function, over changes');
    END IF;
END $$;

-- PostgreSQL computes cursors WITH HOLD behind all triggers, while `publish` holds `head`. Those of lake tables the gateway
-- has read before: the backend has cursors over nothing in their place (gateway/session/cursors.py).
CREATE FUNCTION pg_sluice.refuse_held() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_cursor() c WHERE c.is_holdable AND c.creation_time >= transaction_timestamp()
               AND c.statement !~ '^DECLARE "([^"]|"")*" (BINARY )?(NO )?SCROLL CURSOR WITH HOLD FOR SELECT WHERE false$') THEN
        PERFORM pg_sluice.refuse('COMMIT of changed lake tables beside a cursor WITH HOLD over other relations',
                                 'Declare it in a block that changes no lake table.');
    END IF;
END $$;

-- Deferred constraints of temporary tables may be checked for millions of rows. A row here, which never outlives COMMIT,
-- has them checked before: `publish` fires for it behind all that is queued.
CREATE UNLOGGED TABLE pg_sluice.published_last ();

CREATE FUNCTION pg_sluice.publish() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    context text; snapshot bigint; changes text[]; schema_changes text[]; row_changes text[]; d record; s record; version bigint;
    there boolean;
BEGIN
    -- An earlier firing in this COMMIT has published everything. Each looks for its own row alone: a scan passes over all
    -- that the first has removed, and others wait for COMMIT meanwhile.
    CASE TG_RELID
        WHEN 'pg_sluice.dirty'::regclass THEN there := EXISTS (SELECT FROM pg_sluice.dirty x WHERE x.dirty_id = NEW.dirty_id);
        WHEN 'pg_sluice.staged'::regclass THEN
            there := EXISTS (SELECT FROM pg_sluice.staged x WHERE x.relid = NEW.relid AND x.staged_id = NEW.staged_id);
        ELSE there := EXISTS (SELECT FROM pg_sluice.dirty) OR EXISTS (SELECT FROM pg_sluice.staged);
    END CASE;
    IF NOT there THEN
        RETURN NULL;
    END IF;
    GET DIAGNOSTICS context = PG_CONTEXT;
    PERFORM pg_sluice.refuse_early(context);
    IF TG_RELID = 'pg_sluice.published_last'::regclass THEN
        DELETE FROM pg_sluice.published_last;
    ELSIF pg_my_temp_schema() <> 0
        AND EXISTS (SELECT FROM pg_constraint k WHERE k.connamespace = pg_my_temp_schema() AND k.condeferrable) THEN
        IF NOT EXISTS (SELECT FROM pg_sluice.published_last) THEN
            INSERT INTO pg_sluice.published_last DEFAULT VALUES;
        END IF;
        RETURN NULL;
    END IF;
    PERFORM pg_sluice.refuse_held();
    PERFORM pg_sluice.lock_changed();
    PERFORM pg_sluice.refuse_unmet();
    PERFORM pg_sluice.await_settled();
    LOCK TABLE pg_sluice.head IN EXCLUSIVE MODE;
    PERFORM pg_sluice.confirm_writers();
    PERFORM pg_sluice.confirm_lease();
    -- Staged changes of a table that the transaction itself has dropped since.
    DELETE FROM pg_sluice.staged gone USING pg_sluice.dirty made
        WHERE gone.relid = made.relid AND NOT EXISTS (SELECT FROM pg_class WHERE oid = gone.relid);
    snapshot := pg_sluice.take_numbers('pg_sluice.snapshot_id');
    IF EXISTS (SELECT FROM pg_sluice.dirty) THEN
        version := pg_sluice.take_numbers('pg_sluice.schema_version');
        FOR d IN SELECT DISTINCT namespace FROM pg_sluice.dirty WHERE namespace IS NOT NULL LOOP
            schema_changes := schema_changes || pg_sluice.publish_schema(snapshot, d.namespace);
        END LOOP;
        FOR d IN SELECT DISTINCT relid FROM pg_sluice.dirty WHERE relid <> 0 ORDER BY relid LOOP
            schema_changes := schema_changes || pg_sluice.publish_table(snapshot, d.relid);
            PERFORM pg_sluice.record_steps(snapshot, d.relid);
        END LOOP;
        IF EXISTS (SELECT FROM unnest(schema_changes) c WHERE c LIKE 'dropped\_table:%') THEN
            PERFORM pg_sluice.drop_table_locks();
        END IF;
        PERFORM pg_sluice.settle_elements();
    END IF;
    FOR s IN SELECT DISTINCT relid FROM pg_sluice.staged ORDER BY relid LOOP
        row_changes := row_changes || pg_sluice.publish_rows(
            snapshot, pg_sluice.squashed(s.relid) || jsonb_build_object('counts', to_jsonb(pg_sluice.counts(s.relid))));
    END LOOP;
    DELETE FROM pg_sluice.staged;
    IF EXISTS (SELECT FROM pg_sluice.dirty) THEN
        -- As late as possible: from here until the end of COMMIT no gateway's heartbeat is answered.
        PERFORM pg_sluice.write_update(snapshot, version);
        DELETE FROM pg_sluice.dirty;
        DELETE FROM pg_sluice.ddl_scan;
    END IF;
    SELECT array_agg(DISTINCT change) INTO changes FROM unnest(schema_changes || row_changes) change
        WHERE change IS NOT NULL;
    IF changes IS NULL THEN
        RETURN NULL;  -- such as GRANT: the lake does not hold it
    END IF;
    INSERT INTO pg_ducklake.ducklake_snapshot VALUES (
        snapshot, clock_timestamp(), (SELECT last_value FROM pg_sluice.schema_version),
        (SELECT last_value + 1 FROM pg_sluice.catalog_id), (SELECT last_value + 1 FROM pg_sluice.file_id));
    INSERT INTO pg_ducklake.ducklake_snapshot_changes
        VALUES (snapshot, array_to_string(changes, ','), session_user, NULL, NULL);
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER pg_sluice_publish AFTER INSERT ON pg_sluice.dirty DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.publish();
CREATE CONSTRAINT TRIGGER pg_sluice_publish AFTER INSERT ON pg_sluice.staged DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.publish();
CREATE CONSTRAINT TRIGGER pg_sluice_publish AFTER INSERT ON pg_sluice.published_last DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.publish();

