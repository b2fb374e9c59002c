-- Autovacuum works on PostgreSQL's own catalogs and on the tables of Sluice: schema changes leave dead rows there, and
-- every lookup of names and types would read past them. It leaves out the shadows, whose statistics are those of the
-- lake: the embedded server's thresholds are out of reach (catalog/postgres/embedded.py), and these tables have
-- PostgreSQL's own.
DO $$
DECLARE
    names regclass[] := ARRAY(SELECT c.oid FROM pg_class c WHERE c.relkind = 'r'
        AND c.relnamespace IN ('pg_catalog'::regnamespace, 'pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace));
    name regclass;
BEGIN
    FOREACH name IN ARRAY names LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0.2, '
                       'autovacuum_vacuum_insert_threshold = 1000, autovacuum_analyze_threshold = 50)', name);
    END LOOP;
END $$;
