-- EXCLUDE constraints. One that forbids only equal values of columns is a key (keys.sql). PostgreSQL decides about any
-- other: the gateway hands it the rows in question, and asks which of them conflict. Writers of a table with such a
-- constraint claim it as if it was one key, so that they look one after another.

-- Whether the EXCLUDE constraint of an index demands what a UNIQUE constraint does: of columns with keys, by the types'
-- own equality. NULL for another index.
CREATE FUNCTION pg_sluice.excludes_equals(index oid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT i.indexprs IS NULL AND i.indpred IS NULL AND NOT EXISTS (
        SELECT FROM unnest(k.conkey, k.conexclop) WITH ORDINALITY e (attnum, operator, n)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = e.attnum
        JOIN pg_attribute x ON x.attrelid = k.conindid AND x.attnum = e.n
        LEFT JOIN pg_collation l ON l.oid = x.attcollation
        WHERE e.operator >= 16384 OR NOT coalesce(l.collisdeterministic, true)
            OR pg_sluice.key_class(a.atttypid, pg_sluice.kept_typmod(a)) IS NULL
            OR NOT EXISTS (
                SELECT FROM pg_amop o JOIN pg_am m ON m.oid = o.amopmethod JOIN pg_opclass c ON c.opcfamily = o.amopfamily
                WHERE o.amopopr = e.operator AND m.amname = 'btree' AND o.amopstrategy = 3 AND c.opcdefault))
    FROM pg_index i JOIN pg_constraint k ON k.conrelid = i.indrelid AND k.conindid = i.indexrelid AND k.contype = 'x'
    WHERE i.indexrelid = index
$$;

-- The others of a table, as JSON for catalog.constraints; NULL for none.
CREATE FUNCTION pg_sluice.exclusions(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(pg_sluice.exclusion(k) ORDER BY k.conindid)
    FROM pg_constraint k
    WHERE k.conrelid = shadow AND k.contype = 'x' AND NOT pg_sluice.excludes_equals(k.conindid)
$$;

-- `told` are the columns of its keys, 0 for an expression; `attnums` are all columns that decide; `calls`: functions of
-- users decide, too.
CREATE FUNCTION pg_sluice.exclusion(k pg_constraint) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'oid', k.oid::bigint, 'table', k.conrelid::bigint, 'name', k.conname, 'told', i.indkey::smallint[],
        'attnums', (
            SELECT coalesce(jsonb_agg(a.attnum ORDER BY a.attnum), '[]') FROM pg_attribute a
            WHERE a.attrelid = k.conrelid AND a.attnum > 0 AND (a.attnum = ANY (i.indkey::smallint[]) OR EXISTS (
                SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                    AND d.refclassid = 'pg_class'::regclass AND d.refobjid = k.conrelid AND d.refobjsubid = a.attnum))),
        'calls', EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                         AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384),
        'deferrable', k.condeferrable, 'deferred', k.condeferred)
    FROM pg_index i WHERE i.indexrelid = k.conindid
$$;


-- The parts of an EXCLUDE constraint in SQL, by its index: `keys`, and `indexed` with their operator classes; the
-- `operators`; the `method` and the `predicate`; `labels` are the keys as errors spell them; `schemas` are those of what
-- is not PostgreSQL's own. NULL if it is gone.
CREATE FUNCTION pg_sluice.exclusion_parts(index oid) RETURNS jsonb LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'method', (SELECT m.amname FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE c.oid = index),
        'predicate', '(' || coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') || ')',
        'labels', to_jsonb(pg_sluice.index_labels(i)),
        'keys', e.keys, 'indexed', e.indexed, 'operators', e.operators, 'schemas', (
            SELECT coalesce(jsonb_agg(DISTINCT n.nspname), '[]') FROM (
                SELECT f.pronamespace FROM pg_depend d JOIN pg_proc f ON f.oid = d.refobjid
                    WHERE d.objid = index AND d.refclassid = 'pg_proc'::regclass
                UNION ALL SELECT t.typnamespace FROM pg_depend d JOIN pg_type t ON t.oid = d.refobjid
                    WHERE d.objid = index AND d.refclassid = 'pg_type'::regclass
                UNION ALL SELECT o.oprnamespace FROM pg_depend d JOIN pg_operator o ON o.oid = d.refobjid
                    WHERE d.objid IN (index, k.oid) AND d.refclassid = 'pg_operator'::regclass) s (oid)
            JOIN pg_namespace n ON n.oid = s.oid WHERE n.nspname <> 'pg_catalog'))
    FROM pg_index i JOIN pg_constraint k ON k.conrelid = i.indrelid AND k.conindid = i.indexrelid AND k.contype = 'x'
    CROSS JOIN LATERAL (
        SELECT jsonb_agg(format('OPERATOR(%I.%s)', m.nspname, o.oprname) ORDER BY u.n) AS operators,
               jsonb_agg(e.key ORDER BY u.n) AS keys,
               jsonb_agg(format('%s %I.%I', e.key, p.nspname, c.opcname) ORDER BY u.n) AS indexed
        FROM unnest(k.conexclop) WITH ORDINALITY u (operator, n)
        JOIN pg_operator o ON o.oid = u.operator JOIN pg_namespace m ON m.oid = o.oprnamespace
        JOIN pg_attribute a ON a.attrelid = index AND a.attnum = u.n
        JOIN pg_opclass c ON c.oid = i.indclass[u.n - 1] JOIN pg_namespace p ON p.oid = c.opcnamespace
        CROSS JOIN LATERAL (SELECT format('((%s)%s)', pg_get_indexdef(index, u.n::integer, false),
                                          ' COLLATE ' || nullif(a.attcollation, 0)::regcollation::text) AS key) e) e
    WHERE i.indexrelid = index
