-- The obligations of a schema change: what it requires of existing rows. PostgreSQL has checked a new constraint
-- against an empty shadow. So the constraint is noted, and the gateway checks the lake before COMMIT: it asks for
-- `obligations`, runs the query of each, and vouches for those without a violating row. An obligation without a vouch
-- fails the COMMIT.

-- The constraints that the lake is known to satisfy: `validated` as in pg_constraint.
CREATE TABLE pg_sluice.constraint_known (
    constraint_oid oid PRIMARY KEY, relid oid NOT NULL, validated boolean NOT NULL);
-- A domain's constraint is noted for each table with columns of it.
CREATE TABLE pg_sluice.obligation (constraint_oid oid, relid oid, PRIMARY KEY (constraint_oid, relid));
-- Columns whose values must be computed in existing rows; `old_column_id` is that of the column before, if any.
CREATE TABLE pg_sluice.column_obligation (
    relid oid NOT NULL, attnum smallint NOT NULL, old_column_id bigint, PRIMARY KEY (relid, attnum));


-- After a change of a table: its constraints that must hold over unchecked rows. A column in `filled` is new, and has a
-- value in all of them.
CREATE FUNCTION pg_sluice.note_obligations(shadow oid, filled smallint[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A table without rows may have got some by COMMIT.
    IF EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = shadow) OR pg_sluice.has_rows(shadow) THEN
        INSERT INTO pg_sluice.obligation
            SELECT k.oid, shadow FROM pg_constraint k LEFT JOIN pg_sluice.constraint_known o ON o.constraint_oid = k.oid
            WHERE k.conrelid = shadow AND k.contype IN ('c', 'n', 'p', 'u', 'f', 'x') AND k.convalidated AND k.conenforced
                AND o.validated IS DISTINCT FROM true
                AND NOT (k.contype = 'n' AND (k.conkey <@ filled OR pg_sluice.is_kept_not_null(k)))
                -- USING INDEX: its rows have been checked.
                AND NOT (EXISTS (SELECT FROM pg_sluice.index_known n WHERE n.index_oid = k.conindid)
                         AND NOT EXISTS (SELECT FROM pg_sluice.index_obligation n WHERE n.index_oid = k.conindid))
            ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO pg_sluice.constraint_known
        SELECT oid, conrelid, convalidated AND conenforced FROM pg_constraint WHERE conrelid = shadow
        ON CONFLICT (constraint_oid) DO UPDATE SET validated = excluded.validated;
END $$;


-- Whether a NOT NULL is of a column that had no NULLs before, and that got none in this transaction: PostgreSQL
-- rebuilds its constraint with the column's type.
CREATE FUNCTION pg_sluice.is_kept_not_null(k pg_constraint) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.published_shape s JOIN pg_sluice.attribute l USING (relid)
                   WHERE s.relid = k.conrelid AND l.attnum = k.conkey[1]
                       AND NOT (s.shape -> 'columns' -> l.column_id::text ->> 'nullable')::boolean)
        AND NOT EXISTS (SELECT FROM pg_sluice.staged s WHERE s.relid = k.conrelid)
$$;


-- The transaction's unmet obligations: the constraint, its tables, and a query for a violating row. That row is the
-- violating key, without columns if PostgreSQL does not name it.
CREATE FUNCTION pg_sluice.obligations() RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('obligations', 'explained');
    IF NOT EXISTS (SELECT FROM pg_sluice.obligation) THEN
        RETURN pg_sluice.index_obligations();
    END IF;
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'constraint', k.oid::bigint, 'kind', k.contype, 'name', k.conname, 'relid', k.conrelid::bigint,
            'schema', n.nspname, 'table', c.relname, 'parent', f.relname, 'parent_relid', k.confrelid::bigint,
            'columns', CASE WHEN k.contype IN ('p', 'u', 'x')
                       THEN (SELECT to_jsonb(pg_sluice.index_labels(i)) FROM pg_index i WHERE i.indexrelid = k.conindid)
                       ELSE (SELECT jsonb_agg(a.attname ORDER BY u.n) FROM unnest(k.conkey) WITH ORDINALITY u (attnum, n)
                             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum) END,
            'exclusion', CASE WHEN k.contype = 'x' AND NOT pg_sluice.excludes_equals(k.conindid) 
                         THEN pg_sluice.exclusion(k) || jsonb_build_object('parts', pg_sluice.exclusion_parts(k.conindid)) END,
            'query', pg_sluice.offending_rows(k)) ORDER BY pg_sluice.obligation_place(k), k.oid), '[]')
        FROM pg_sluice.obligation o JOIN pg_constraint k ON k.oid = o.constraint_oid AND k.conrelid = o.relid
        JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_class f ON f.oid = k.confrelid) || pg_sluice.domain_obligations() || pg_sluice.index_obligations();
END $$;

