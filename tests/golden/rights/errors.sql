-- What errors tell of rows that the client may not read.
owner> CREATE TABLE p (id integer PRIMARY KEY, v text UNIQUE)
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, secret text UNIQUE, n integer CHECK (n < 100), p integer REFERENCES p)
owner> INSERT INTO p VALUES (1, 'one'), (2, 'two')
owner> INSERT INTO t VALUES (1, 10, 'one', 1, 1), (2, 20, 'two', 2, 2)
owner> GRANT INSERT, UPDATE, DELETE ON t, p TO %alice
owner> GRANT SELECT (a), INSERT, UPDATE, DELETE ON t TO %bob
owner> GRANT SELECT, INSERT, UPDATE, DELETE ON t, p TO %carol
alice> INSERT INTO t VALUES (1, 1, 'x', 1, 1)
alice> INSERT INTO t VALUES (3, 1, 'one', 1, 1)
alice> INSERT INTO t VALUES (3, NULL, 'x', 1, 1)
alice> INSERT INTO t (id, n) VALUES (3, 1)
alice> INSERT INTO t VALUES (3, 1, 'x', 1000, 1)
alice> INSERT INTO t VALUES (3, 1, 'x', 1, 7)
alice> INSERT INTO t (id, a, secret, n) SELECT 1, i, 'x' || i, 1 FROM generate_series(1, 3) i
alice> INSERT INTO t (id, a, secret, n) SELECT i + 10, i, 'x' || i, i * 60 FROM generate_series(1, 3) i
alice> INSERT INTO t (id, n) SELECT i + 10, i FROM generate_series(1, 3) i
alice> INSERT INTO t (id, a, p) SELECT i + 10, i, 77 FROM generate_series(1, 3) i
alice> INSERT INTO t (id, a) SELECT 1, 1 FROM generate_series(1, 3) i
alice> UPDATE t SET id = 1
alice> UPDATE t SET n = 1000
alice> UPDATE t SET a = NULL
alice> UPDATE t SET secret = 'one'
alice> UPDATE t SET p = 77
alice> COPY t FROM STDIN <- 1\t1\tx\t1\t1\n
alice> COPY t FROM STDIN <- 4\t1\tx\t1000\t1\n
alice> COPY t (id, n) FROM STDIN <- 4\t1\n
alice> COPY t FROM STDIN <- 4\t1\tx\t1\t77\n
alice> DELETE FROM p
alice> UPDATE p SET id = 5
alice> INSERT INTO t VALUES (1, 1, 'x', 1, 1) ON CONFLICT (secret) DO NOTHING
bob> INSERT INTO t VALUES (1, 1, 'x', 1, 1)
bob> INSERT INTO t VALUES (3, 1, 'one', 1, 1)
bob> INSERT INTO t VALUES (3, NULL, 'x', 1, 1)
bob> INSERT INTO t (id, n) VALUES (3, 1)
bob> INSERT INTO t VALUES (3, 1, 'x', 1000, 1)
bob> INSERT INTO t VALUES (3, 1, 'x', 1, 7)
bob> INSERT INTO t (id, a, secret, n) SELECT i + 10, i, 'x' || i, i * 60 FROM generate_series(1, 3) i
bob> INSERT INTO t (id, a, n) SELECT a + 10, a, a * 60 FROM t
bob> INSERT INTO t (id, n) SELECT a + 10, 1 FROM t
bob> INSERT INTO t (n, a) SELECT 1, a FROM t
bob> INSERT INTO t (id, a) SELECT 1, a FROM t WHERE a = 10
bob> INSERT INTO t (id, a, p) SELECT a + 100, a, 77 FROM t
bob> UPDATE t SET id = 1
bob> UPDATE t SET id = 1 WHERE a = 20
bob> UPDATE t SET n = 1000
bob> UPDATE t SET n = a * 100
bob> UPDATE t SET a = NULL WHERE a = 10
bob> UPDATE t SET a = NULL, n = a
bob> UPDATE t SET p = 77
bob> UPDATE t SET secret = 'one' WHERE a = 20
bob> MERGE INTO t USING (VALUES (10)) x (a) ON t.a = x.a WHEN MATCHED THEN UPDATE SET n = 1000
bob> MERGE INTO t USING (VALUES (99)) x (a) ON t.a = x.a WHEN NOT MATCHED THEN INSERT (id, a) VALUES (5, NULL)
bob> INSERT INTO t VALUES (1, 1, 'x', 1, 1) ON CONFLICT (id) DO UPDATE SET n = 1000
bob> DELETE FROM p WHERE id = 1
carol> INSERT INTO t VALUES (3, NULL, 'x', 1, 1)
carol> UPDATE t SET n = 1000
carol> UPDATE t SET id = 1
carol> UPDATE t SET p = 77
carol> DELETE FROM p WHERE id = 1
carol> UPDATE p SET id = 5 WHERE id = 1
owner> ALTER TABLE t ADD CONSTRAINT u UNIQUE (p, a)
alice> UPDATE t SET p = 1, a = 1
bob> UPDATE t SET p = 1, a = 1
carol> UPDATE t SET p = 1, a = 1
owner> REVOKE ALL ON t FROM %owner
owner> ALTER TABLE t ADD CHECK (a > 15)
owner> CREATE UNIQUE INDEX ON t ((1))
owner> ALTER TABLE t ALTER COLUMN n TYPE smallint USING 100000
owner> ALTER TABLE t ADD COLUMN z integer REFERENCES p DEFAULT 9
owner> ALTER TABLE t ADD COLUMN z integer UNIQUE DEFAULT 9
owner> SELECT * FROM t
