-- The schema log: every step of a lake table's schema, in the order of commits, and the questions by which a
-- transaction learns whether its tables have changed (catalog/schema/compatibility.py).
--
--   publish() ──► record_steps(): the table's shape before and now ──► schema_step, relation.schema_version
--
-- A step's ID is taken under the lock on `head`, so IDs ascend as commits do: the greatest visible one says how far the
-- log is known, and no smaller one appears later.

-- compatibility.py's kinds of change, as rows: an unknown kind cannot be recorded.
CREATE TABLE pg_sluice.change_kind (kind text PRIMARY KEY);

CREATE SEQUENCE pg_sluice.step_id;
CREATE TABLE pg_sluice.schema_step (
    step_id bigint PRIMARY KEY DEFAULT pg_sluice.take_numbers('pg_sluice.step_id'),
    table_id bigint NOT NULL,           -- or, below 0, a view's OID
    snapshot_id bigint NOT NULL,
    kind text NOT NULL REFERENCES pg_sluice.change_kind,
    subject text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX schema_step_table ON pg_sluice.schema_step (table_id, step_id);

-- The shape of each table at its last publication.
CREATE TABLE pg_sluice.published_shape (relid oid PRIMARY KEY, table_id bigint NOT NULL, shape jsonb NOT NULL);

-- The last row of a transaction here marks its own changes.
CREATE SEQUENCE pg_sluice.dirty_id;
ALTER TABLE pg_sluice.dirty ADD COLUMN dirty_id bigint NOT NULL DEFAULT pg_sluice.take_numbers('pg_sluice.dirty_id');
-- A block of a framework's migrations has thousands of rows here, and asks about them with each statement.
CREATE INDEX ON pg_sluice.dirty (dirty_id);
CREATE INDEX ON pg_sluice.dirty (relid);


-- A table as transactions depend on it: names, column IDs, constraints and UNIQUE indexes. NULL if it does not exist.
-- Expressions are node texts, in which objects stand by OID: renaming a function that a default calls does not change
-- it.
CREATE FUNCTION pg_sluice.shape(shadow oid) RETURNS jsonb LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT jsonb_build_object(
        'schema', n.nspname, 'name', c.relname,
        'columns', coalesce((SELECT jsonb_object_agg(l.column_id, jsonb_build_object(
                'name', a.attname, 'attnum', a.attnum, 'computed', l.computed,
                'type', jsonb_build_array(a.atttypid::bigint, pg_sluice.kept_typmod(a)), 'labels', (
                    SELECT jsonb_agg(e.value -> 1 ORDER BY e.ordinality)
                    FROM jsonb_array_elements(pg_sluice.labels((pg_sluice.kept_type(a.atttypid, -1)).type_oid))
                        WITH ORDINALITY e),
                'nullable', NOT pg_sluice.is_not_null(a),
                'not_null', (SELECT k.oid::bigint FROM pg_constraint k WHERE k.conrelid = shadow AND k.contype = 'n'
                             AND k.conkey[1] = a.attnum AND k.convalidated),
                'default', (SELECT regexp_replace(d.adbin::text, E':location -?\\d+', '', 'g') FROM pg_attrdef d
                            WHERE d.adrelid = shadow AND d.adnum = a.attnum) || a.attgenerated::text,
                'default_text', (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
                                 WHERE d.adrelid = shadow AND d.adnum = a.attnum) || a.attgenerated::text,
                'identity', nullif(a.attidentity, '')))
            FROM pg_attribute a JOIN pg_sluice.attribute l ON l.relid = a.attrelid AND l.attnum = a.attnum
            WHERE a.attrelid = shadow AND NOT a.attisdropped), '{}'),
        'constraints', coalesce((SELECT jsonb_object_agg((o.k).oid::bigint, jsonb_build_object(
                'name', (o.k).conname, 'valid', (o.k).convalidated, 'comparison', pg_sluice.comparison(o.k),
                'not_null', CASE WHEN (o.k).contype = 'n' THEN (o.k).conkey[1] END))
            FROM (  -- one index each
                SELECT k FROM pg_constraint k WHERE k.conrelid = shadow
                    AND k.contype IN ('c', 'p', 'u', 'f', 'x', CASE WHEN NOT k.convalidated THEN 'n' END)
                UNION ALL SELECT k FROM pg_constraint k WHERE k.contypid IN (
                    SELECT pg_sluice.domains_of(a.atttypid) FROM pg_attribute a
                    WHERE a.attrelid = shadow AND a.atttypid >= 16384 AND NOT a.attisdropped)) o
            WHERE NOT pg_sluice.is_on_its_way(shadow, (o.k).conname)), '{}'),
        'indexes', coalesce((SELECT jsonb_object_agg(i.indexrelid::bigint, jsonb_build_object(
                'name', x.relname, 'keys', i.indkey::text, 'nulls', i.indnullsnotdistinct,
                'expressions', regexp_replace(i.indexprs::text, E':location -?\\d+', '', 'g'),
                'predicate', regexp_replace(i.indpred::text, E':location -?\\d+', '', 'g')))
            FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
            WHERE i.indrelid = shadow AND i.indisunique AND NOT pg_sluice.is_on_its_way(shadow, x.relname)
                AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = shadow AND k.conindid = i.indexrelid
                                AND k.contype IN ('p', 'u', 'x'))), '{}'),
        'security', jsonb_build_array(c.relrowsecurity, c.relforcerowsecurity, (
            SELECT jsonb_agg(jsonb_build_array(p.polcmd, p.polpermissive, p.polroles::text,
                                               regexp_replace(p.polqual::text, E':location -?\\d+', '', 'g'),
                                               regexp_replace(p.polwithcheck::text, E':location -?\\d+', '', 'g'))
                             ORDER BY p.polname)
            FROM pg_policy p WHERE p.polrelid = shadow)),
        'triggers', pg_sluice.trigger_shape(shadow))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = shadow AND EXISTS (SELECT FROM pg_sluice.relation r WHERE r.relid = shadow)
