-- The isolation level of the client's transaction, if its backend has another one (gateway/transaction/transaction.py):
-- a query of the setting gets the client's. The gateway keeps the level in a setting of its own, and the name of that
-- in another, both until the transaction ends. A client could neither learn anything from them nor gain by changing
-- them: no other setting is returned in place of the level, with any rights.
CREATE FUNCTION pg_sluice.backend_setting(text) RETURNS text LANGUAGE internal STABLE STRICT PARALLEL SAFE
AS 'show_config_by_name';
CREATE FUNCTION pg_sluice.backend_setting(text, boolean) RETURNS text LANGUAGE internal STABLE STRICT PARALLEL SAFE
AS 'show_config_by_name_missing_ok';

-- The role as which the client's statements run, asked within a function that has other rights.
CREATE FUNCTION pg_sluice.client_role() RETURNS name LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(nullif(pg_sluice.backend_setting('role'), 'none'), session_user)
$$;

-- They are inlined into the queries that call them, so errors have no other context than PostgreSQL's. This requires
-- functions that are not STRICT and use their argument once.
CREATE OR REPLACE FUNCTION pg_catalog.current_setting(text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_sluice.backend_setting(pg_catalog.regexp_replace($1, '^transaction_isolation$', coalesce(
    pg_catalog.substring(pg_sluice.backend_setting('sluice.isolation_setting', true),
        '^(?:sluice[.]isolation|default_transaction_isolation)$'), 'transaction_isolation'), 'i'));
CREATE OR REPLACE FUNCTION pg_catalog.current_setting(text, boolean) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_sluice.backend_setting(pg_catalog.regexp_replace($1, '^transaction_isolation$', coalesce(
    pg_catalog.substring(pg_sluice.backend_setting('sluice.isolation_setting', true),
        '^(?:sluice[.]isolation|default_transaction_isolation)$'), 'transaction_isolation'), 'i'), $2);

DO $$
DECLARE
    columns text := (SELECT string_agg(CASE attname WHEN 'setting' THEN
            'CASE v.name WHEN ''transaction_isolation'' THEN pg_catalog.current_setting(v.name) ELSE v.setting END AS setting'
            ELSE format('v.%I', attname) END, ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = 'pg_catalog.pg_settings'::regclass AND attnum > 0);
BEGIN
    EXECUTE format('CREATE OR REPLACE VIEW pg_catalog.pg_settings AS SELECT %s FROM (%s) v', columns,
                   rtrim(pg_get_viewdef('pg_catalog.pg_settings'::regclass), ';'));
END $$;
