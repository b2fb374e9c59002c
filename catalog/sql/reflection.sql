-- PostgreSQL's own views of its objects (information_schema, pg_tables, pg_indexes, pg_stat_all_tables, …) leave out
-- the gateway's schemas, as if these were in another database. A view whose columns name schemas is wrapped, and keeps
-- its columns, privileges and options. PostgreSQL's tables, such as pg_class, cannot be wrapped.
DO $$
DECLARE
    v record;
BEGIN
    FOR v IN
        SELECT format('%I.%I', n.nspname, c.relname) AS name, rtrim(pg_get_viewdef(c.oid), ';') AS query,
            coalesce('WITH (' || array_to_string(c.reloptions, ', ') || ')', '') AS options,
            string_agg(format('(v.%I::text IN (''pg_sluice'', ''pg_ducklake'')) IS NOT TRUE', a.attname), ' AND '
                       ORDER BY a.attnum) AS condition
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attname ~ '(^|_)schema(_name)?$|^schemaname$'
        WHERE c.relkind = 'v' AND n.nspname IN ('pg_catalog', 'information_schema')
        GROUP BY c.oid, n.nspname, c.relname ORDER BY c.oid
    LOOP
        EXECUTE format('CREATE OR REPLACE VIEW %s %s AS SELECT v.* FROM (%s) v WHERE %s',
                       v.name, v.options, v.query, v.condition);
    END LOOP;
END $$;

-- Each shadow has triggers of Sluice's own. pg_tables does not count them; pg_class.relhastriggers does.
DO $$
DECLARE
    query text := rtrim(pg_get_viewdef('pg_catalog.pg_tables'::regclass), ';');
    counted text := replace(query, 'c.relhastriggers AS hastriggers', format(
        'c.relhastriggers AND (NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND t.tgfoid = %1$s::oid) '
        'OR EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND t.tgfoid <> %1$s::oid)) AS hastriggers',
        'pg_sluice.refuse_shadow_change'::regproc::oid));
BEGIN
    ASSERT counted <> query, 'pg_tables has no relhastriggers';
    EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_tables AS ' || counted;
END $$;

-- Counts of rows of lake tables are those of the lake: PostgreSQL would count rows that pass through shadows.
DO $$
DECLARE
    listed text;
BEGIN
    SELECT string_agg(CASE a.attname
        WHEN 'n_tup_ins' THEN 'coalesce(r.inserted, v.n_tup_ins) AS n_tup_ins'
        WHEN 'n_tup_upd' THEN 'coalesce(r.updated, v.n_tup_upd) AS n_tup_upd'
        WHEN 'n_tup_del' THEN 'coalesce(r.deleted, v.n_tup_del) AS n_tup_del'
        WHEN 'n_live_tup' THEN 'CASE WHEN r.relid IS NULL THEN v.n_live_tup ELSE greatest(0, coalesce((
            SELECT sum(f.record_count) FROM pg_sluice.data_file f
            WHERE f.table_id = r.table_id AND f.end_snapshot IS NULL), 0) - coalesce((
            SELECT sum(f.delete_count) FROM pg_sluice.delete_file f
            WHERE f.table_id = r.table_id AND f.end_snapshot IS NULL), 0))::bigint END AS n_live_tup'
        WHEN 'n_dead_tup' THEN 'CASE WHEN r.relid IS NULL THEN v.n_dead_tup ELSE coalesce((
            SELECT sum(f.delete_count) FROM pg_sluice.delete_file f
            WHERE f.table_id = r.table_id AND f.end_snapshot IS NULL), 0)::bigint END AS n_dead_tup'
        ELSE format('v.%I', a.attname) END, ', ' ORDER BY a.attnum) INTO listed
        FROM pg_attribute a WHERE a.attrelid = 'pg_catalog.pg_stat_all_tables'::regclass AND a.attnum > 0;
    EXECUTE format('CREATE OR REPLACE VIEW pg_catalog.pg_stat_all_tables AS SELECT %s FROM (%s) v '
                   'LEFT JOIN pg_sluice.relation r ON r.relid = v.relid',
                   listed, rtrim(pg_get_viewdef('pg_catalog.pg_stat_all_tables'::regclass), ';'));
    -- Clients may not end the gateways' own connections, which do not count as clients'. The gateway's statements at a
    -- client's backend have the client's text in a comment (gateway/backend/activity.py).
    SELECT string_agg(CASE a.attname
        WHEN 'query' THEN $column$CASE WHEN s.shown = '' THEN v.query ELSE replace(regexp_replace(
            substr(s.shown, strpos(s.shown, ' ') + 1), E'\x01(?!\x02)', '', 'g'), E'\x01\x02', E'\x01')
            END AS query$column$
        WHEN 'query_start' THEN $column$CASE WHEN s.shown = '' THEN v.query_start ELSE least(v.query_start,
            to_timestamp(split_part(s.shown, ' ', 1)::double precision)) END AS query_start$column$
        ELSE format('v.%I', a.attname) END, ', ' ORDER BY a.attnum) INTO listed
        FROM pg_attribute a WHERE a.attrelid = 'pg_catalog.pg_stat_activity'::regclass AND a.attnum > 0;
    EXECUTE format('CREATE OR REPLACE VIEW pg_catalog.pg_stat_activity AS SELECT %s FROM (%s) v '
                   'CROSS JOIN LATERAL (SELECT coalesce(split_part('
                   'substring(v.query FROM %L), '' */'', 1), '''')) s (shown) '
                   'WHERE (v.application_name = ''sluice gateway'' AND v.usesysid IN ('
                   'SELECT a.oid FROM pg_authid a WHERE a.rolsuper OR a.rolname = ''sluice_gateway'')) IS NOT TRUE '
                   'OR pg_has_role(current_user, ''sluice_metadata'', ''MEMBER'')',
                   listed, rtrim(pg_get_viewdef('pg_catalog.pg_stat_activity'::regclass), ';'),
                   E'^(?:/[*]sluice:\\w+(?: \\d+)?[*]/)?/[*]sluice:as (\\d{10}[.]\\d{6} .*)$');
END $$;
