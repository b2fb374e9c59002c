-- TRUNCATE, VACUUM, ANALYZE, REINDEX, CLUSTER, REFRESH, LOCK TABLE, DDL of others, and the predefined roles.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer)
owner> CREATE TABLE u (id integer REFERENCES t)
owner> INSERT INTO t SELECT i, i FROM generate_series(1, 5) i
owner> CREATE INDEX t_a ON t (a)
owner> CREATE MATERIALIZED VIEW mv AS SELECT id FROM t
owner> CREATE UNIQUE INDEX mv_id ON mv (id)
alice> TRUNCATE t
alice> VACUUM t
alice> VACUUM FULL t
alice> ANALYZE t
alice> ANALYZE t (a)
alice> REINDEX TABLE t
alice> REINDEX INDEX t_a
alice> REINDEX INDEX CONCURRENTLY t_a
alice> CLUSTER t USING t_a
alice> REFRESH MATERIALIZED VIEW mv
alice> REFRESH MATERIALIZED VIEW CONCURRENTLY mv
alice> BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; ROLLBACK
alice> ROLLBACK
alice> ALTER TABLE t ADD COLUMN x integer
alice> ALTER TABLE t ADD CHECK (a > 0)
alice> DROP TABLE t
alice> DROP TABLE u, t
alice> CREATE INDEX ON t (id)
alice> DROP INDEX t_a
alice> ALTER INDEX t_a RENAME TO t_b
alice> COMMENT ON TABLE t IS 'x'
alice> ALTER TABLE t RENAME TO x
alice> ALTER TABLE t RENAME COLUMN a TO x
alice> ALTER TABLE t SET SCHEMA public
alice> ALTER TABLE t OWNER TO %alice
alice> CREATE STATISTICS s ON id, a FROM t
alice> CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
alice> GRANT SELECT ON t TO %bob
alice> REVOKE SELECT ON t FROM %bob
alice> ALTER MATERIALIZED VIEW mv RENAME TO mw
alice> DROP MATERIALIZED VIEW mv
owner> GRANT MAINTAIN ON t, mv TO %alice
alice> VACUUM t
alice> VACUUM (FULL) t
alice> ANALYZE t
alice> REINDEX TABLE t
alice> REINDEX INDEX t_a
alice> REINDEX INDEX CONCURRENTLY t_a
alice> CLUSTER t USING t_a
alice> REFRESH MATERIALIZED VIEW mv
alice> REFRESH MATERIALIZED VIEW CONCURRENTLY mv
alice> SELECT * FROM mv
alice> SELECT * FROM t
alice> BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; ROLLBACK
alice> TRUNCATE t
alice> CREATE INDEX ON t (id)
alice> VACUUM ANALYZE t, u
owner> REVOKE MAINTAIN ON t FROM %alice
alice> CLUSTER t
alice> CLUSTER
owner> GRANT SELECT ON t TO %bob
bob> BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; ROLLBACK
bob> BEGIN; LOCK TABLE t IN ROW SHARE MODE; ROLLBACK
bob> ROLLBACK
bob> BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE; ROLLBACK
bob> ROLLBACK
owner> GRANT INSERT ON t TO %bob
bob> BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE; ROLLBACK
bob> BEGIN; LOCK TABLE t IN SHARE MODE; ROLLBACK
bob> ROLLBACK
owner> REVOKE ALL ON t FROM %bob
owner> GRANT SELECT (id), UPDATE (a) ON t TO %bob
bob> BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; ROLLBACK
bob> ROLLBACK
owner> GRANT TRUNCATE ON t TO %bob
bob> TRUNCATE t
bob> TRUNCATE t, u
bob> BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; ROLLBACK
owner> GRANT TRUNCATE ON u TO %bob
bob> TRUNCATE t CASCADE
owner> SELECT count(*) FROM t
owner> INSERT INTO t SELECT i, i FROM generate_series(1, 5) i
bob> TRUNCATE u RESTART IDENTITY
bob> SELECT count(*) FROM mv
super> GRANT pg_read_all_data TO %reader
super> GRANT pg_write_all_data TO %writer
super> GRANT pg_maintain TO %keeper
reader> SELECT * FROM t
reader> SELECT count(*) FROM mv
reader> INSERT INTO t VALUES (9, 9)
reader> UPDATE t SET a = 1
reader> DELETE FROM t
reader> SELECT id FROM t FOR UPDATE
reader> COPY t TO STDOUT
reader> VACUUM t
reader> TRUNCATE t
writer> INSERT INTO t VALUES (9, 9)
writer> INSERT INTO t VALUES (10, 9) RETURNING id
writer> UPDATE t SET a = 1
writer> UPDATE t SET a = a
writer> UPDATE t SET a = 1 WHERE id = 1
writer> DELETE FROM u
writer> DELETE FROM t WHERE id = 1
writer> SELECT * FROM t
writer> COPY t FROM STDIN <- 20\t20\n
writer> TRUNCATE t
writer> INSERT INTO t VALUES (9, 9) ON CONFLICT (id) DO NOTHING
writer> INSERT INTO t VALUES (9, 9) ON CONFLICT DO NOTHING
writer> MERGE INTO t USING (VALUES (1)) v (i) ON true WHEN MATCHED THEN DELETE
writer> MERGE INTO t USING (VALUES (1)) v (i) ON t.id = v.i WHEN MATCHED THEN DELETE
keeper> VACUUM t
keeper> ANALYZE t
keeper> REINDEX TABLE t
keeper> CLUSTER t USING t_a
keeper> REFRESH MATERIALIZED VIEW mv
keeper> REFRESH MATERIALIZED VIEW CONCURRENTLY mv
keeper> BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; ROLLBACK
keeper> SELECT * FROM t
keeper> CREATE INDEX ON t (id)
super> GRANT pg_read_all_data TO %writer
writer> UPDATE t SET a = a + 1 WHERE id = 9 RETURNING *
writer> DELETE FROM t WHERE id = 20 RETURNING *
writer> SELECT id FROM t WHERE id = 9 FOR UPDATE
writer> MERGE INTO t USING (VALUES (9)) v (i) ON t.id = v.i WHEN MATCHED THEN UPDATE SET a = 0
super> ALTER ROLE %bob SET default_transaction_read_only = on
owner> SELECT * FROM t
