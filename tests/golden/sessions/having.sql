-- HAVING and empty grouping sets without a key or an aggregate: one group, whatever rows there are, and nobody reads them.
CREATE SCHEMA having_alone;
SET search_path = having_alone;
CREATE TABLE t (a integer, b integer);
SELECT 'empty' FROM t HAVING true;
SELECT 'empty' FROM t GROUP BY ();
INSERT INTO t VALUES (0, 1), (1, 2), (2, 2);
SELECT 'one' AS one FROM t WHERE 10 / a > 0 HAVING 1 < 2;
SELECT 'none' AS none FROM t WHERE 10 / a > 0 HAVING 1 > 2;
SELECT 'one' FROM t WHERE 10 / a > 0 GROUP BY ();
SELECT 'two' FROM t WHERE false GROUP BY GROUPING SETS ((), ());
SELECT 'one' FROM t x JOIN t y ON x.a / y.a = 0 HAVING (SELECT count(*) FROM t) = 3 LIMIT 2;
SELECT row_number() OVER () FROM t HAVING true;
SELECT (SELECT o.b FROM t WHERE 10 / a > 0 HAVING o.a > 0) FROM t o ORDER BY o.a;
SELECT * FROM (SELECT 'x' AS x FROM t WHERE 10 / a > 0 HAVING true) s CROSS JOIN (SELECT count(*) FROM t) c;
-- with an aggregate they are read
SELECT count(*) FROM t WHERE 10 / a > 0 HAVING 1 < 2;
SELECT 'one' FROM t WHERE 10 / a > 0 HAVING count(*) > 0;
DROP SCHEMA having_alone CASCADE;
