-- Rights that come and go under prepared statements, cursors and blocks; SET ROLE; REASSIGN and DROP OWNED.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer, secret text)
owner> INSERT INTO t SELECT i, i, 's' || i FROM generate_series(1, 5) i
owner> GRANT SELECT, INSERT, UPDATE, DELETE ON t TO %alice
alice> PREPARE sel AS SELECT count(*) FROM t
alice> PREPARE upd AS UPDATE t SET a = a + 1 WHERE id = $1
alice> PREPARE ins AS INSERT INTO t VALUES ($1, 1, 'x')
alice> EXECUTE sel
alice> EXECUTE upd(1)
alice> BEGIN
alice> DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id
alice> FETCH 1 FROM c
alice2> DECLARE h CURSOR WITH HOLD FOR SELECT id, secret FROM t ORDER BY id
alice2> FETCH 1 FROM h
owner> REVOKE ALL ON t FROM %alice
alice> FETCH 1 FROM c
alice> SAVEPOINT s
alice> SELECT count(*) FROM t
alice> ROLLBACK TO s
alice> FETCH 1 FROM c
alice> EXECUTE sel
alice> ROLLBACK
alice2> FETCH ALL FROM h
alice2> EXECUTE sel
alice> EXECUTE sel
alice> EXECUTE upd(1)
alice> EXECUTE ins(10)
owner> GRANT SELECT ON t TO %alice
alice> EXECUTE sel
alice> EXECUTE upd(1)
owner> BEGIN
owner> REVOKE SELECT ON t FROM %alice
alice> EXECUTE sel
owner> ROLLBACK
alice> EXECUTE sel
owner> BEGIN
owner> GRANT UPDATE (a), SELECT ON t TO %alice
owner> SELECT has_table_privilege('%alice', 't', 'SELECT'), has_column_privilege('%alice', 't', 'a', 'UPDATE')
alice> SELECT has_column_privilege('%alice', 't', 'a', 'UPDATE')
alice> UPDATE t SET a = 100 WHERE id = 5
owner> COMMIT
alice> UPDATE t SET a = 100 WHERE id = 5
alice> BEGIN
alice> UPDATE t SET a = 101 WHERE id = 5
owner> REVOKE UPDATE (a) ON t FROM %alice
alice> UPDATE t SET a = 102 WHERE id = 5
alice> ROLLBACK
alice> BEGIN
owner> GRANT UPDATE ON t TO %alice
alice> UPDATE t SET a = 103 WHERE id = 5
owner> REVOKE ALL ON t FROM %alice
alice> COMMIT
owner> SELECT a FROM t WHERE id = 5
owner> BEGIN
owner> GRANT SELECT ON t TO %bob
owner> SET LOCAL ROLE NONE
owner> ALTER TABLE t ADD COLUMN z integer DEFAULT 1
owner> SELECT relacl::text FROM pg_class WHERE oid = 't'::regclass
owner> COMMIT
bob> SELECT z FROM t WHERE id = 5
owner> SELECT relacl::text FROM pg_class WHERE oid = 't'::regclass
admin> GRANT %alice, %bob TO %taker
taker> SELECT count(*) FROM t
taker> SET ROLE %alice
taker> SELECT count(*) FROM t
taker> SELECT current_user::text, session_user::text
taker> CREATE TABLE made_as (id integer)
taker> INSERT INTO made_as VALUES (1)
taker> RESET ROLE
taker> SELECT tableowner::text FROM pg_tables WHERE tablename = 'made_as'
taker> SELECT * FROM made_as
admin> REVOKE %alice FROM %taker
taker> SELECT * FROM made_as
alice> SELECT * FROM made_as
taker> BEGIN
taker> SET LOCAL ROLE %bob
taker> SELECT count(*) FROM t
taker> COMMIT
taker> SELECT current_user::text
taker> SET ROLE %alice
taker> SET SESSION AUTHORIZATION %bob
taker> SET SESSION AUTHORIZATION DEFAULT
taker> SET ROLE NONE
taker> SHOW role
taker> PREPARE as_role AS SELECT count(*), current_user::text FROM t
taker> EXECUTE as_role
taker> SET ROLE %bob
taker> EXECUTE as_role
admin> REVOKE %bob FROM %taker
taker> EXECUTE as_role
taker> RESET ROLE
taker> EXECUTE as_role
taker> SET ROLE %bob
admin> GRANT %bob TO %taker
taker> BEGIN; SET LOCAL ROLE %bob; DECLARE c CURSOR FOR SELECT count(*), current_user::text FROM t; RESET ROLE; FETCH c; COMMIT
taker> ROLLBACK
taker> BEGIN
taker> SAVEPOINT s
taker> SET ROLE %bob
taker> ROLLBACK TO s
taker> SELECT current_user::text FROM t LIMIT 1
taker> ROLLBACK
taker> DISCARD ALL
taker> SELECT current_user::text
alice> CREATE TABLE alices (id integer)
alice> CREATE VIEW alices_view AS SELECT * FROM alices
alice> INSERT INTO alices VALUES (1)
alice> GRANT SELECT ON alices TO %bob
owner> GRANT SELECT ON t TO %alice
bob> SELECT * FROM alices
admin> REASSIGN OWNED BY %alice TO %taker
bob> SELECT * FROM alices
alice> SELECT * FROM alices
taker> SELECT * FROM alices
taker> SELECT * FROM alices_view
taker> INSERT INTO alices VALUES (2)
taker> SELECT tablename::text, tableowner::text FROM pg_tables WHERE schemaname = '%%' ORDER BY 1
alice> SELECT count(*) FROM t
admin> DROP OWNED BY %alice
alice> SELECT count(*) FROM t
alice> SELECT 1
taker> DROP OWNED BY %taker
bob> SELECT * FROM alices
owner> SELECT tablename::text, tableowner::text FROM pg_tables WHERE schemaname = '%%' ORDER BY 1
owner> SELECT relacl::text FROM pg_class WHERE oid = 't'::regclass
owner> SELECT count(*) FROM t
owner> SELECT grantee::text, privilege_type::text FROM information_schema.role_table_grants WHERE table_schema = '%%' ORDER BY 1, 2
owner> SELECT grantee::text, column_name::text, privilege_type::text FROM information_schema.column_privileges WHERE table_schema = '%%' ORDER BY 1, 2, 3
bob> SELECT table_name::text FROM information_schema.tables WHERE table_schema = '%%' ORDER BY 1
bob> SELECT column_name::text FROM information_schema.columns WHERE table_schema = '%%' AND table_name = 't' ORDER BY 1
bob> SELECT table_name::text FROM information_schema.table_privileges WHERE table_schema = '%%' ORDER BY 1
