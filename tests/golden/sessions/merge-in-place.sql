-- MERGE whose source and subqueries PostgreSQL reads itself
CREATE SCHEMA merging_in_place;
SET search_path = merging_in_place;
CREATE TABLE target (id integer PRIMARY KEY, balance integer, note text);
CREATE TABLE orders (id integer, customer integer, amount integer);
CREATE TABLE customers (customer integer, name text);
INSERT INTO target VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'three'), (4, 40, 'four');
INSERT INTO orders VALUES (2, 100, 5), (3, 101, 7), (5, 100, 50), (6, 102, 60), (7, 999, 70);
INSERT INTO customers VALUES (100, 'Ann'), (101, 'Bob'), (102, 'Cyd'), (103, 'Dan');
-- joins as the source
MERGE INTO target t USING orders o JOIN customers c ON o.customer = c.customer ON t.id = o.id
WHEN MATCHED THEN UPDATE SET balance = t.balance + o.amount, note = c.name
WHEN NOT MATCHED THEN INSERT VALUES (o.id, o.amount, c.name)
RETURNING merge_action(), t.*;
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING orders o FULL JOIN customers c USING (customer) ON t.id = o.id
WHEN MATCHED THEN UPDATE SET balance = customer, note = coalesce(c.name, 'nobody')
WHEN NOT MATCHED AND o.id IS NULL THEN INSERT VALUES (customer, 0, name)
WHEN NOT MATCHED THEN INSERT VALUES (o.id, customer, 'new')
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET note = 'left';
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING (orders o LEFT JOIN customers c USING (customer)) AS j ON t.id = j.id
WHEN MATCHED THEN UPDATE SET note = j.name || '!';
MERGE INTO target t USING (orders o CROSS JOIN generate_series(1, 1) AS g (n)) ON t.id = o.id
WHEN MATCHED THEN UPDATE SET balance = n;
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING LATERAL (SELECT 4 AS id, 5 AS id) x ON t.id = 4 WHEN MATCHED THEN UPDATE SET note = 'two ids';
MERGE INTO target t USING ONLY orders o ON t.id = o.id WHEN MATCHED AND o.amount > 55 THEN DELETE;
MERGE INTO target t USING ROWS FROM (generate_series(1, 2), generate_series(3, 4)) AS r (a, b) ON t.id = r.b
WHEN MATCHED THEN UPDATE SET balance = r.a;
SELECT * FROM target ORDER BY id;
-- subqueries
MERGE INTO target t USING orders o ON t.id = o.id AND o.customer IN (SELECT customer FROM customers WHERE name < 'B')
WHEN MATCHED THEN UPDATE SET note = (SELECT name FROM customers c WHERE c.customer = o.customer)
WHEN NOT MATCHED AND EXISTS (SELECT FROM customers c WHERE c.customer = o.customer AND name = 'Cyd')
THEN INSERT VALUES (o.id, (SELECT count(*) FROM customers), 'Cyd''s');
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING (SELECT id, sum(amount) AS amount FROM orders GROUP BY id) o ON t.id = o.id
WHEN MATCHED AND t.id = 3 THEN UPDATE SET balance = o.amount - (SELECT max(balance) FROM target)
RETURNING t.id, t.balance, (SELECT count(*) FROM orders x WHERE x.id >= t.id), (SELECT sum(balance) FROM target);
WITH named AS (SELECT customer, upper(name) AS name FROM customers)
MERGE INTO target t USING orders o ON t.id = o.id
WHEN MATCHED THEN UPDATE SET note = (SELECT name FROM named n WHERE n.customer = o.customer);
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING target s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET balance = s.balance;
MERGE INTO target t USING target s JOIN orders o ON s.id = o.id ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET balance = s.balance + o.amount;
SELECT * FROM target ORDER BY id;
MERGE INTO target t USING orders o ON CASE WHEN NOT o.id > 5 THEN t.id = o.id WHEN true THEN false END WHEN MATCHED THEN UPDATE SET note = 'case';
-- whole rows, and the table that a row is from
MERGE INTO target t USING orders o ON t.id = o.id WHEN MATCHED THEN UPDATE SET note = o::text || o.tableoid::regclass;
SELECT * FROM target ORDER BY id;
-- functions made by users
CREATE FUNCTION twice(n integer) RETURNS integer LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN n * 2; END $$;
MERGE INTO target t USING (SELECT twice(1) AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET balance = twice(t.balance);
MERGE INTO target t USING twice(2) AS s ON t.id = s WHEN MATCHED THEN DELETE RETURNING t.id, twice(t.id);
SELECT * FROM target ORDER BY id;
-- a source that is another each time
MERGE INTO target t USING (SELECT 1 + (random() * 0)::integer AS id, random() AS r) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET note = 'random' WHEN NOT MATCHED THEN DO NOTHING RETURNING t.id, t.note, s.r BETWEEN 0 AND 1;
CREATE SEQUENCE numbers;
MERGE INTO target t USING (SELECT o.id, nextval('numbers') AS n FROM orders o ORDER BY o.id LIMIT 2) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET balance = s.n;
SELECT id, balance FROM target ORDER BY id;
-- what goes wrong
MERGE INTO target t USING orders o JOIN customers c ON true ON t.id = o.id WHEN MATCHED THEN UPDATE SET note = c.name;
MERGE INTO target t USING orders o JOIN customers c USING (customer) ON t.id = o.id WHEN NOT MATCHED THEN INSERT VALUES (1, (SELECT count(*) FROM customers));
MERGE INTO target t USING orders o JOIN customers c USING (customer) ON t.id = nothing WHEN MATCHED THEN DELETE;
SELECT count(*), sum(balance) FROM target;
-- in a block, after changes of its own
BEGIN;
INSERT INTO orders VALUES (1, 103, 1000);
MERGE INTO target t USING orders o JOIN customers c USING (customer) ON t.id = o.id
WHEN MATCHED THEN UPDATE SET balance = (SELECT count(*) FROM orders), note = c.name;
SELECT * FROM target ORDER BY id;
ROLLBACK;
SELECT count(*), sum(balance) FROM target;
DROP SCHEMA merging_in_place CASCADE;
