-- The layout of tables: the columns by which their files are sorted (sluice.sort_by). For those by which they are divided,
-- see partitions.sql.

-- The sort key's columns, in order. A column that is dropped leaves the key; others stay.
CREATE TABLE pg_sluice.sort_column (
    relid oid NOT NULL REFERENCES pg_sluice.relation ON DELETE CASCADE,
    place integer NOT NULL, attnum smallint NOT NULL, descending boolean NOT NULL, nulls_first boolean NOT NULL,
    PRIMARY KEY (relid, place), UNIQUE (relid, attnum)
);

-- The sort key as it is now, in order; `place` counts from 0.
CREATE FUNCTION pg_sluice.sort_key(shadow oid)
RETURNS TABLE (place bigint, attnum smallint, name name, descending boolean, nulls_first boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT row_number() OVER (ORDER BY s.place) - 1, s.attnum, a.attname, s.descending, s.nulls_first
    FROM pg_sluice.sort_column s JOIN pg_attribute a ON a.attrelid = s.relid AND a.attnum = s.attnum
    WHERE s.relid = shadow AND NOT a.attisdropped
$$;

-- As PostgreSQL for ORDER BY: refuse a sort key with a column whose type has no order. Refuse also one whose values
-- files hold in another order than the type's, without bounds.
CREATE FUNCTION pg_sluice.check_sort_key(shadow oid) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c pg_attribute;
BEGIN
    FOR c IN SELECT a.* FROM pg_sluice.sort_key(shadow) k JOIN pg_attribute a ON a.attrelid = shadow AND a.attnum = k.attnum
             ORDER BY k.place LOOP
        IF NOT pg_sluice.is_ordered(pg_sluice.base_type(c.atttypid)) THEN
            RAISE EXCEPTION 'could not identify an ordering operator for type %', format_type(c.atttypid, NULL)
                USING ERRCODE = 'undefined_function', HINT = 'Use an explicit ordering operator or modify the query.';
        ELSIF NOT pg_sluice.has_bounds(c) THEN
            PERFORM pg_sluice.refuse(format('sluice.sort_by with column "%s" of type %s', c.attname,
                                            format_type(c.atttypid, c.atttypmod)));
        END IF;
    END LOOP;
END $$;

-- Whether files have bounds of a column, in the order of its values; equal values are then stored alike, except floats.
CREATE FUNCTION pg_sluice.has_bounds(c pg_attribute) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT form NOT IN ('list', 'struct', 'json') AND kept.type_oid <> 2276
        AND NOT (kept.type_oid = 'numeric'::regtype AND form = 'varchar')
    FROM pg_sluice.kept_type(c.atttypid, pg_sluice.kept_typmod(c)) AS kept,
         pg_sluice.column_type(c.atttypid, pg_sluice.kept_typmod(c)) AS form
$$;

-- The type below a domain, and below domains over that.
CREATE FUNCTION pg_sluice.base_type(of_type oid) RETURNS oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE below (oid, base) AS (
        SELECT t.oid, t.typbasetype FROM pg_type t WHERE t.oid = of_type
        UNION ALL SELECT t.oid, t.typbasetype FROM below b JOIN pg_type t ON t.oid = b.base
    ) SELECT b.oid FROM below b WHERE b.base = 0
$$;

-- Whether a type has an order: a default class for btree, of its own, of a type that it is as good as, or of its kind.
CREATE FUNCTION pg_sluice.is_ordered(of_type oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod AND m.amname = 'btree'
        WHERE o.opcdefault AND (
            o.opcintype = t.oid
            OR EXISTS (SELECT FROM pg_cast c WHERE c.castsource = t.oid AND c.casttarget = o.opcintype AND c.castmethod = 'b'
                       AND c.castcontext = 'i')
            OR o.opcintype = CASE t.typtype WHEN 'e' THEN 'anyenum'::regtype WHEN 'r' THEN 'anyrange'::regtype
                                            WHEN 'm' THEN 'anymultirange'::regtype WHEN 'c' THEN 'record'::regtype END
            OR (o.opcintype = 'anyarray'::regtype AND t.typelem <> 0 AND t.typlen = -1 AND pg_sluice.is_ordered(t.typelem))))
    FROM pg_type t WHERE t.oid = of_type
$$;

-- The columns that a sort or partition key names, in order, [[column, …], …], of a table that a statement of the
-- transaction has just changed or made, and so as its owner. `once`: a column may come once only, whatever follows it.
CREATE FUNCTION pg_sluice.key_columns(shadow oid, columns jsonb, once boolean)
RETURNS TABLE (place bigint, attnum smallint, key jsonb) LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    times bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_sluice.dirty d WHERE d.relid = shadow) THEN
        RAISE EXCEPTION 'permission denied for the lake''s metadata' USING ERRCODE = 'insufficient_privilege';
    END IF;
    FOR place, key, attnum, times IN
            SELECT e.n, e.f, a.attnum, row_number() OVER (PARTITION BY e.f ->> 0, CASE WHEN NOT once THEN e.f END ORDER BY e.n)
            FROM jsonb_array_elements(columns) WITH ORDINALITY e (f, n)
            LEFT JOIN pg_attribute a ON a.attrelid = shadow AND a.attname = e.f ->> 0 AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY e.n LOOP
        IF attnum IS NULL THEN
            RAISE EXCEPTION 'column "%" does not exist', key ->> 0 USING ERRCODE = 'undefined_column';
        ELSIF times > 1 THEN
            RAISE EXCEPTION 'column "%" specified more than once', key ->> 0 USING ERRCODE = 'duplicate_column';
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Set a sort key: [[column, descending, nulls first], …]; none for no key.
CREATE FUNCTION pg_sluice.set_sort_key(shadow oid, columns jsonb) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('set_sort_key');
    DELETE FROM pg_sluice.sort_column s WHERE s.relid = shadow;
    INSERT INTO pg_sluice.sort_column
        SELECT shadow, k.place, k.attnum, (k.key ->> 1)::boolean, (k.key ->> 2)::boolean
        FROM pg_sluice.key_columns(shadow, columns, true) k;
    PERFORM pg_sluice.check_sort_key(shadow);