$$;


-- The text of a CHECK that only compares, with PostgreSQL's own operators: a value of a wider type satisfies it as
-- before. NULL for any other constraint.
CREATE FUNCTION pg_sluice.comparison(k pg_constraint) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN k.contype = 'c' AND k.convalidated AND k.conenforced AND NOT EXISTS (
            SELECT FROM regexp_matches(k.conbin::text, E'\\{([A-Z_]+)', 'g') n
            WHERE n[1] NOT IN ('OPEXPR', 'VAR', 'CONST', 'BOOLEXPR', 'NULLTEST', 'SCALARARRAYOPEXPR'))
        AND k.conbin::text !~ ':inputcollid [1-9]'  -- a column may get another collation with its type
        AND NOT EXISTS (
            SELECT FROM regexp_matches(k.conbin::text, E':opno (\\d+)', 'g') n LEFT JOIN pg_operator o ON o.oid = n[1]::oid
            WHERE o.oid IS NULL OR o.oid >= 16384 OR o.oprname NOT IN ('=', '<>', '<', '<=', '>', '>='))
        THEN pg_get_constraintdef(k.oid) END
$$;


-- Whether a constraint or index is added in the states of states.py, and is not PUBLIC yet.
CREATE FUNCTION pg_sluice.is_on_its_way(shadow oid, element name) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.element e WHERE e.relid = shadow AND e.name = element
                   AND e.origin = 'absent' AND e.state NOT IN ('public', 'absent'))
$$;


-- Whether no row has a NULL there. A constraint that is not validated is for new rows only.
CREATE FUNCTION pg_sluice.is_not_null(a pg_attribute) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT a.attnotnull THEN
        RETURN false;
    END IF;
    RETURN NOT EXISTS (
        SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n' AND k.conkey[1] = a.attnum
        AND NOT k.convalidated);
END $$;


