-- Columns of range and multirange types: PostgreSQL computes with them.
CREATE TABLE booking (
    id integer PRIMARY KEY, during tstzrange, days daterange DEFAULT '[2020-01-01,2020-02-01)', pages int4multirange,
    price numrange, many int4range[], CHECK (NOT isempty(days))
);
\d booking
INSERT INTO booking VALUES (1, '[2024-01-01 10:00+00,2024-01-01 12:00+00)', '[2024-01-01,2024-01-05]', '{[1,3),[7,9)}',
    '[1.0,2)', '{"[1,2)","[3,4)"}');
INSERT INTO booking (id, price) VALUES (2, '[1.00,2)'), (3, NULL);
INSERT INTO booking SELECT id + 10, during, days + '[2020-02-01,2020-02-01]', pages, price, many FROM booking WHERE id = 2;
INSERT INTO booking VALUES (4, 'empty', 'empty');
INSERT INTO booking VALUES (4, 'empty', NULL, '{}', '(,)', '{}');
INSERT INTO booking VALUES (5, 'nonsense');
SELECT * FROM booking ORDER BY id;
SET timezone = 'Asia/Tokyo';
SET datestyle = 'SQL, DMY';
SELECT id, during, days FROM booking ORDER BY id;
RESET timezone;
RESET datestyle;
SELECT id FROM booking WHERE during && '[2024-01-01 11:00+00,2024-01-01 11:30+00)' ORDER BY id;
SELECT id FROM booking WHERE days @> date '2024-01-05' ORDER BY id;
SELECT id, lower(days), upper(during), price * '[1.5,3)' FROM booking ORDER BY price NULLS LAST, id;
SELECT price, count(*), array_agg(id ORDER BY id) FROM booking GROUP BY price ORDER BY price;
SELECT DISTINCT days FROM booking ORDER BY days;
SELECT count(during), count(*), count(DISTINCT price) FROM booking;
SELECT a.id, b.id FROM booking a JOIN booking b ON a.price = b.price AND a.id < b.id ORDER BY 1, 2;
SELECT id FROM booking WHERE during IS NULL ORDER BY id;
SELECT id FROM booking WHERE price = '[1,2)' ORDER BY id;
SELECT id FROM booking WHERE many[1] = '[1,2)';
SELECT id, CASE WHEN id = 1 THEN price END, coalesce(price, '[9,9]'), nullif(days, '[2020-01-01,2020-02-01)') FROM booking ORDER BY id;
SELECT range_agg(days), min(days), max(price) FROM booking;
UPDATE booking SET days = days * '[2020-01-10,)' WHERE id = 2 RETURNING id, days, old.days;
UPDATE booking SET id = id + 100 WHERE id = 3;
UPDATE booking SET pages = pages + '{[20,30)}' WHERE pages IS NOT NULL;
DELETE FROM booking WHERE price <@ '[0,5)'::numrange AND id > 10 RETURNING *;
SELECT * FROM booking ORDER BY id;
INSERT INTO booking VALUES (1, NULL, '[2030-01-01,2030-01-02)') ON CONFLICT (id) DO UPDATE SET days = excluded.days + booking.days;
INSERT INTO booking VALUES (1, NULL, '[2024-01-02,2024-02-02)') ON CONFLICT (id) DO UPDATE SET days = excluded.days + booking.days
    RETURNING *;
MERGE INTO booking b USING (VALUES (2, int4range(1, 5)), (77, int4range(5, 6))) AS v (id, r) ON v.id = b.id
    WHEN MATCHED THEN UPDATE SET many = b.many || v.r WHEN NOT MATCHED THEN INSERT (id, many) VALUES (v.id, ARRAY[v.r])
    RETURNING b.id, b.many;
COPY booking TO STDOUT;
COPY (SELECT id, during, price FROM booking ORDER BY id) TO STDOUT (FORMAT csv);
COPY booking (id, days, many) FROM STDIN;
200	[2001-01-01,2001-01-03]	{empty,NULL}
201	\N	\N
\.
COPY booking (id, days) FROM STDIN;
202	empty
\.
SELECT id, days, many FROM booking WHERE id >= 200 ORDER BY id;
ALTER TABLE booking ADD COLUMN more int8range DEFAULT '[5,6]', ADD COLUMN computed int4range GENERATED ALWAYS AS (int4range(id, id + 1)) STORED;
SELECT id, more, computed FROM booking ORDER BY id;
UPDATE booking SET id = 300 WHERE id = 200 RETURNING more, computed;
ALTER TABLE booking ALTER more TYPE text;
SELECT id, more FROM booking ORDER BY id LIMIT 2;
ALTER TABLE booking ALTER more TYPE numrange USING more::numrange;
SELECT id, more FROM booking ORDER BY id LIMIT 2;
BEGIN;
DECLARE c CURSOR FOR SELECT id, days FROM booking ORDER BY id;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
UPDATE booking SET days = NULL WHERE id = 2;
SELECT id, days FROM booking WHERE id = 2;
ROLLBACK;
PREPARE p (daterange) AS SELECT id FROM booking WHERE days && $1 ORDER BY id;
EXECUTE p ('[2024-01-01,2024-01-03)');
DEALLOCATE p;
CREATE INDEX ON booking USING gist (during);
CREATE INDEX ON booking (days);
SELECT id FROM booking WHERE days = '[2020-01-10,2020-02-01)';
CREATE TABLE keyed (r int4range PRIMARY KEY, x integer);
INSERT INTO keyed VALUES ('[1,3]', 1), ('(0,2)', 2);
INSERT INTO keyed VALUES ('[1,4)', 3);
INSERT INTO keyed VALUES ('[1,4)', 3) ON CONFLICT (r) DO UPDATE SET x = keyed.x + excluded.x RETURNING *;
CREATE TABLE child (id integer, r int4range REFERENCES keyed);
INSERT INTO child VALUES (1, '[1,2)');
INSERT INTO child VALUES (2, '[1,9)');
DELETE FROM keyed WHERE r = '[1,2)';
DROP TABLE child, keyed;
DROP TABLE booking;
-- As columns of blocks that make their types.
BEGIN;
CREATE TYPE span AS RANGE (subtype = integer);
CREATE TABLE spans (id integer, s span, many span[]);
INSERT INTO spans VALUES (1, '[1,5)', '{"[1,2)"}'), (2, NULL, NULL);
SELECT * FROM spans ORDER BY id;
ALTER TABLE spans ADD COLUMN more span DEFAULT '[7,8)';
SELECT id, s * '[2,9)', more FROM spans ORDER BY id;
COMMIT;
SELECT * FROM spans ORDER BY id;
ANALYZE spans;
CREATE TABLE copied AS SELECT id, s, more FROM spans;
SELECT * FROM copied ORDER BY id;
CREATE TEMPORARY TABLE beside AS SELECT * FROM spans;
SELECT * FROM beside ORDER BY id;
INSERT INTO spans SELECT * FROM beside;
SELECT count(*), count(s) FROM spans;
CREATE MATERIALIZED VIEW seen AS SELECT id, more FROM spans WHERE s && '[1,2)';
SELECT * FROM seen;
WITH gone AS (DELETE FROM spans WHERE s @> 3 RETURNING s) SELECT DISTINCT s FROM gone;
TRUNCATE spans;
SELECT * FROM spans;
DROP MATERIALIZED VIEW seen;
DROP TABLE spans, copied, beside;
DROP TYPE span;
