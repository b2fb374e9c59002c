-- Functions beside lake tables, schemas, generated columns, odd names, statistics, DDL by who is no owner.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer)
owner> CREATE TABLE u (id integer)
owner> INSERT INTO t SELECT i, i FROM generate_series(1, 5) i
owner> INSERT INTO u SELECT generate_series(1, 5)
owner> CREATE FUNCTION total() RETURNS bigint LANGUAGE sql SECURITY DEFINER STABLE AS 'SELECT count(*) FROM %%.t'
owner> CREATE FUNCTION total_p() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER STABLE AS 'BEGIN RETURN (SELECT count(*) FROM %%.t); END'
owner> CREATE VIEW v AS SELECT id FROM t WHERE id < 3
owner> GRANT SELECT ON v TO %alice
owner> GRANT SELECT (id) ON t TO %alice
alice> SELECT id, total() FROM t WHERE id = 1
alice> SELECT id, total_p() FROM t WHERE id = 1
alice> SELECT id, total() FROM v WHERE id = 1
alice> SELECT id, total_p() FROM v
alice> SELECT total_p() FROM t WHERE false
alice> SELECT count(*) FROM t WHERE id > 100 OR total_p() = 5
alice> SELECT id FROM t WHERE id = total()
alice> WITH x AS (SELECT id FROM t WHERE id = 1) SELECT id, total() FROM x
alice> CREATE TEMP TABLE made AS SELECT id, total() AS n FROM t WHERE id = 2
alice> SELECT * FROM made
alice> SELECT id, (SELECT count(*) FROM u) FROM v
owner> GRANT UPDATE (a) ON t TO %alice
alice> UPDATE t SET a = total() WHERE id = 1
owner> SELECT * FROM t
alice! BEGIN; LOCK TABLE v; ROLLBACK
alice> ROLLBACK
alice> LOCK TABLE t
alice> LOCK TABLE u
alice> BEGIN; LOCK TABLE u; ROLLBACK
alice> ROLLBACK
alice> BEGIN; SELECT id FROM t; RESET ROLE; SAVEPOINT a; SELECT * FROM u; COMMIT
alice> ROLLBACK
alice> SELECT relname::text FROM pg_class WHERE oid = 't'::regclass AND has_table_privilege(oid, 'SELECT')
alice> SELECT attname::text FROM pg_stats WHERE schemaname = '%%' AND tablename = 't' ORDER BY 1
owner> ANALYZE t
alice> SELECT attname::text FROM pg_stats WHERE schemaname = '%%' AND tablename = 't' ORDER BY 1
alice> SELECT count(*) FROM pg_stats WHERE schemaname = '%%' AND tablename = 'u'
alice> CREATE STATISTICS st ON id, a FROM t
alice> COMMENT ON COLUMN t.a IS 'x'
alice> ALTER TABLE t CLUSTER ON t_pkey
alice> ALTER TABLE t DISABLE TRIGGER ALL
alice> ALTER TABLE t ENABLE ROW LEVEL SECURITY
alice> ALTER TABLE t SET (fillfactor = 50)
alice> ALTER TABLE t ALTER COLUMN a SET DEFAULT 3
alice> ALTER TABLE t ALTER COLUMN a SET NOT NULL
alice> ALTER TABLE t ALTER COLUMN a TYPE bigint
alice> ALTER TABLE t DROP COLUMN a
alice> ALTER TABLE t ADD UNIQUE (a)
alice> ALTER TABLE u ADD FOREIGN KEY (id) REFERENCES t
alice> ALTER TABLE u RENAME TO w
alice> ALTER TABLE nothing ADD COLUMN x integer
alice> ALTER VIEW v RENAME TO w
alice> ALTER VIEW v RENAME COLUMN id TO x
alice> DROP VIEW v
alice> DROP TABLE IF EXISTS t
alice> CREATE OR REPLACE VIEW v AS SELECT 1 AS id
alice> ALTER SCHEMA %% RENAME TO other
alice> DROP SCHEMA %% CASCADE
alice> CREATE TABLE %%.mine (LIKE t INCLUDING ALL)
alice> CREATE TABLE inherits () INHERITS (t)
owner> CREATE TABLE gen (id integer GENERATED ALWAYS AS IDENTITY, g integer GENERATED ALWAYS AS (a * 2) STORED, a integer, secret integer)
owner> GRANT INSERT (a), SELECT (g), UPDATE (a) ON gen TO %alice
alice> INSERT INTO gen (a) VALUES (1)
alice> INSERT INTO gen (a, g) VALUES (1, DEFAULT)
alice> INSERT INTO gen (a) VALUES (1) RETURNING g
alice> INSERT INTO gen (a) VALUES (1) RETURNING id
alice> INSERT INTO gen (id, a) OVERRIDING SYSTEM VALUE VALUES (1, 1)
alice> UPDATE gen SET a = 7
alice> UPDATE gen SET a = 8, g = DEFAULT
alice> SELECT g FROM gen
alice> SELECT a FROM gen
alice> COPY gen (g) TO STDOUT
alice> COPY gen (a) FROM STDIN <- 5\n
alice> COPY gen TO STDOUT
owner> SELECT * FROM gen
owner> CREATE TABLE "Odd ""name" ("Col umn" integer, "Ünï" text)
owner> INSERT INTO "Odd ""name" VALUES (1, 'x')
owner> GRANT SELECT ("Col umn") ON "Odd ""name" TO %alice
alice> SELECT "Col umn" FROM "Odd ""name"
alice> SELECT "Ünï" FROM "Odd ""name"
alice> SELECT * FROM "Odd ""name"
owner> CREATE SCHEMA AUTHORIZATION CURRENT_USER
alice> SET search_path = nowhere
alice> SELECT id FROM %%.t WHERE id = 1
owner> REVOKE USAGE ON SCHEMA %% FROM %alice
admin> REVOKE USAGE ON SCHEMA %% FROM %alice
alice> SELECT id FROM %%.t WHERE id = 1
alice> INSERT INTO %%.gen (a) VALUES (1)
alice> UPDATE %%.t SET a = 1
alice> COPY %%.t (id) TO STDOUT
admin> GRANT USAGE ON SCHEMA %% TO %alice
alice> SELECT id FROM %%.t WHERE id = 1
