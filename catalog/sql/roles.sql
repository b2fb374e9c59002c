-- The roles of Sluice's own. The first two cannot log in; nobody but the third is a member of one of the first three.
--
--   sluice_metadata   owns the tables of pg_sluice and pg_ducklake, and the functions that read and write them for clients
--   sluice_shadow     owns the views through which gateways read shadows: it is asked whether they may, and runs nothing
--   sluice_gateway    is what gateways log in as: it may what sluice_metadata may, vacuum tables, and end sessions
--   sluice_reader     is what readers of the lake's format (DuckDB) log in as: it may read the tables of pg_ducklake, and no more
DO $$
DECLARE
    name name;
BEGIN
    FOREACH name IN ARRAY ARRAY['sluice_metadata', 'sluice_shadow', 'sluice_gateway', 'sluice_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I', name);
        ELSIF EXISTS (SELECT FROM pg_roles WHERE rolname = name
                      AND (rolsuper OR rolcreaterole OR (rolcanlogin AND name NOT IN ('sluice_gateway', 'sluice_reader'))))
            OR EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid
                       WHERE r.rolname = name AND (name <> 'sluice_reader' OR m.admin_option)
                           AND m.member::regrole::text <> 'sluice_gateway') THEN
            RAISE EXCEPTION 'the role "%" is there already, and is not Sluice''s own', name;
        END IF;
    END LOOP;
END $$;
-- To see whose backend is whose; to read and empty shadows, whoever their owners are and whatever their policies say.
GRANT pg_read_all_stats TO sluice_metadata;
GRANT SET ON PARAMETER session_replication_role TO sluice_metadata;
GRANT pg_read_all_data, pg_write_all_data TO sluice_shadow;
ALTER ROLE sluice_shadow BYPASSRLS;
ALTER ROLE sluice_gateway LOGIN;
GRANT sluice_metadata, pg_maintain, pg_signal_backend, pg_use_reserved_connections TO sluice_gateway;
-- What the owner of a database sets for it (search_path above all, and with it the operators that a query means) is not
-- what a reader's queries go by.
ALTER ROLE sluice_reader LOGIN;
ALTER ROLE sluice_reader SET search_path = pg_catalog, pg_temp;
ALTER ROLE sluice_reader SET default_transaction_read_only = on;
ALTER ROLE sluice_reader SET row_security = on;
