-- What a change of a schema demands of rows that are there. PostgreSQL has checked a new constraint against an empty
-- shadow; so it is noted, and the gateway looks at the lake before COMMIT: it asks for `obligations`, runs the query of
-- each, and vouches for those that it found no offending row for. One that nobody has vouched for fails the COMMIT.

-- The constraints that the lake is known to keep: `validated` as in pg_constraint.
CREATE TABLE pg_sluice.constraint_known (
    constraint_oid oid PRIMARY KEY, relid oid NOT NULL, validated boolean NOT NULL);
-- That of a domain is noted for each table with columns of it.
CREATE TABLE pg_sluice.obligation (constraint_oid oid, relid oid, PRIMARY KEY (constraint_oid, relid));
-- Columns whose values in rows that are there have to be computed; `old_column_id` is that of the column before, if any.
CREATE TABLE pg_sluice.column_obligation (
    relid oid NOT NULL, attnum smallint NOT NULL, old_column_id bigint, PRIMARY KEY (relid, attnum));


-- After a change of a table: which of its constraints are to hold over rows that nobody has looked at. A column in
-- `filled` is new, and has a value in all of them.
CREATE FUNCTION pg_sluice.note_obligations(shadow oid, filled smallint[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A table without rows may have got some by COMMIT.
    IF EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = shadow) OR pg_sluice.has_rows(shadow) THEN
        INSERT INTO pg_sluice.obligation
            SELECT k.oid, shadow FROM pg_constraint k LEFT JOIN pg_sluice.constraint_known o ON o.constraint_oid = k.oid
            WHERE k.conrelid = shadow AND k.contype IN ('c', 'n', 'p', 'u', 'f') AND k.convalidated AND k.conenforced
                AND o.validated IS DISTINCT FROM true
                AND NOT (k.contype = 'n' AND (k.conkey <@ filled OR pg_sluice.is_kept_not_null(k)))
                -- USING INDEX: its rows have been looked at.
                AND NOT (EXISTS (SELECT FROM pg_sluice.index_known n WHERE n.index_oid = k.conindid)
                         AND NOT EXISTS (SELECT FROM pg_sluice.index_obligation n WHERE n.index_oid = k.conindid))
            ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO pg_sluice.constraint_known
        SELECT oid, conrelid, convalidated AND conenforced FROM pg_constraint WHERE conrelid = shadow
        ON CONFLICT (constraint_oid) DO UPDATE SET validated = excluded.validated;
END $$;


-- Whether a NOT NULL is of a column that had no NULLs before, and that the transaction has put none in: PostgreSQL makes
-- its constraint anew with the column's type.
CREATE FUNCTION pg_sluice.is_kept_not_null(k pg_constraint) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.published_shape s JOIN pg_sluice.attribute l USING (relid)
                   WHERE s.relid = k.conrelid AND l.attnum = k.conkey[1]
                       AND NOT (s.shape -> 'columns' -> l.column_id::text ->> 'nullable')::boolean)
        AND NOT EXISTS (SELECT FROM pg_sluice.staged s WHERE s.relid = k.conrelid)
$$;


-- What the transaction has noted and not met: the constraint, the tables that it is about, and a query that gives a row
-- where it does not hold. That row is the offending key, with no columns where PostgreSQL does not name it.
CREATE FUNCTION pg_sluice.obligations() RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('obligations', 'explained');
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'constraint', k.oid::bigint, 'kind', k.contype, 'name', k.conname, 'relid', k.conrelid::bigint,
            'schema', n.nspname, 'table', c.relname, 'parent', f.relname, 'parent_relid', k.confrelid::bigint,
            'columns', (SELECT jsonb_agg(a.attname ORDER BY u.n) FROM unnest(k.conkey) WITH ORDINALITY u (attnum, n)
                        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum),
            'query', pg_sluice.offending_rows(k)) ORDER BY pg_sluice.obligation_place(k), k.oid), '[]')
        FROM pg_sluice.obligation o JOIN pg_constraint k ON k.oid = o.constraint_oid AND k.conrelid = o.relid
        JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_class f ON f.oid = k.confrelid) || pg_sluice.domain_obligations() || pg_sluice.index_obligations();