-- Those of domains, for each column of one. PostgreSQL spells the value in a constraint VALUE, so the column has that
-- name.
CREATE FUNCTION pg_sluice.domain_obligations() RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'constraint', k.oid::bigint, 'kind', 'd' || k.contype::text, 'name', k.conname, 'relid', o.relid::bigint,
        'schema', n.nspname, 'table', c.relname, 'parent', NULL, 'parent_relid', NULL,
        'columns', jsonb_build_array(a.attname), 'base', format_type(b.type_oid, b.typmod),
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

-- PostgreSQL builds indexes before it checks rows, and after a rewrite; references come last.
CREATE FUNCTION pg_sluice.obligation_place(k pg_constraint) RETURNS integer LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN k.contype = 'f' THEN 5
                WHEN k.contype NOT IN ('p', 'u', 'x') THEN CASE k.contype WHEN 'n' THEN 2 ELSE 3 END
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
           -- By the collation of the referenced key, as in PostgreSQL.
           string_agg('p.' || quote_ident(p.attname) || ' = t.' || quote_ident(a.attname)
                      || coalesce(' COLLATE ' || l.oid::regcollation::text, ''), ' AND ' ORDER BY u.n),
           min('p.' || quote_ident(p.attname) || ' IS NULL') FILTER (WHERE u.n = 1)
        INTO listed, there, joined, parent_missing
        FROM unnest(k.conkey, k.confkey) WITH ORDINALITY u (attnum, parent_attnum, n)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum
        LEFT JOIN pg_attribute p ON p.attrelid = k.confrelid AND p.attnum = u.parent_attnum
        LEFT JOIN pg_collation l ON l.oid = p.attcollation AND a.attcollation <> p.attcollation;
    IF k.contype = 'x' AND NOT pg_sluice.excludes_equals(k.conindid) THEN
        RETURN format('SELECT 1 FROM %s', k.conrelid::regclass);  -- PostgreSQL finds them (exclusions.sql)
    END IF;
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

-- The columns of a table whose values must be computed, each with its sequence, if any, and the present description of
-- its columns.
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

-- Like pg_get_serial_sequence, which requires rights on the schema.
CREATE FUNCTION pg_sluice.serial_sequence(of_relation oid, attnum smallint) RETURNS oid LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.oid FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = of_relation
        AND d.refobjsubid = attnum AND d.deptype IN ('a', 'i')
$$;

-- The sequence whose next values are a column's default, unchanged, if it exists beside the column. Or NULL.
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

-- New columns whose default came after them, by the same statement, so that rows that are there have NULL. The value says
-- whether the column came with another default, which is not known any more unless PostgreSQL has noted its value.
CREATE FUNCTION pg_sluice.forget_defaults(shadow oid, names jsonb) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    a record;
BEGIN
    PERFORM pg_sluice.authorize('forget_defaults');
    IF NOT pg_sluice.has_rows(shadow) THEN
        RETURN;
    END IF;
    FOR a IN SELECT c.attnum, (names ->> c.attname::text)::boolean OR pg_sluice.is_constrained(c.atttypid)
                 OR pg_sluice.domain_default(c.atttypid) IS NOT NULL AS had_one FROM pg_attribute c
             WHERE c.attrelid = shadow AND names ? c.attname AND NOT c.attisdropped AND c.attmissingval IS NULL LOOP
        IF a.had_one THEN
            PERFORM pg_sluice.refuse('another DEFAULT of a column that the same ALTER TABLE adds');
        END IF;
        UPDATE pg_sluice.attribute SET initial_default = NULL, computed = false
            WHERE relid = shadow AND attnum = a.attnum;
        DELETE FROM pg_sluice.column_obligation WHERE relid = shadow AND attnum = a.attnum;
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

-- The same if nothing was to be computed, for a table without rows: others may have added some since.
CREATE FUNCTION pg_sluice.vouch_for_no_rows(shadow oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('vouch_for_no_rows');
    IF EXISTS (SELECT FROM pg_sluice.column_obligation o WHERE o.relid = shadow AND o.attnum > 0)
       AND EXISTS (SELECT FROM pg_sluice.relation r JOIN pg_sluice.data_file f USING (table_id)
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

-- Meet all obligations of a (sub)transaction that will be undone.
CREATE FUNCTION pg_sluice.vouch_all() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('vouch_all');
    DELETE FROM pg_sluice.obligation;
    DELETE FROM pg_sluice.index_obligation;
END $$;


-- Refuse columns whose values were not computed, except dropped ones.
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


-- At COMMIT, with the table locked: refuse what was not checked. A dropped constraint demands nothing, nor does one of
-- a table without rows.
CREATE FUNCTION pg_sluice.refuse_unmet() RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unmet name;
BEGIN
    -- Most transactions have none, and are asked at each COMMIT.
    IF NOT EXISTS (SELECT FROM pg_sluice.obligation) AND NOT EXISTS (SELECT FROM pg_sluice.index_obligation)
        AND NOT EXISTS (SELECT FROM pg_sluice.column_obligation) THEN
        RETURN;
    END IF;
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
