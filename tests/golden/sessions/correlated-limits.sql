-- Correlated subqueries with ORDER BY and LIMIT: each outer row has its own first, whatever it is correlated by.
CREATE TABLE boss (id int PRIMARY KEY, g int);
CREATE TABLE staff (boss int, name text, pay int);
INSERT INTO boss SELECT n, n % 5 FROM generate_series(1, 10) n;
INSERT INTO staff SELECT n % 20, 'n' || n, n * 7919 % 103 FROM generate_series(1, 200) n;
INSERT INTO staff SELECT n % 20, 'n' || n, n * 7919 % 103 FROM generate_series(201, 400) n;
DELETE FROM staff WHERE pay = 50;
-- by an expression, IS NOT DISTINCT FROM, coalesce, a cast, an inequality
SELECT id, (SELECT name FROM staff i WHERE i.boss = o.id + 3 ORDER BY pay, name LIMIT 1) FROM boss o ORDER BY id;
SELECT o.id, q.name FROM boss o LEFT JOIN LATERAL
    (SELECT name FROM staff i WHERE i.boss IS NOT DISTINCT FROM o.id ORDER BY pay, name LIMIT 1) q ON true ORDER BY o.id;
SELECT id, (SELECT name FROM staff i WHERE i.boss = coalesce(o.g, 0) ORDER BY pay, name LIMIT 1) FROM boss o ORDER BY id;
SELECT id, (SELECT name FROM staff i WHERE i.boss = o.id::int8 ORDER BY pay DESC, name OFFSET 2 LIMIT 1) FROM boss o ORDER BY id;
SELECT id, (SELECT name FROM staff i WHERE i.boss < o.id ORDER BY pay, name LIMIT 1) FROM boss o ORDER BY id;
-- over groups, in HAVING, in WHERE, in CASE
SELECT g, (SELECT pay FROM staff i WHERE i.boss = g + 1 ORDER BY name LIMIT 1) FROM boss GROUP BY g ORDER BY g;
SELECT g FROM boss GROUP BY g HAVING (SELECT pay FROM staff i WHERE i.boss = g + 1 ORDER BY name LIMIT 1) >= 40 ORDER BY g;
SELECT id FROM boss o WHERE (SELECT pay FROM staff i WHERE i.boss = o.id ORDER BY name DESC LIMIT 1) > 50 ORDER BY id;
SELECT id, CASE WHEN id % 2 = 0 THEN (SELECT name FROM staff i WHERE i.boss = o.id ORDER BY pay, name LIMIT 1) END FROM boss o ORDER BY id;
-- over two levels
SELECT id, (SELECT (SELECT j.name FROM staff j WHERE j.boss = i.boss ORDER BY j.pay, j.name LIMIT 1)
    FROM staff i WHERE i.boss = o.id ORDER BY i.pay DESC, i.name LIMIT 1) FROM boss o ORDER BY id;
-- several of each, over UNION ALL, and in a recursive query
SELECT o.id, q.name FROM boss o CROSS JOIN LATERAL
    (SELECT name FROM staff i WHERE i.boss = o.id ORDER BY pay DESC, name LIMIT 3) q ORDER BY o.id, q.name;
SELECT o.id, q.name FROM boss o CROSS JOIN LATERAL (SELECT * FROM (SELECT name, pay FROM staff i WHERE i.boss = o.id
    UNION ALL SELECT 'nobody', o.g * 30) u ORDER BY pay DESC, name LIMIT 2) q ORDER BY o.id, q.name;
WITH RECURSIVE steps (n, name) AS (SELECT 1, 'start' UNION ALL SELECT n + 1,
    (SELECT name FROM staff i WHERE i.boss = n ORDER BY pay DESC, name LIMIT 1) FROM steps WHERE n < 6)
    SELECT * FROM steps ORDER BY n;
