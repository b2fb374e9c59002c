-- GRANT and REVOKE, default privileges, members of roles, owners, and what changes of schemas leave as it was.
owner> CREATE TABLE t (id serial PRIMARY KEY, a integer, secret text)
owner> INSERT INTO t (a, secret) VALUES (1, 'x'), (2, 'y')
owner> GRANT SELECT (id, a), UPDATE (a), REFERENCES (id) ON t TO %alice WITH GRANT OPTION
owner> GRANT INSERT ON t TO %alice
alice> INSERT INTO t (a) VALUES (3)
owner> GRANT USAGE ON SEQUENCE t_id_seq TO %alice
alice> INSERT INTO t (a) VALUES (3)
alice> SELECT currval('t_id_seq') > 0, lastval() > 0
alice> SELECT nextval('t_id_seq') > 0
alice> SELECT setval('t_id_seq', 50)
alice> SELECT last_value FROM t_id_seq
alice> GRANT SELECT (id) ON t TO %bob
alice> GRANT SELECT (secret) ON t TO %bob
alice> GRANT SELECT ON t TO %bob
alice> GRANT SELECT (id), UPDATE (a) ON t TO %bob
alice> GRANT ALL ON t TO %bob
bob> SELECT id FROM t WHERE id = 1
bob> SELECT a FROM t
bob> GRANT SELECT (id) ON t TO %carol
alice> GRANT SELECT (id) ON t TO %bob WITH GRANT OPTION
bob> GRANT SELECT (id) ON t TO %carol
carol> SELECT id FROM t WHERE id = 1
owner> REVOKE GRANT OPTION FOR SELECT (id) ON t FROM %alice
owner> REVOKE GRANT OPTION FOR SELECT (id) ON t FROM %alice CASCADE
carol> SELECT id FROM t WHERE id = 1
bob> SELECT id FROM t WHERE id = 1
alice> SELECT id FROM t WHERE id = 1
owner> SELECT attname, attacl::text FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum
owner> ALTER TABLE t ADD COLUMN extra integer DEFAULT 5
owner> ALTER TABLE t ALTER COLUMN a TYPE bigint
owner> ALTER TABLE t ALTER COLUMN a TYPE text USING a::text || '!'
owner> ALTER TABLE t RENAME COLUMN a TO aa
owner> ALTER TABLE t RENAME TO tt
owner> ALTER TABLE tt ADD COLUMN computed text DEFAULT random()::text
owner> ALTER TABLE tt DROP COLUMN extra
owner> SELECT attname, attacl::text FROM pg_attribute WHERE attrelid = 'tt'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
owner> SELECT relacl::text FROM pg_class WHERE oid = 'tt'::regclass
alice> SELECT id, aa FROM tt WHERE id = 1
alice> SELECT computed IS NULL FROM tt
alice> UPDATE tt SET aa = 'z' WHERE id = 1
owner> CREATE SCHEMA %%_other
owner> VACUUM FULL tt
owner> ALTER TABLE tt RENAME TO t
alice> SELECT id, aa FROM t WHERE id = 1
alice> CREATE TABLE child (t_id integer REFERENCES t)
alice> INSERT INTO child VALUES (1)
alice> INSERT INTO child VALUES (100)
bob> CREATE TABLE child2 (t_id integer REFERENCES t)
bob> CREATE TABLE child3 (t_id integer)
bob> ALTER TABLE child3 ADD FOREIGN KEY (t_id) REFERENCES t
owner> REVOKE ALL ON t FROM %alice CASCADE
alice> INSERT INTO child VALUES (2)
alice> INSERT INTO child VALUES (102)
alice> SELECT * FROM t
owner> DELETE FROM t WHERE id = 1
owner> UPDATE t SET id = 30 WHERE id = 2
owner> SELECT * FROM child
owner> SELECT has_table_privilege('%alice', 't', 'SELECT'), has_any_column_privilege('%alice', 't', 'SELECT'), has_column_privilege('%bob', 't', 'id', 'SELECT'), has_table_privilege('t', 'TRUNCATE'), has_table_privilege('%bob', 't', 'MAINTAIN')
owner> GRANT SELECT ON t TO %group
admin> GRANT %group TO %dave WITH INHERIT FALSE, SET TRUE
dave> SELECT count(*) FROM t
dave> SET ROLE %group
dave> SELECT count(*) FROM t
dave> SELECT current_user::text, session_user::text
dave> RESET ROLE
dave> SELECT count(*) FROM t
admin> GRANT %group TO %dave WITH INHERIT TRUE, SET FALSE
dave> SELECT count(*) FROM t
dave> SET ROLE %group
dave> SET SESSION AUTHORIZATION %owner
dave> SET ROLE %owner
dave> GRANT %group TO %carol
admin> GRANT %group TO %dave WITH ADMIN TRUE
dave> GRANT %group TO %carol
carol> SELECT count(*) FROM t
dave> REVOKE %group FROM %carol
carol> SELECT count(*) FROM t
admin> REVOKE %group FROM %dave
admin> REVOKE %group FROM %dave CASCADE
dave> SELECT count(*) FROM t
owner> ALTER DEFAULT PRIVILEGES IN SCHEMA %% GRANT SELECT, INSERT ON TABLES TO %bob
owner> ALTER DEFAULT PRIVILEGES IN SCHEMA %% GRANT USAGE ON SEQUENCES TO %bob
owner> CREATE TABLE by_default (id serial, v text)
owner> CREATE TABLE as_default AS SELECT 1 AS one
owner> CREATE TABLE of_lake AS SELECT id FROM t
owner> CREATE MATERIALIZED VIEW mv_default AS SELECT id FROM t
owner> CREATE VIEW v_default AS SELECT id FROM t
bob> INSERT INTO by_default (v) VALUES ('a') RETURNING id
bob> SELECT * FROM by_default
bob> SELECT * FROM as_default
bob> SELECT count(*) FROM of_lake
bob> SELECT count(*) FROM mv_default
bob> SELECT count(*) FROM v_default
bob> UPDATE by_default SET v = 'x'
owner> BEGIN
owner> CREATE TABLE in_block (id integer)
owner> ALTER TABLE by_default ADD COLUMN w integer DEFAULT 1
owner> GRANT UPDATE ON by_default TO %bob
owner> INSERT INTO in_block VALUES (1)
bob> SELECT has_table_privilege(oid, 'UPDATE') FROM pg_class WHERE relname = 'by_default'
owner> COMMIT
bob> UPDATE by_default SET v = 'x' RETURNING w
bob> SELECT * FROM in_block
owner> SELECT relname::text, relacl::text FROM pg_class WHERE relnamespace = '%%'::regnamespace AND relkind IN ('r', 'v', 'm', 'S') ORDER BY 1
owner> ALTER DEFAULT PRIVILEGES IN SCHEMA %% REVOKE ALL ON TABLES FROM %bob
owner> ALTER DEFAULT PRIVILEGES IN SCHEMA %% REVOKE ALL ON SEQUENCES FROM %bob
owner> CREATE TABLE later (id integer)
bob> SELECT * FROM later
admin> GRANT SELECT ON ALL TABLES IN SCHEMA %% TO %carol
carol> SELECT * FROM later
carol> SELECT count(*) FROM t
admin> REVOKE SELECT ON ALL TABLES IN SCHEMA %% FROM %carol
carol> SELECT * FROM later
owner> ALTER TABLE later OWNER TO %bob
admin> GRANT %bob TO %owner
owner> ALTER TABLE later OWNER TO %bob
bob> INSERT INTO later VALUES (1)
bob> ALTER TABLE later ADD COLUMN x integer DEFAULT 3
bob> SELECT * FROM later
admin> REVOKE %bob FROM %owner
owner> SELECT * FROM later
owner> ALTER TABLE later ADD COLUMN y integer
bob> REVOKE ALL ON later FROM %bob
bob> SELECT * FROM later
bob> INSERT INTO later VALUES (2)
bob> UPDATE later SET id = 1
bob> GRANT SELECT ON later TO %bob
bob> SELECT * FROM later
bob> ALTER TABLE later ADD COLUMN z integer DEFAULT 4
bob> ALTER TABLE later ALTER COLUMN z TYPE text USING z::text
bob> CREATE INDEX ON later (id)
bob> ALTER TABLE later ADD CHECK (id > 0)
bob> VACUUM later
bob> TRUNCATE later
bob> DROP TABLE later
