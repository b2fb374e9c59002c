-- Functions of users, as invoker and definer: refused where they read the lake unseen, never with more rights.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer, secret text)
owner> INSERT INTO t SELECT i, i, 's' || i FROM generate_series(1, 5) i
owner> CREATE FUNCTION total() RETURNS bigint LANGUAGE sql SECURITY DEFINER STABLE AS 'SELECT count(*) FROM %%.t'
owner> CREATE FUNCTION total_p() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER STABLE AS 'BEGIN RETURN (SELECT count(*) FROM %%.t); END'
owner> CREATE FUNCTION total_invoker() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM %%.t'
owner> CREATE FUNCTION total_invoker_p() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM %%.t); END'
owner> CREATE FUNCTION rows_of() RETURNS SETOF t LANGUAGE sql SECURITY DEFINER STABLE AS 'SELECT * FROM %%.t'
owner> CREATE FUNCTION rows_invoker() RETURNS SETOF t LANGUAGE sql STABLE AS 'SELECT * FROM %%.t'
owner> CREATE FUNCTION put(i integer) RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO %%.t VALUES (i, i, NULL)'
owner> CREATE FUNCTION who() RETURNS text LANGUAGE sql SECURITY DEFINER STABLE AS 'SELECT current_user::text'
owner> CREATE FUNCTION who_p() RETURNS text LANGUAGE plpgsql SECURITY DEFINER VOLATILE AS 'BEGIN RETURN current_user::text; END'
owner> CREATE FUNCTION who_invoker() RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN current_user::text; END'
owner> GRANT SELECT (id) ON t TO %alice
alice> SELECT total()
alice> SELECT total_p()
alice> SELECT total_invoker()
alice> SELECT total_invoker_p()
bob> SELECT total()
bob> SELECT total_p()
bob> SELECT total_invoker()
bob> SELECT total_invoker_p()
alice> SELECT * FROM rows_of()
alice> SELECT * FROM rows_invoker()
bob> SELECT id, total() FROM t
bob> SELECT * FROM rows_of() r JOIN t USING (id)
alice> SELECT r.id FROM rows_of() r JOIN t USING (id)
alice> SELECT id, total() FROM t ORDER BY id LIMIT 1
alice> SELECT id, total_invoker() FROM t ORDER BY id LIMIT 1
alice> SELECT id, total_p() FROM t ORDER BY id LIMIT 1
alice> SELECT id, secret FROM rows_invoker()
alice> SELECT id, (SELECT max(secret) FROM rows_invoker()) FROM t
alice> SELECT id, (SELECT max(secret) FROM rows_of()) FROM t
alice! SELECT id FROM t WHERE who() = who_p()
alice! SELECT id, who(), who_p(), who_invoker() FROM t ORDER BY id LIMIT 1
alice> SELECT put(77)
alice> DO $$ BEGIN PERFORM * FROM t; END $$
alice> DO $$ BEGIN PERFORM count(*) FROM t; END $$
alice> DO $$ BEGIN UPDATE t SET a = 1; END $$
alice> DO $$ BEGIN DELETE FROM t; END $$
alice> DO $$ BEGIN TRUNCATE t; END $$
alice> DO $$ BEGIN ALTER TABLE t ADD COLUMN x integer; END $$
owner> CREATE FUNCTION add_column() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN ALTER TABLE %%.t ADD COLUMN by_function integer DEFAULT 3; END'
alice> SELECT add_column()
owner> SELECT by_function FROM t LIMIT 1
owner> CREATE FUNCTION grants() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN GRANT SELECT ON %%.t TO %alice; END'
bob> SELECT grants()
alice> SELECT count(secret) FROM t
owner> REVOKE SELECT ON t FROM %alice
owner> REVOKE EXECUTE ON FUNCTION total() FROM PUBLIC
alice> SELECT total()
alice> SELECT total() FROM t
owner> CREATE PROCEDURE proc() LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN CREATE TABLE %%.by_proc (id integer); END'
alice> CALL proc()
owner> SELECT tableowner::text FROM pg_tables WHERE tablename = 'by_proc'
alice> SELECT * FROM by_proc
owner> CREATE FUNCTION with_role() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN SET LOCAL ROLE %bob; RETURN current_user; END $$
alice> SELECT with_role()
alice> CREATE FUNCTION as_alice(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; RETURN 'done'; END $$
alice> SELECT as_alice('SET ROLE %owner')
alice> SELECT as_alice('SELECT secret FROM t')
alice> SELECT as_alice('UPDATE t SET a = 3')
alice> SELECT as_alice('GRANT SELECT ON t TO %bob')
alice> SELECT as_alice('DROP TABLE t')