END $$;

-- Those of domains, for each column of one. VALUE is how PostgreSQL spells the value in a constraint, so the column goes
-- by that name.
CREATE FUNCTION pg_sluice.domain_obligations() RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'constraint', k.oid::bigint, 'kind', 'd' || k.contype::text, 'name', k.conname, 'relid', o.relid::bigint,
        'schema', n.nspname, 'table', c.relname, 'parent', NULL, 'parent_relid', NULL,
        'columns', jsonb_build_array(a.attname),
        'query', format('SELECT 1 FROM (SELECT %I::%s AS value FROM %s) t WHERE %s LIMIT 1', a.attname,
                        format_type(b.type_oid, b.typmod), o.relid::regclass,
                        CASE k.contype WHEN 'n' THEN 'value IS NULL'
                        ELSE format('(%s) IS FALSE', pg_get_expr(k.conbin, 0)) END))
        ORDER BY k.oid, o.relid, a.attnum), '[]')
    FROM pg_sluice.obligation o JOIN pg_constraint k ON k.oid = o.constraint_oid AND k.contypid <> 0
    JOIN pg_class c ON c.oid = o.relid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = o.relid AND a.attnum > 0 AND NOT a.attisdropped
        AND k.contypid IN (SELECT pg_sluice.domains_of(a.atttypid))
    CROSS JOIN LATERAL pg_sluice.kept_type(a.atttypid, a.atttypmod) b
$$;

-- PostgreSQL builds indexes before it looks at rows, and after it has written them anew; references come last.
CREATE FUNCTION pg_sluice.obligation_place(k pg_constraint) RETURNS integer LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN k.contype = 'f' THEN 5
                WHEN k.contype NOT IN ('p', 'u') THEN CASE k.contype WHEN 'n' THEN 2 ELSE 3 END
                WHEN EXISTS (SELECT FROM pg_sluice.column_obligation o WHERE o.relid = k.conrelid) THEN 4
                ELSE 1 END
$$;

CREATE FUNCTION pg_sluice.offending_rows(k pg_constraint) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    listed text; there text; joined text; parent_missing text;
BEGIN
    SELECT string_agg(format('t.%I', a.attname), ', ' ORDER BY u.n),
           string_agg(format('t.%I IS NOT NULL', a.attname), ' AND ' ORDER BY u.n),
           -- By the collation of the key that is referred to, as PostgreSQL does.
           string_agg('p.' || quote_ident(p.attname) || ' = t.' || quote_ident(a.attname)
                      || coalesce(' COLLATE ' || l.oid::regcollation::text, ''), ' AND ' ORDER BY u.n),
           min('p.' || quote_ident(p.attname) || ' IS NULL') FILTER (WHERE u.n = 1)
        INTO listed, there, joined, parent_missing
        FROM unnest(k.conkey, k.confkey) WITH ORDINALITY u (attnum, parent_attnum, n)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum
        LEFT JOIN pg_attribute p ON p.attrelid = k.confrelid AND p.attnum = u.parent_attnum
        LEFT JOIN pg_collation l ON l.oid = p.attcollation AND a.attcollation <> p.attcollation;
    RETURN CASE k.contype
        WHEN 'c' THEN format('SELECT 1 FROM %s WHERE (%s) IS FALSE LIMIT 1', k.conrelid::regclass,
                             pg_get_expr(k.conbin, k.conrelid))
        WHEN 'n' THEN format('SELECT 1 FROM %s t WHERE NOT (%s) LIMIT 1', k.conrelid::regclass, there)
        WHEN 'f' THEN format('SELECT %s FROM %s t LEFT JOIN %s p ON %s WHERE %s AND %s LIMIT 1', listed,
                             k.conrelid::regclass, k.confrelid::regclass, joined, parent_missing, there)
        ELSE format('SELECT %1$s FROM %2$s t WHERE %3$s GROUP BY %1$s HAVING count(*) > 1 LIMIT 1', listed,
                    k.conrelid::regclass, CASE WHEN (SELECT i.indnullsnotdistinct FROM pg_index i
                                                    WHERE i.indexrelid = k.conindid) THEN 'true' ELSE there END) END;