END $$;

-- Update DuckLake's rows of a table's sort key; return the change, in DuckLake's words. DuckLake names columns by
-- expressions, so a renamed one is a new key.
CREATE FUNCTION pg_sluice.publish_sort_key(snapshot bigint, of_table bigint, shadow oid) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted text[]; present text[]; id bigint;
BEGIN
    DELETE FROM pg_sluice.sort_column s WHERE s.relid = shadow
        AND NOT EXISTS (SELECT FROM pg_sluice.sort_key(shadow) k WHERE k.attnum = s.attnum);
    SELECT array_agg(ARRAY['"' || replace(k.name, '"', '""') || '"', CASE WHEN k.descending THEN 'DESC' ELSE 'ASC' END,
                           CASE WHEN k.nulls_first THEN 'NULLS_FIRST' ELSE 'NULLS_LAST' END] ORDER BY k.place)
        INTO wanted FROM pg_sluice.sort_key(shadow) k;
    SELECT array_agg(ARRAY[e.expression, e.sort_direction, e.null_order]::text[] ORDER BY e.sort_key_index)
        INTO present FROM pg_ducklake.ducklake_sort_info i JOIN pg_ducklake.ducklake_sort_expression e USING (sort_id, table_id)
        WHERE i.table_id = of_table AND i.end_snapshot IS NULL;
    IF wanted IS NOT DISTINCT FROM present THEN
        RETURN NULL;
    END IF;
    UPDATE pg_ducklake.ducklake_sort_info i SET end_snapshot = snapshot WHERE i.table_id = of_table AND i.end_snapshot IS NULL;
    IF wanted IS NOT NULL THEN
        id := pg_sluice.take_numbers('pg_sluice.catalog_id');
        INSERT INTO pg_ducklake.ducklake_sort_info VALUES (id, of_table, snapshot, NULL);
        INSERT INTO pg_ducklake.ducklake_sort_expression
            SELECT id, of_table, n, wanted[n + 1][1], 'duckdb', wanted[n + 1][2], wanted[n + 1][3]
            FROM generate_series(0, array_length(wanted, 1) - 1) n;
    END IF;
    RETURN format('altered_table:%s', of_table);
END $$;
