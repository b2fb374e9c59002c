-- From here on, DDL is that of clients. This file is the last: Sluice's own objects are not of the lake.

CREATE EVENT TRIGGER pg_sluice_ddl ON ddl_command_end EXECUTE FUNCTION pg_sluice.on_ddl();
CREATE EVENT TRIGGER pg_sluice_drop ON sql_drop EXECUTE FUNCTION pg_sluice.on_drop();
CREATE EVENT TRIGGER pg_sluice_rewrite ON table_rewrite EXECUTE FUNCTION pg_sluice.on_rewrite();
CREATE EVENT TRIGGER pg_sluice_related ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER DOMAIN', 'CREATE VIEW', 'ALTER VIEW')
    EXECUTE FUNCTION pg_sluice.on_related();
CREATE EVENT TRIGGER pg_sluice_before ON ddl_command_start EXECUTE FUNCTION pg_sluice.before_ddl();
CREATE EVENT TRIGGER pg_sluice_after ON ddl_command_end EXECUTE FUNCTION pg_sluice.after_ddl();
CREATE EVENT TRIGGER pg_sluice_as_of ON ddl_command_start EXECUTE FUNCTION pg_sluice.refuse_in_the_past();
-- Members of an extension are left out of pg_dump.
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_ddl;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_drop;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_rewrite;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_related;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_as_of;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_before;
ALTER EXTENSION plpgsql ADD EVENT TRIGGER pg_sluice_after;