END $$;

-- The columns of a table whose values have to be computed: with the sequence that numbers them, where there is one, and
-- how its columns are described by now.
CREATE FUNCTION pg_sluice.column_obligations(shadow oid) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('column_obligations');
    RETURN jsonb_build_object(
        'columns', (SELECT coalesce(jsonb_agg(jsonb_build_object(
            'attnum', o.attnum, 'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)
                || CASE WHEN a.attndims > 1 THEN '[]' ELSE '' END,
            'added', o.old_column_id IS NULL, 'generated', a.attgenerated <> '',
            'sequence', q.seqrelid::bigint,
            'start', q.seqstart, 'increment', q.seqincrement,
            'drawn_from', pg_sluice.drawn_from(a)::bigint) ORDER BY o.attnum), '[]')
            FROM pg_sluice.column_obligation o
            JOIN pg_attribute a ON a.attrelid = o.relid AND a.attnum = o.attnum AND NOT a.attisdropped
            LEFT JOIN pg_sequence q
                ON q.seqrelid = pg_sluice.serial_sequence(o.relid, o.attnum)
            WHERE o.relid = shadow),
        'table', (SELECT d.description FROM pg_sluice.describe(ARRAY[shadow]) d));
END $$;

-- As pg_get_serial_sequence, which asks for rights on the schema.
CREATE FUNCTION pg_sluice.serial_sequence(of_relation oid, attnum smallint) RETURNS oid LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.oid FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = of_relation
        AND d.refobjsubid = attnum AND d.deptype IN ('a', 'i')
$$;

-- The sequence whose next values are a column's default, as they are: one that is there beside the column. Or NULL.
CREATE FUNCTION pg_sluice.drawn_from(a pg_attribute) RETURNS oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.oid FROM pg_attrdef f JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
        AND d.refclassid = 'pg_class'::regclass JOIN pg_class s ON s.oid = d.refobjid AND s.relkind = 'S'
    WHERE f.adrelid = a.attrelid AND f.adnum = a.attnum
        AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
        AND pg_get_expr(f.adbin, f.adrelid) = format('nextval(%L::regclass)', s.oid::regclass)
$$;

-- Columns that the change computes anew though their files might stay: by USING.
CREATE FUNCTION pg_sluice.recompute_columns(shadow oid, names jsonb) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a record; next_id bigint;
BEGIN
    PERFORM pg_sluice.authorize('recompute_columns');
    IF NOT pg_sluice.has_rows(shadow) THEN
        RETURN;
    END IF;
    FOR a IN SELECT c.attnum, c.atttypid, pg_sluice.kept_typmod(c) AS kept_typmod, l.column_id FROM pg_attribute c
             JOIN pg_sluice.attribute l ON l.relid = c.attrelid AND l.attnum = c.attnum
             WHERE c.attrelid = shadow AND names ? c.attname AND NOT c.attisdropped AND NOT EXISTS (
                SELECT FROM pg_sluice.column_obligation o WHERE o.relid = shadow AND o.attnum = c.attnum)
             ORDER BY c.attnum LOOP
        SELECT next_column_id INTO next_id FROM pg_sluice.relation WHERE relid = shadow;
        UPDATE pg_sluice.attribute SET column_id = next_id, initial_default = NULL, computed = true
            WHERE relid = shadow AND attnum = a.attnum;
        UPDATE pg_sluice.relation SET next_column_id = next_id + (
            SELECT count(*) FROM pg_sluice.fields('', a.atttypid, a.kept_typmod, 0, NULL)) WHERE relid = shadow;
        INSERT INTO pg_sluice.column_obligation VALUES (shadow, a.attnum, a.column_id);
        INSERT INTO pg_sluice.obligation
            SELECT oid, shadow FROM pg_constraint
            WHERE conrelid = shadow AND contype = 'n' AND conkey[1] = a.attnum AND convalidated AND conenforced
            ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