$$;

-- A query for rows whose values are texts in an array, column by column, with the number of each from 0.
CREATE FUNCTION pg_sluice.rows_of_cells(columns text[], types oid[], row_count integer, cells text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN count(*) = 0 THEN format('SELECT n - 1 AS pg_sluice_place FROM generate_series(1, %s) AS u (n)', row_count)
        ELSE format('SELECT n - 1 AS pg_sluice_place, %s FROM unnest(%s) WITH ORDINALITY AS u (%s, n)',
            string_agg(format('%s AS %I', pg_sluice.value_of_cell(n, t), c), ', ' ORDER BY n),
            string_agg(format('%s[%s:%s]', cells, (n - 1) * row_count + 1, n * row_count), ', ' ORDER BY n),
            string_agg(format('c%s', n), ', ' ORDER BY n)) END
    FROM unnest(columns, types) WITH ORDINALITY u (c, t, n)
$$;

-- The query for pairs of rows that conflict by a constraint of these parts, by their numbers: the new row's first. New rows are in the table `fresh`, or cells in $1; `standing` ones are cells in $2. `wanted`:
--
--   first      the first new row that conflicts with a standing one
--   later      the first new row that conflicts with an earlier new one
--   earliest   the first of all new rows that conflicts with another, and that one
--   every      all standing rows that conflict with new ones
CREATE FUNCTION pg_sluice.exclusion_query(
    parts jsonb, wanted text, columns text[], types oid[], fresh text, fresh_count integer, standing_count integer
) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(
        'WITH %s pg_sluice_s AS MATERIALIZED (SELECT pg_sluice_place AS place, %s FROM %s WHERE %s) %s', CASE
            WHEN fresh = '' THEN format(
                'pg_sluice_f AS MATERIALIZED (%s), ', pg_sluice.rows_of_cells(columns, types, fresh_count, '$1')) END,
        string_agg(format('%s AS key%s', u.key, u.n), ', ' ORDER BY u.n),
        CASE WHEN wanted IN ('later', 'earliest') THEN s.source
        ELSE format('(%s) AS pg_sluice_r', pg_sluice.rows_of_cells(columns, types, standing_count, '$2')) END,
        parts ->> 'predicate',
        format(CASE wanted
            WHEN 'every' THEN 'SELECT 0::bigint, s.place::bigint FROM pg_sluice_s s WHERE EXISTS (SELECT %s) ORDER BY 2'
            ELSE 'SELECT %3$s FROM (SELECT s.place AS s, (SELECT min(pg_sluice_place) %1$s%2$s) AS f FROM pg_sluice_s s) p '
                 'WHERE f IS NOT NULL ORDER BY %4$s LIMIT 1' END,
            format('FROM %s WHERE %s AND %s', s.source, parts ->> 'predicate', string_agg(
                format('%1$s IS DISTINCT FROM NULL AND s.key%3$s IS DISTINCT FROM NULL AND %1$s %2$s s.key%3$s',
                       u.key, u.operator, u.n), ' AND ' ORDER BY u.n)),
            CASE wanted WHEN 'later' THEN ' AND pg_sluice_place > s.place'
                WHEN 'earliest' THEN ' AND pg_sluice_place <> s.place' ELSE '' END,
            CASE wanted WHEN 'earliest' THEN 's::bigint, f::bigint' ELSE 'f::bigint, s::bigint' END,
            CASE wanted WHEN 'earliest' THEN 's' ELSE 'f, s' END))
    FROM (SELECT CASE WHEN fresh = '' THEN 'pg_sluice_f' ELSE fresh END) AS s (source)
    CROSS JOIN LATERAL (
        SELECT n, parts -> 'keys' ->> n - 1, parts -> 'operators' ->> n - 1
        FROM generate_series(1, jsonb_array_length(parts -> 'keys')) n) AS u (n, key, operator)
    GROUP BY s.source
$$;

-- Refuse a caller who may not name what a constraint and the types of its columns need, where PostgreSQL names nothing.
CREATE FUNCTION pg_sluice.refuse_unusable(parts jsonb, types oid[]) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hidden name;
BEGIN
    SELECT n.nspname INTO hidden FROM pg_namespace n
        WHERE n.nspname <> 'pg_catalog' AND NOT has_schema_privilege(n.oid, 'USAGE') AND (
            parts -> 'schemas' ? n.nspname OR EXISTS (SELECT FROM pg_type t WHERE t.oid = ANY (types) AND t.typnamespace = n.oid))
        LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'an EXCLUDE constraint with what is in schema "%", for a role without its USAGE, is not supported', hidden
            USING ERRCODE = 'feature_not_supported', HINT = format('GRANT USAGE ON SCHEMA %I lets the role write rows.', hidden);
    END IF;
END $$;

-- The parts of a constraint that a gateway has just found. Another session may have dropped it since, or made it anew.
CREATE FUNCTION pg_sluice.present_exclusion(shadow oid, named text) RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts jsonb := (SELECT pg_sluice.exclusion_parts(k.conindid) FROM pg_constraint k
                    WHERE k.conrelid = shadow AND k.conname = named AND k.contype = 'x');
BEGIN
    IF parts IS NULL THEN
        RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN parts;
END $$;

-- Execute that query, with the caller's rights. The constraint is the table's of this name, whose OID is another one
-- in each window, or the one of the parts that are `given`.
CREATE FUNCTION pg_sluice.exclusion_conflicts(
    shadow oid, named text, given jsonb, wanted text, columns text[], types oid[], fresh text, fresh_count integer, fresh_cells text[],
    standing_count integer, standing_cells text[]
) RETURNS TABLE (fresh_place bigint, standing_place bigint) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET lc_monetary = 'C' SET xmloption = content
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    parts jsonb := coalesce(given, pg_sluice.present_exclusion(shadow, named));
BEGIN
    PERFORM pg_sluice.refuse_unusable(parts, types);
    RETURN QUERY EXECUTE pg_sluice.exclusion_query(parts, wanted, columns, types, fresh, fresh_count, standing_count)
        USING fresh_cells, standing_cells;
END $$;

-- Make a table of the session's for many new rows, and its index once they are there.
CREATE FUNCTION pg_sluice.make_exclusion_rows(name text, columns text[], types oid[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.refuse_unusable('{"schemas": []}', types);
    EXECUTE format('CREATE TEMPORARY TABLE %I (%s)', name, (
        SELECT string_agg(format('%I %s', c, format_type(t, -1)), ', ' ORDER BY n)
        FROM unnest(columns, types) WITH ORDINALITY u (c, t, n)));
END $$;

CREATE FUNCTION pg_sluice.index_exclusion_rows(shadow oid, named text, given jsonb, name text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts jsonb := coalesce(given, pg_sluice.present_exclusion(shadow, named));
BEGIN
    PERFORM pg_sluice.refuse_unusable(parts, '{}');
    EXECUTE format('CREATE INDEX ON pg_temp.%I USING %I (%s) WHERE %s', name, parts ->> 'method', (
        SELECT string_agg(u.key, ', ' ORDER BY u.n)
        FROM jsonb_array_elements_text(parts -> 'indexed') WITH ORDINALITY u (key, n)), parts ->> 'predicate');
END $$;

-- The keys of rows as errors write them: the texts of values by the settings of the session. Values are read by others.
-- `labels` are the keys as the caller names them; empty if the constraint does not exist at the moment.
CREATE FUNCTION pg_sluice.exclusion_described(
    shadow oid, named text, given jsonb, labels text[], columns text[], types oid[], row_count integer, cells text[]
) RETURNS SETOF text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts jsonb := coalesce(given, pg_sluice.present_exclusion(shadow, named));
    settings text[] := ARRAY[current_setting('datestyle'), current_setting('intervalstyle'), current_setting('timezone'),
                          current_setting('lc_monetary')];
    rows text := pg_sluice.rows_of_cells(columns, types, row_count, '$1');
    key text; value text; texts text;
BEGIN
    FOR place IN 0 .. row_count - 1 LOOP
        texts := NULL;
        FOR key IN SELECT * FROM jsonb_array_elements_text(parts -> 'keys') LOOP
            PERFORM set_config('datestyle', 'ISO', true), set_config('intervalstyle', 'postgres', true),
                    set_config('timezone', 'UTC', true), set_config('lc_monetary', 'C', true);
            -- The inner query has read the value before the settings are those of the session again.
            EXECUTE format(
                'SELECT format(''%%s'', CASE WHEN set_config(''datestyle'', $2[1], true) <> '''' '
                'AND set_config(''intervalstyle'', $2[2], true) <> '''' AND set_config(''timezone'', $2[3], true) <> '''' '
                'AND set_config(''lc_monetary'', $2[4], true) <> '''' THEN value END) '
                'FROM (SELECT %s AS value FROM (%s) AS pg_sluice_r WHERE pg_sluice_place = %s OFFSET 0) AS pg_sluice_v',
                key, rows, place) INTO value USING cells, settings;
            texts := concat_ws(', ', texts, value);
        END LOOP;
        RETURN NEXT format('(%s)=(%s)', coalesce(nullif(array_to_string(labels, ', '), ''), (
            SELECT string_agg(l, ', ' ORDER BY n) FROM jsonb_array_elements_text(parts -> 'labels') WITH ORDINALITY u (l, n))), texts);
    END LOOP;
END $$;