-- The steps from one shape of a table to another: first removals, then changes, then additions.
CREATE FUNCTION pg_sluice.steps_between(before jsonb, now jsonb)
RETURNS TABLE (kind text, subject text, detail jsonb) LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH col AS (
        SELECT key::bigint AS id, b.value AS old, n.value AS new
        FROM jsonb_each(before -> 'columns') b FULL JOIN jsonb_each(now -> 'columns') n USING (key)
    ), con AS (
        -- The column alone tells of a validated NOT NULL.
        SELECT key::bigint AS id, b.value AS old, n.value AS new, n.value IS NULL AND EXISTS (
            SELECT FROM col WHERE col.new ->> 'not_null' = key) AS published
        FROM jsonb_each(before -> 'constraints') b FULL JOIN jsonb_each(now -> 'constraints') n USING (key)
    ), anew AS (
        -- A constraint that PostgreSQL has rebuilt for a column's wider type existed before, and still exists.
        SELECT o.id AS old_id, n.id AS new_id FROM con o JOIN con n ON o.new IS NULL AND n.old IS NULL
            AND o.old ->> 'name' = n.new ->> 'name' AND o.old ->> 'comparison' = n.new ->> 'comparison'
    ), step (place, id, kind, subject, detail) AS (
        SELECT 1, 0, 'rename table', before ->> 'name', '{}'::jsonb
            WHERE before ->> 'name' <> now ->> 'name'
        UNION ALL SELECT 2, 0, 'move table', before ->> 'name', '{}'
            WHERE before ->> 'schema' <> now ->> 'schema'
        UNION ALL SELECT 3, id, 'drop constraint', old ->> 'name', '{}' FROM con
            WHERE new IS NULL AND NOT published AND id NOT IN (SELECT old_id FROM anew)
        UNION ALL SELECT 4, id, CASE WHEN (SELECT true FROM col n WHERE n.old IS NULL
                AND n.new -> 'attnum' = col.old -> 'attnum') THEN 'rewrite column' ELSE 'drop column' END,
                old ->> 'name', '{}' FROM col WHERE new IS NULL
        UNION ALL SELECT 5, id, 'rename column', old ->> 'name', '{}' FROM col
            WHERE old ->> 'name' <> new ->> 'name'
        UNION ALL SELECT 6, id, 'change type', old ->> 'name',
                jsonb_build_object('from', old -> 'type', 'to', new -> 'type') FROM col
            WHERE old -> 'type' <> new -> 'type'
        UNION ALL SELECT 6, id, 'add label', old ->> 'name', '{}' FROM col
            WHERE old -> 'type' = new -> 'type' AND old -> 'labels' <> new -> 'labels'
        UNION ALL SELECT 7, id, CASE WHEN (new ->> 'nullable')::boolean THEN 'drop not null' ELSE 'set not null' END,
                old ->> 'name', '{}' FROM col
            WHERE old -> 'nullable' <> new -> 'nullable'
                AND NOT EXISTS (SELECT FROM con WHERE published AND col.new ->> 'not_null' = con.id::text)
        UNION ALL SELECT 8, id, CASE WHEN had.value IS NULL THEN 'set default' WHEN has.value IS NULL THEN 'drop default'
                                ELSE 'change default' END, old ->> 'name', '{}'
            -- A default that differs only by the wider type's cast is the same default.
            FROM col CROSS JOIN LATERAL (
                VALUES (CASE WHEN old -> 'type' = new -> 'type' THEN 'default' ELSE 'default_text' END)) compared (field)
            CROSS JOIN LATERAL (VALUES (coalesce(old ->> 'identity', old ->> field))) had (value)
            CROSS JOIN LATERAL (VALUES (coalesce(new ->> 'identity', new ->> field))) has (value)
            WHERE old IS NOT NULL AND new IS NOT NULL AND had.value IS DISTINCT FROM has.value
        UNION ALL SELECT 9, id, CASE WHEN (new ->> 'computed')::boolean THEN 'add computed column'
                WHEN (new ->> 'nullable')::boolean OR new ->> 'default' IS NOT NULL
                OR new ->> 'identity' IS NOT NULL THEN 'add column' ELSE 'add required column' END,
                new ->> 'name', '{}' FROM col WHERE old IS NULL
            AND NOT EXISTS (SELECT FROM col o WHERE o.new IS NULL AND o.old -> 'attnum' = col.new -> 'attnum')
        UNION ALL SELECT 10, id, 'rename constraint', old ->> 'name', '{}' FROM con
            WHERE old ->> 'name' <> new ->> 'name'
        UNION ALL SELECT 11, id, CASE WHEN (new ->> 'valid')::boolean THEN 'add constraint' ELSE 'check constraint' END,
                new ->> 'name', '{}' FROM con WHERE old IS NULL AND id NOT IN (SELECT new_id FROM anew)
        UNION ALL SELECT 12, id, 'publish constraint', coalesce(new, old) ->> 'name', '{}' FROM con
            WHERE published OR NOT (old ->> 'valid')::boolean AND (new ->> 'valid')::boolean
        -- A rebuilt index existed before.
        UNION ALL SELECT 13, n.key::bigint, 'add index', n.value ->> 'name', '{}' FROM jsonb_each(now -> 'indexes') n
            WHERE NOT EXISTS (SELECT FROM jsonb_each(before -> 'indexes') b WHERE b.key = n.key OR b.value = n.value)
        UNION ALL SELECT 14, 0, 'change policies', now ->> 'name', '{}' WHERE before -> 'security' <> now -> 'security'
        UNION ALL SELECT 15, 0, 'change triggers', now ->> 'name', '{}' WHERE before -> 'triggers' <> now -> 'triggers'
    )
    SELECT kind, subject, detail FROM step ORDER BY place, id
