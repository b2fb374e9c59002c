-- The roles of Sluice's own. The first two cannot log in. Only the third is a member of any of the first three.
--
--   sluice_metadata   owns the tables of pg_sluice and pg_ducklake, and the functions that read and write them for
-- clients
--   sluice_shadow     owns the views through which gateways read shadows: its rights are checked, and it runs nothing
--   sluice_gateway    is the login of gateways: it may do as sluice_metadata, vacuum tables of any schema, and end
-- sessions
--   sluice_reader     is the login of readers of the lake's format (DuckDB): it may only read the tables of pg_ducklake
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
-- To see the users of backends; to read and empty shadows, whatever their owners and policies.
GRANT pg_read_all_stats TO sluice_metadata;
GRANT SET ON PARAMETER session_replication_role TO sluice_metadata;
GRANT pg_read_all_data, pg_write_all_data TO sluice_shadow;
ALTER ROLE sluice_shadow BYPASSRLS;
ALTER ROLE sluice_gateway LOGIN;
-- VACUUM finds a table by its name alone, which takes USAGE on the client's schema: pg_read_all_data has it on all.
GRANT sluice_metadata, pg_maintain, pg_read_all_data, pg_signal_backend, pg_use_reserved_connections TO sluice_gateway;
-- The database owner's settings (search_path above all, and with it the meaning of operators) do not apply to a
-- reader's queries.
ALTER ROLE sluice_reader LOGIN;
ALTER ROLE sluice_reader SET search_path = pg_catalog, pg_temp;
ALTER ROLE sluice_reader SET default_transaction_read_only = on;
ALTER ROLE sluice_reader SET row_security = on;
