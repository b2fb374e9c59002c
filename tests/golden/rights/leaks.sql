-- Functions of users' that leak, over policies and barriers; functions that act in policies; roles that change half-way.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer, secret text)
owner> INSERT INTO t SELECT i, i * 10, 's' || i FROM generate_series(1, 6) i
owner> CREATE TABLE seen (id integer)
owner> CREATE POLICY p ON t USING (id <= 3)
owner> ALTER TABLE t ENABLE ROW LEVEL SECURITY
owner> CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE id > 4
owner> CREATE VIEW invoker WITH (security_barrier, security_invoker) AS SELECT * FROM t WHERE a < 60
owner> CREATE VIEW open AS SELECT id, a FROM t WHERE id > 2
owner> GRANT SELECT, INSERT, UPDATE, DELETE ON t, barrier, invoker, open TO %alice
alice> CREATE FUNCTION leak(anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.00001 AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$
alice> CREATE FUNCTION leak2(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.00001 AS $$ BEGIN RAISE NOTICE 'saw % %', $1, $2; RETURN $1 = $2; END $$
alice> CREATE OPERATOR === (FUNCTION = leak2, LEFTARG = integer, RIGHTARG = integer)
alice> CREATE FUNCTION sfun(integer, integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE 'step %', $2; RETURN $1 + $2; END $$
alice> CREATE AGGREGATE tally(integer) (SFUNC = sfun, STYPE = integer, INITCOND = '0')
alice> CREATE FUNCTION evil(integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE LEAKPROOF AS $$ BEGIN RETURN true; END $$
alice> SELECT id FROM t WHERE leak(secret) ORDER BY id
alice> SELECT id FROM t WHERE id === 5 ORDER BY id
alice> SELECT id FROM t WHERE id === 2 OR leak(id) ORDER BY id
alice> SELECT tally(id) FROM t
alice> SELECT tally(id ORDER BY id) FILTER (WHERE leak(id)) FROM t
alice> SELECT id FROM barrier WHERE leak(secret) ORDER BY id
alice> SELECT id FROM barrier WHERE id === 2 ORDER BY id
alice> SELECT tally(id ORDER BY id) FROM barrier
alice> SELECT id FROM invoker WHERE leak(secret) ORDER BY id
alice> SELECT id FROM open WHERE leak(id) ORDER BY id
alice> SELECT x.id FROM t x JOIN barrier y ON x.id === y.id ORDER BY 1
alice> SELECT x.id FROM barrier x LEFT JOIN t y ON leak(y.id) AND x.id = y.id + 4 ORDER BY 1
alice> SELECT id FROM t WHERE EXISTS (SELECT FROM barrier b WHERE leak(b.id) AND b.id = t.id + 4) ORDER BY id
alice> SELECT id FROM t WHERE id IN (SELECT b.id - 3 FROM barrier b WHERE leak(b.secret)) ORDER BY id
alice> SELECT id, leak(secret) OVER () FROM t
alice> SELECT id, sum(id) OVER (PARTITION BY leak(id) ORDER BY id) FROM t ORDER BY id
alice> SELECT count(*) FROM t GROUP BY leak(id)
alice> SELECT id FROM t ORDER BY leak(secret), id LIMIT 2
alice> SELECT DISTINCT leak(id) FROM t
alice> UPDATE t SET a = a + 1 WHERE leak(secret)
alice> UPDATE t SET a = a + 1 WHERE id === 5
alice> UPDATE t SET a = a + 1 WHERE id === 2 RETURNING leak(secret)
alice> DELETE FROM t WHERE leak(secret) AND false
alice> DELETE FROM t WHERE id === 6
alice> MERGE INTO t USING (VALUES (5), (2)) v (id) ON t.id === v.id WHEN MATCHED AND leak(secret) THEN UPDATE SET a = 0
alice> INSERT INTO t VALUES (5, 1, 'x') ON CONFLICT (id) DO UPDATE SET a = 1 WHERE leak(t.secret)
alice> COPY (SELECT id FROM t WHERE leak(secret) ORDER BY id) TO STDOUT
alice> CREATE TEMP TABLE mine AS SELECT id FROM t WHERE leak(secret)
alice> SELECT * FROM mine ORDER BY id
alice> BEGIN; DECLARE c CURSOR FOR SELECT id FROM t WHERE 1 / (id - 5) < 9 ORDER BY id; FETCH 2 FROM c; MOVE ALL c; COMMIT
alice> SELECT id FROM t WHERE leak(secret) ORDER BY id FOR UPDATE
alice> SELECT row_to_json(t) FROM t WHERE leak(t.*::text) ORDER BY t.id
alice> SELECT id FROM t TABLESAMPLE BERNOULLI (100) WHERE leak(id) ORDER BY id
alice> CREATE VIEW own AS SELECT id FROM t WHERE leak(secret)
alice> GRANT SELECT ON own TO %bob
bob> SELECT * FROM own ORDER BY id
alice> CREATE DOMAIN peeking AS integer CHECK (leak(VALUE))
alice> SELECT id::peeking FROM t ORDER BY id
alice> SELECT id FROM t WHERE id::peeking > 0 ORDER BY id
alice> CREATE TYPE pair AS (x integer, y text)
alice> CREATE FUNCTION to_pair(integer) RETURNS pair LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE 'cast %', $1; RETURN ROW($1, 'c'); END $$
alice> CREATE CAST (integer AS pair) WITH FUNCTION to_pair(integer) AS IMPLICIT
alice> SELECT id FROM t WHERE (id::pair).x > 0 ORDER BY id
owner> CREATE FUNCTION acting(integer) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN $1 % 2 = 1; END $$
owner> CREATE FUNCTION as_owner(integer) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$ BEGIN RETURN $1 % 2 = 0 AND current_user LIKE '%%owner'; END $$
owner> ALTER POLICY p ON t USING (as_owner(id))
alice> SELECT id FROM t ORDER BY id
alice> SELECT id FROM t WHERE leak(secret) ORDER BY id
alice> UPDATE t SET a = a + 1
owner> ALTER POLICY p ON t USING (acting(id))
alice! SELECT id FROM t ORDER BY id
alice! SELECT id FROM t WHERE leak(secret) ORDER BY id
owner> ALTER POLICY p ON t USING (id = ANY (ARRAY(SELECT s.id FROM seen s)))
owner> INSERT INTO seen VALUES (1), (4)
alice> SELECT id FROM t ORDER BY id
owner> GRANT SELECT ON seen TO %alice
alice> SELECT id FROM t WHERE leak(secret) ORDER BY id
owner> ALTER POLICY p ON t USING (random() < 2 AND id < 3)
alice> SELECT id FROM t ORDER BY id
alice> SELECT id FROM t WHERE leak(secret) ORDER BY id
owner> ALTER POLICY p ON t USING (current_setting('leaks.own', true) = secret)
alice> SELECT id FROM t
alice> SET leaks.own = 's5'
alice> SELECT id FROM t WHERE leak(secret)
alice> BEGIN; SET LOCAL leaks.own = 's6'; SELECT id FROM t; COMMIT
alice> SELECT id FROM t