$$;


-- Record the difference between a table's published shape and its present one.
CREATE FUNCTION pg_sluice.record_steps(snapshot bigint, shadow oid) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before pg_sluice.published_shape; now jsonb := pg_sluice.shape(shadow); id bigint; steps bigint;
BEGIN
    PERFORM pg_sluice.say('schema');  -- heard when this is committed (catalog/schema/schema_notifications.py)
    SELECT * INTO before FROM pg_sluice.published_shape WHERE relid = shadow;
    SELECT table_id INTO id FROM pg_sluice.relation WHERE relid = shadow;
    IF now IS NULL AND before.relid IS NULL THEN
        INSERT INTO pg_sluice.schema_step (table_id, snapshot_id, kind, subject)
            SELECT -v.oid::bigint, snapshot, 'replace view', v.relname FROM pg_class v
            WHERE v.oid = shadow AND v.relkind = 'v';
        RETURN;  -- or made and dropped in this transaction
    ELSIF now IS NULL THEN
        INSERT INTO pg_sluice.schema_step (table_id, snapshot_id, kind, subject)
            VALUES (before.table_id, snapshot, 'drop table', before.shape ->> 'name');
        DELETE FROM pg_sluice.published_shape WHERE relid = shadow;
        RETURN;
    ELSIF before.relid IS NULL THEN
        INSERT INTO pg_sluice.schema_step (table_id, snapshot_id, kind, subject)
            VALUES (id, snapshot, 'create table', now ->> 'name');
        INSERT INTO pg_sluice.published_shape VALUES (shadow, id, now);
    ELSE
        INSERT INTO pg_sluice.schema_step (table_id, snapshot_id, kind, subject, detail)
            SELECT id, snapshot, s.kind, s.subject, s.detail FROM pg_sluice.steps_between(before.shape, now) s
            WHERE NOT pg_sluice.is_step_of_element(shadow, s.kind, s.subject);
        GET DIAGNOSTICS steps = ROW_COUNT;
        steps := steps + pg_sluice.record_element_steps(snapshot, shadow, id);
        IF steps = 0 THEN
            UPDATE pg_sluice.published_shape p SET shape = now WHERE p.relid = shadow AND p.shape <> now;
            RETURN;
        END IF;
        UPDATE pg_sluice.published_shape SET shape = now WHERE relid = shadow;
    END IF;
    UPDATE pg_sluice.relation SET schema_version = (
        SELECT max(step_id) FROM pg_sluice.schema_step WHERE table_id = id) WHERE relid = shadow;
END $$;


