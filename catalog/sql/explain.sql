-- EXPLAIN of a schema change: the change is executed in a savepoint, examined, and undone.

-- The effect of changes since `mark` (a dirty_id) on tables, and their demands on existing rows.
CREATE FUNCTION pg_sluice.explained(mark bigint) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept text[] := string_to_array(pg_sluice.backend_setting('sluice.own_mark', true), ' ');
BEGIN
    PERFORM pg_sluice.authorize('explained');
    IF kept[1] = mark::text THEN
        mark := kept[2];  -- what was carried out again (keep_own_mark) had been there before
    END IF;
    RETURN jsonb_build_object(
        'shapes', (SELECT coalesce(jsonb_object_agg(d.relid::bigint, pg_sluice.shape(d.relid)), '{}')
                   FROM (SELECT DISTINCT relid FROM pg_sluice.dirty WHERE dirty_id > mark AND relid <> 0) d),
        'obligations', pg_sluice.obligations(),
        'elements', pg_sluice.elements(),
        'columns', (SELECT coalesce(jsonb_agg(jsonb_build_object('relid', o.relid::bigint, 'name', a.attname)), '[]')
                    FROM pg_sluice.column_obligation o JOIN pg_attribute a
                        ON a.attrelid = o.relid AND a.attnum = o.attnum AND NOT a.attisdropped));
END $$;

-- The steps of tables from their present shapes to others (by OID).
CREATE FUNCTION pg_sluice.explained_steps(shapes jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('explained_steps');
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                'relid', s.relid, 'schema', coalesce(s.old, s.new) ->> 'schema', 'table', coalesce(s.old, s.new) ->> 'name',
                'kind', s.kind, 'subject', s.subject, 'detail', s.detail) ORDER BY s.relid, s.place), '[]')
        FROM (
            SELECT c.relid, c.old, c.new, t.kind, t.subject, t.detail, t.place
            FROM (SELECT key::bigint AS relid, pg_sluice.shape(key::oid) AS old, nullif(value, 'null') AS new
                  FROM jsonb_each(shapes)) c
            CROSS JOIN LATERAL (
                SELECT 'create table', c.new ->> 'name', '{}'::jsonb, 0 WHERE c.old IS NULL AND c.new IS NOT NULL
                UNION ALL SELECT 'drop table', c.old ->> 'name', '{}', 0 WHERE c.old IS NOT NULL AND c.new IS NULL
                UNION ALL SELECT b.kind, b.subject, b.detail, b.place
                    FROM pg_sluice.steps_between(c.old, c.new) WITH ORDINALITY b (kind, subject, detail, place)
                    WHERE c.old IS NOT NULL AND c.new IS NOT NULL) t (kind, subject, detail, place)) s);
END $$;