-- All of a table's columns have their values.
CREATE FUNCTION pg_sluice.vouch_columns(shadow oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('vouch_columns', 'vouch_for_no_rows');
    DELETE FROM pg_sluice.column_obligation WHERE relid = shadow;
END $$;

-- The same where nothing was to be computed, for a table without rows: others may have added some since.
CREATE FUNCTION pg_sluice.vouch_for_no_rows(shadow oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('vouch_for_no_rows');
    IF EXISTS (SELECT FROM pg_sluice.column_obligation o WHERE o.relid = shadow AND o.attnum > 0)
       AND EXISTS (SELECT FROM pg_sluice.relation r JOIN pg_ducklake.ducklake_data_file f USING (table_id)
                   WHERE r.relid = shadow AND f.end_snapshot IS NULL) THEN
        RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = 'serialization_failure';
    END IF;
    PERFORM pg_sluice.vouch_columns(shadow);
END $$;

CREATE FUNCTION pg_sluice.vouch(constraints bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('vouch');
    DELETE FROM pg_sluice.obligation WHERE constraint_oid::bigint = ANY (constraints);
    DELETE FROM pg_sluice.index_obligation WHERE -index_oid::bigint = ANY (constraints);
END $$;

-- For all that is demanded by now: of a (sub)transaction that is going to be undone.
CREATE FUNCTION pg_sluice.vouch_all() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('vouch_all');
    DELETE FROM pg_sluice.obligation;
    DELETE FROM pg_sluice.index_obligation;
END $$;


-- Columns whose values nobody has computed are refused, but for those that are gone again.
CREATE FUNCTION pg_sluice.refuse_rewriting() RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unmet name;
BEGIN
    SELECT c.relname INTO unmet FROM pg_sluice.column_obligation o JOIN pg_class c ON c.oid = o.relid
        LEFT JOIN pg_attribute a ON a.attrelid = o.relid AND a.attnum = o.attnum AND NOT a.attisdropped
        WHERE o.attnum = 0 OR a.attnum IS NOT NULL LIMIT 1;
    IF FOUND THEN
        PERFORM pg_sluice.refuse(format('rewriting table "%s" from within a function', unmet));
    END IF;
END $$;


-- At COMMIT, with the table locked: what was not looked at is refused. A constraint that is gone again demands nothing,
-- nor does one of a table without rows.
CREATE FUNCTION pg_sluice.refuse_unmet() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unmet name;
BEGIN
    SELECT k.conname INTO unmet FROM pg_sluice.obligation o JOIN pg_constraint k ON k.oid = o.constraint_oid
        WHERE pg_sluice.has_rows(o.relid) LIMIT 1;
    IF FOUND THEN
        PERFORM pg_sluice.refuse(format('adding constraint "%s" from within a function', unmet));
    END IF;
    DELETE FROM pg_sluice.obligation;
    SELECT c.relname INTO unmet FROM pg_sluice.index_obligation o JOIN pg_class c ON c.oid = o.index_oid
        WHERE pg_sluice.has_rows(o.relid) LIMIT 1;
    IF FOUND THEN
        PERFORM pg_sluice.refuse(format('creating index "%s" from within a function', unmet));
    END IF;
    DELETE FROM pg_sluice.index_obligation;
    PERFORM pg_sluice.refuse_rewriting();
    DELETE FROM pg_sluice.column_obligation;
END $$;
