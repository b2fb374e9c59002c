-- Rows change by every statement that changes rows, and every way in keeps the rules.
CREATE SCHEMA shop;
SET search_path = shop;
CREATE TABLE item (
    id integer GENERATED ALWAYS AS IDENTITY, code serial, name text NOT NULL DEFAULT 'unnamed',
    price numeric(8, 2) CHECK (price >= 0), bought date DEFAULT '2024-02-29', tags text[],
    total numeric GENERATED ALWAYS AS (price * 2) STORED
);
INSERT INTO item (name, price) VALUES ('a', 1.005), ('b', 2.5), ('c', NULL) RETURNING id, code, name, price, total;
INSERT INTO item DEFAULT VALUES;
INSERT INTO item (name, price, tags) SELECT 'g' || g, g, ARRAY['x', 'y' || g] FROM generate_series(1, 5) g;
INSERT INTO item (id, name) VALUES (1, 'mine');
INSERT INTO item (id, name) OVERRIDING SYSTEM VALUE VALUES (100, 'mine');
SELECT * FROM item ORDER BY id;
-- refused, each by PostgreSQL's own words
INSERT INTO item (name) VALUES (NULL);
INSERT INTO item (price) VALUES (-1);
INSERT INTO item (price) VALUES (1234567.5);
INSERT INTO item (nothing) VALUES (1);
INSERT INTO item (price) VALUES ('many');
INSERT INTO item (total) VALUES (1);
COPY item (name, price) FROM STDIN;
copied	3.333
\N	4
\.
COPY item (name, price) FROM STDIN;
copied	3.335
also	-4
\.
COPY item (name, price) FROM STDIN;
copied	3.335
also	\N
\.
COPY item (name, price, bought) FROM STDIN (FORMAT csv, HEADER);
name,price,bought
"quoted, and ""so""",7.5,"Jan 5, 2021"
plain,8,
\.
COPY item (name) FROM STDIN;
a	b
\.
COPY item (name, price, bought, code) FROM STDIN (DEFAULT '\D');
\D	9	\D	\D
given	\N	2020-02-02	\D
plain	9.5	Jan 6, 2021	77
\.
COPY item (name, price) FROM STDIN (FORMAT csv, DEFAULT 'standard');
standard,10
"standard",11
\.
COPY item (name, price) FROM STDIN (DEFAULT '\D');
x	\D
\.
CREATE TABLE plain (n integer DEFAULT 7, t text DEFAULT 'seven', x integer);
COPY plain FROM STDIN (DEFAULT '\D');
1	one	1
\D	\D	\N
3	\D	3
\.
COPY plain FROM STDIN (DEFAULT '\D');
1	one	\D
\.
SELECT * FROM plain ORDER BY n;
DROP TABLE plain;
SELECT id, code, name, price, bought, total FROM item ORDER BY id;
UPDATE item SET price = price + 1, name = upper(name) WHERE price > 2 AND id < 8;
UPDATE item SET price = 5 WHERE id = 2 RETURNING id, name, price, total;
UPDATE item SET price = NULL, tags = NULL WHERE id IN (7, 8);
UPDATE item SET price = 1 WHERE false;
UPDATE item SET bought = DEFAULT, name = DEFAULT WHERE name = 'plain';
SELECT id, code, name, price, bought, tags, total FROM item ORDER BY id;
CREATE TABLE raise (item_id integer, by numeric(8, 2));
INSERT INTO raise VALUES (1, 10), (2, 20), (2, 20), (99, 1);
UPDATE item i SET price = i.price + r.by FROM raise r WHERE r.item_id = i.id;
SELECT id, price FROM item WHERE id < 4 ORDER BY id;
DELETE FROM item USING raise WHERE item.id = raise.item_id RETURNING item.id;
DELETE FROM item WHERE id = 12345;
SELECT count(*), sum(price), min(name), max(id) FROM item;
CREATE TABLE copy_of AS SELECT name, price * 2 AS twice, total FROM item WHERE price IS NOT NULL;
SELECT * FROM copy_of ORDER BY name, twice;
CREATE TABLE numbers (n, square) AS SELECT g, g * g FROM generate_series(1, 3) g;
CREATE TABLE IF NOT EXISTS numbers AS SELECT 1;
SELECT * FROM numbers ORDER BY n;
SELECT n, square INTO others FROM numbers WHERE n > 1;
SELECT * FROM others ORDER BY n;
CREATE TABLE empty AS SELECT * FROM numbers WITH NO DATA;
SELECT * FROM empty;
INSERT INTO empty SELECT n + 10, square FROM numbers WHERE n > 1;
INSERT INTO empty SELECT * FROM empty;
SELECT * FROM empty ORDER BY n;
CREATE VIEW cheap AS SELECT name, price FROM item WHERE price < 5;
SELECT * FROM cheap ORDER BY name;
TRUNCATE numbers;
SELECT count(*) FROM numbers;
TRUNCATE item, others RESTART IDENTITY;
INSERT INTO item (name) VALUES ('first') RETURNING id;
COMMENT ON TABLE item IS 'things';
DELETE FROM item;
SELECT count(*) FROM item;
DROP VIEW cheap;
DROP TABLE item, raise, copy_of, numbers, others, empty;
DROP SCHEMA shop;
