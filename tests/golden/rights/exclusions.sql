-- What EXCLUDE constraints tell of rows that the client may not read, and whose code decides.
owner> CREATE TABLE t (a integer, r int4range, EXCLUDE USING gist (r WITH &&))
owner> CREATE FUNCTION two(n integer) RETURNS int4range LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN int4range(n, n + 2); END'
owner> CREATE TABLE f (n integer, EXCLUDE USING gist (two(n) WITH &&))
owner> CREATE TABLE s (a integer, r int4range, EXCLUDE USING gist (r WITH &&))
owner> INSERT INTO t VALUES (1, '[1,5)')
owner> INSERT INTO f VALUES (1)
owner> INSERT INTO s VALUES (1, '[1,5)')
owner> ALTER TABLE s ENABLE ROW LEVEL SECURITY
owner> CREATE POLICY mine ON s USING (a > 1)
owner> GRANT INSERT, UPDATE ON t, f, s TO %alice
owner> GRANT INSERT, SELECT (r) ON t TO %bob
owner> GRANT INSERT, SELECT (n) ON f TO %bob
owner> GRANT INSERT, SELECT ON f, s TO %carol
alice> INSERT INTO t VALUES (2, '[2,3)')
alice> INSERT INTO t VALUES (2, '[6,7)')
alice> INSERT INTO f VALUES (2)
alice> INSERT INTO s VALUES (2, '[2,3)')
alice> INSERT INTO t SELECT i, int4range(i, i + 1) FROM generate_series(10, 60) i
alice> INSERT INTO t SELECT i, int4range(i, i + 1) FROM generate_series(60, 120) i
alice> UPDATE t SET r = '[2,3)'
bob> INSERT INTO t VALUES (2, '[2,3)')
bob> INSERT INTO f VALUES (2)
carol> INSERT INTO f VALUES (2)
carol> INSERT INTO s VALUES (2, '[2,3)')
owner> SELECT count(*) FROM t
owner> SELECT count(*) FROM f
