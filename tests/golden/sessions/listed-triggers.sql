-- pg_tables and information_schema list triggers of the client's alone.
CREATE TABLE plain (a integer);
CREATE TABLE keyed (a integer PRIMARY KEY, b integer UNIQUE);
CREATE TABLE child (a integer PRIMARY KEY, k integer REFERENCES keyed);
CREATE TABLE triggered (a integer);
CREATE TEMP TABLE temporary (a integer);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER t BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE CONSTRAINT TRIGGER ct AFTER INSERT ON triggered DEFERRABLE FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TRIGGER t BEFORE INSERT ON temporary FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT tablename, hasindexes, hasrules, hastriggers, rowsecurity FROM pg_tables
WHERE tablename IN ('plain', 'keyed', 'child', 'triggered', 'temporary') ORDER BY 1;
SELECT event_object_table, trigger_name, event_manipulation, action_timing, action_statement
FROM information_schema.triggers ORDER BY 1, 2, 3;
SELECT tgrelid::regclass, regexp_replace(tgname, '\d+', 'N') AS name, tgfoid::regproc, tgtype, tgdeferrable
FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2;
SELECT DISTINCT hastriggers FROM pg_tables WHERE schemaname = 'pg_catalog';
SELECT pg_get_viewdef('pg_tables'::regclass) LIKE '%hastriggers%' AS is_view, attname, atttypid::regtype
FROM pg_attribute WHERE attrelid = 'pg_tables'::regclass AND attnum > 0 ORDER BY attnum;