-- Changes outside of a table's own name: renaming a constraint changes its table, or its domain's tables; a replaced
-- view is another one for its readers.
CREATE FUNCTION pg_sluice.on_related() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO pg_sluice.dirty (relid)
        SELECT v.oid FROM pg_event_trigger_ddl_commands() c
        JOIN pg_class v ON c.classid = 'pg_class'::regclass AND v.oid = c.objid
        WHERE v.relkind = 'v' AND v.relpersistence <> 't' AND v.relnamespace NOT IN ('pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace);
    INSERT INTO pg_sluice.dirty (relid)
        SELECT k.conrelid FROM pg_event_trigger_ddl_commands() c
        JOIN pg_constraint k ON c.classid = 'pg_constraint'::regclass AND k.oid = c.objid
        JOIN pg_sluice.relation r ON r.relid = k.conrelid;
    INSERT INTO pg_sluice.dirty (relid)
        SELECT t FROM pg_event_trigger_ddl_commands() c
        JOIN pg_constraint k ON c.classid = 'pg_constraint'::regclass AND k.oid = c.objid AND k.contypid <> 0
        CROSS JOIN LATERAL pg_sluice.tables_of_type(k.contypid) t;
END $$;


-- The last known step of the log, and the last schema change of the calling transaction.
CREATE FUNCTION pg_sluice.schema_mark() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own bigint := coalesce((SELECT max(dirty_id) FROM pg_sluice.dirty), 0);
    kept text[] := string_to_array(pg_sluice.backend_setting('sluice.own_mark', true), ' ');
BEGIN
    RETURN coalesce((SELECT max(step_id) FROM pg_sluice.schema_step), 0) || ' '
        || CASE WHEN kept[2] = own::text THEN kept[1] ELSE own::text END;
END $$;

-- The same, and which table a shadow belongs to, in which version of its schema.
CREATE FUNCTION pg_sluice.schema_mark_of(shadow oid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pg_sluice.schema_mark() || ' ' || coalesce((
        SELECT r.table_id || ' ' || r.schema_version FROM pg_sluice.relation r WHERE r.relid = shadow), '');
END $$;

-- The transaction's present changes count as those at that mark: they were executed again.
CREATE FUNCTION pg_sluice.keep_own_mark(mark bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('sluice.own_mark', mark || ' ' || (SELECT max(dirty_id) FROM pg_sluice.dirty), true);
END $$;


-- The schema versions of these tables. They stay valid as long as the (sub)transaction that asked lives, because a
-- change of a shadow locks out all others. No row for a relation that is no table any more.
CREATE FUNCTION pg_sluice.hold_schema(relids oid[]) RETURNS TABLE (table_id bigint, schema_version bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held oid;
BEGIN
    PERFORM pg_sluice.authorize('hold_schema');
    FOREACH held IN ARRAY relids LOOP
        IF EXISTS (SELECT FROM pg_class WHERE oid = held) THEN
            BEGIN
                PERFORM pg_sluice.lock_relation(held, 'ACCESS SHARE', false);
            EXCEPTION WHEN undefined_table OR invalid_schema_name THEN
                NULL;  -- it went, or goes by another name, since the line above: the version tells
            END;
        END IF;
    END LOOP;
    RETURN QUERY SELECT r.table_id, r.schema_version FROM pg_sluice.relation r WHERE r.relid = ANY (relids);
END $$;


-- Everything that happened to the schemas of these tables since the versions that `enlisted` maps their IDs to, in
-- order.
CREATE FUNCTION pg_sluice.steps_since(enlisted jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.step_id), '[]')
    FROM jsonb_each_text(enlisted) e JOIN pg_sluice.schema_step s
        ON s.table_id = e.key::bigint AND s.step_id > e.value::bigint
$$;


-- Before COMMIT: `steps_since`, so that it stays true until COMMIT. Locks what publish() and lock_checked() will lock
-- (`checked`: the relations whose keys were looked up) and what the transaction only read, all in one order.
CREATE FUNCTION pg_sluice.hold_steps_since(enlisted jsonb, checked oid[]) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    PERFORM pg_sluice.authorize('hold_steps_since', 'ready_to_commit');
    FOR r IN SELECT u.relid, bool_or(u.changed) AS changed, bool_or(u.looked) AS looked
             FROM (SELECT s.relid, true, false FROM pg_sluice.staged s
                   UNION SELECT d.relid, true, false FROM pg_sluice.dirty d
                   UNION SELECT c.relid, false, true FROM unnest(checked) c (relid)
                   UNION SELECT k.relid, false, false FROM pg_sluice.relation k
                         WHERE k.table_id IN (SELECT key::bigint FROM jsonb_each(enlisted))) u (relid, changed, looked)
             GROUP BY u.relid ORDER BY u.relid LOOP
        PERFORM pg_sluice.lock_for_commit(
            r.relid, CASE WHEN r.changed THEN 'UPDATE' WHEN r.looked THEN 'SHARE' ELSE 'KEY SHARE' END);
    END LOOP;
    RETURN pg_sluice.steps_since(enlisted);
END $$;
