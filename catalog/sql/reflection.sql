-- PostgreSQL's own views of what there is (information_schema, pg_tables, pg_indexes, pg_stat_all_tables, …) leave out the
-- gateway's schemas, as they would if these were in another database. A view is wrapped whose columns name schemas: it has
-- the columns, privileges and options that it had. Its tables, such as pg_class, PostgreSQL lets nobody wrap.
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
