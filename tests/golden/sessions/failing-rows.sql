-- Which row broke a constraint, of rows that come from other tables.
CREATE SCHEMA failing;
SET search_path = failing;
CREATE TABLE source (id integer, name text, price numeric, at timestamptz, tags text[], raw bytea, span interval, ok boolean);
INSERT INTO source VALUES
    (1, 'good', 1.50, '2026-01-01 12:00+00', '{a}', '\x00ff', '1 day', true),
    (2, 'bad', -1.50, '2026-02-01 12:00+00', '{a,NULL,"b c"}', '\x00ff', '1 mon 2 days 03:00', false),
    (3, NULL, 3, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE target (id integer NOT NULL, name text NOT NULL, price numeric(8, 2) CHECK (price > 0), at timestamptz, tags text[],
    raw bytea, span interval, ok boolean, twice numeric GENERATED ALWAYS AS (price * 2) STORED, CONSTRAINT short CHECK (length(name) < 200));
INSERT INTO target SELECT * FROM source WHERE id <> 2;
INSERT INTO target SELECT * FROM source WHERE id <> 3;
INSERT INTO target SELECT id, 'näme ' || repeat('ü', 100), price FROM source WHERE id = 1;
INSERT INTO target SELECT id, repeat('x', 200), price FROM source WHERE id = 1;
INSERT INTO target SELECT * FROM source WHERE id = 1;
UPDATE target SET price = price - 10;
UPDATE target SET name = NULL;
UPDATE target t SET price = s.price FROM source s WHERE s.id = 2;
SET DateStyle = 'German';
SET TimeZone = 'Europe/Berlin';
INSERT INTO target SELECT * FROM source WHERE id = 2;
BEGIN;
UPDATE target SET price = -price RETURNING id;
ROLLBACK;
SELECT id, name, price, twice FROM target;
-- who may not read is told nothing
CREATE ROLE failing_client;
GRANT USAGE ON SCHEMA failing TO failing_client;
GRANT SELECT ON source TO failing_client;
GRANT INSERT, SELECT ON target TO failing_client;
GRANT failing_client TO CURRENT_USER;
SET ROLE failing_client;
INSERT INTO target SELECT * FROM source WHERE id = 2;
RESET ROLE;
-- the line of COPY's data
CREATE TABLE keyed (id integer PRIMARY KEY, name text UNIQUE);
COPY keyed FROM STDIN;
1	one
2	two
3	three
\.
COPY keyed FROM STDIN;
4	four
2	zwei
\.
COPY keyed FROM STDIN;
4	four
5	five
6	four
\.
COPY keyed (name, id) FROM STDIN WITH (FORMAT csv, HEADER);
name,id
"a
b",7
"c
d",8
three,9
\.
BEGIN;
INSERT INTO keyed VALUES (10, 'ten');
COPY keyed FROM STDIN;
11	eleven
10	again
\.
ROLLBACK;
SELECT * FROM keyed ORDER BY id;
RESET ALL;
DROP OWNED BY failing_client;
DROP ROLE failing_client;
SET client_min_messages = warning;
DROP SCHEMA failing CASCADE;
