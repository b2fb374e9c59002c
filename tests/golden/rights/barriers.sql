-- No predicate of a client's is computed of rows that a security barrier hides: errors would tell of them.
owner> CREATE TABLE t (id integer PRIMARY KEY, a integer, secret integer, s text)
owner> CREATE TABLE allowed (id integer, who text)
owner> INSERT INTO t SELECT i, i * 10, i % 7, CASE WHEN i % 7 = 5 THEN 'x' ELSE i::text END FROM generate_series(1, 3000) i
owner> INSERT INTO allowed SELECT i, 'alice' FROM generate_series(1, 3000) i WHERE i % 7 <> 5
owner> CREATE VIEW joined WITH (security_barrier) AS SELECT t.id, a, secret, s FROM t JOIN allowed USING (id) WHERE who = 'alice'
owner> CREATE VIEW semi WITH (security_barrier) AS SELECT * FROM t WHERE id IN (SELECT id FROM allowed)
owner> CREATE VIEW plain WITH (security_barrier) AS SELECT * FROM t WHERE secret <> 5
owner> CREATE VIEW cased WITH (security_barrier) AS SELECT * FROM t WHERE CASE WHEN secret = 5 THEN false ELSE true END
owner> CREATE VIEW patterned WITH (security_barrier) AS SELECT * FROM t WHERE s ~ '^[0-9]+$'
owner> CREATE VIEW correlated WITH (security_barrier) AS SELECT * FROM t WHERE EXISTS (SELECT FROM allowed x WHERE x.id = t.id)
owner> CREATE VIEW grouped WITH (security_barrier) AS SELECT secret, count(*) AS n, min(a) AS a FROM t GROUP BY secret HAVING secret <> 5
owner> CREATE VIEW anti WITH (security_barrier) AS SELECT t.* FROM t LEFT JOIN allowed USING (id) WHERE allowed.id IS NOT NULL
owner> CREATE VIEW over_plain AS SELECT id, secret, s FROM plain
owner> CREATE VIEW unioned WITH (security_barrier) AS SELECT id, secret, s FROM t WHERE secret < 5 UNION ALL SELECT id, secret, s FROM t WHERE secret > 5
owner> GRANT SELECT ON joined, semi, plain, cased, patterned, correlated, grouped, anti, over_plain, unioned TO %alice
alice> SELECT count(*) FROM joined WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM semi WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM plain WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM cased WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM correlated WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM grouped WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM anti WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM over_plain WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM unioned WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM joined WHERE s::integer > 0
alice> SELECT count(*) FROM semi WHERE s::integer > 0
alice> SELECT count(*) FROM plain WHERE s::integer > 0
alice> SELECT count(*) FROM cased WHERE s::integer > 0
alice> SELECT count(*) FROM patterned WHERE s::integer > 0
alice> SELECT count(*) FROM correlated WHERE s::integer > 0
alice> SELECT count(*) FROM anti WHERE s::integer > 0
alice> SELECT count(*) FROM over_plain WHERE s::integer > 0
alice> SELECT count(*) FROM unioned WHERE s::integer > 0
alice> SELECT count(*) FROM plain JOIN joined USING (id) WHERE 1 / (plain.secret - 5) < 5 AND joined.s::integer > 0
alice> SELECT count(*) FROM joined j WHERE 1 / (j.secret - 5) < 5 AND j.id IN (SELECT id FROM semi WHERE s::integer > 3)
alice> SELECT sum(1 / (secret - 5)), max(s::integer) FROM joined
alice> SELECT sum(1 / (secret - 5)), max(s::integer) FROM plain
alice> SELECT sum(1 / (secret - 5)), max(s::integer) FROM patterned
alice> SELECT sum(1 / (secret - 5)), max(s::integer) FROM semi
alice> SELECT count(*) FROM joined x JOIN plain y ON 1 / (x.secret - 5) = 1 / (y.secret - 5) + y.id AND x.id = y.id
alice> SELECT count(*) FROM joined GROUP BY 1 / (secret - 5) ORDER BY 1
alice> SELECT id FROM joined ORDER BY s::integer, id LIMIT 2
alice> SELECT DISTINCT 1 / (secret - 5) AS d FROM semi ORDER BY d
owner> CREATE VIEW by_setting WITH (security_barrier) AS SELECT * FROM t WHERE secret <> current_setting('barrier.hidden')::integer
owner> GRANT SELECT ON by_setting TO %alice
alice> SET barrier.hidden = '5'
alice> SELECT count(*) FROM by_setting WHERE 1 / (secret - 5) < 5
alice> SELECT count(*) FROM by_setting WHERE s::integer > 0
