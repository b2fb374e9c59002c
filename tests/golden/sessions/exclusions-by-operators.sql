-- EXCLUDE constraints that forbid more than equal values: PostgreSQL decides, with the rows of others, in all ways that
-- rows come.
CREATE TABLE stay (id int PRIMARY KEY, during tsrange, cancelled bool DEFAULT false, note text,
    EXCLUDE USING gist (during WITH &&) WHERE (NOT cancelled));
INSERT INTO stay VALUES (1, '[2026-01-01,2026-01-05)'), (2, '[2026-01-05,2026-01-07)'), (3, NULL), (4, NULL);
INSERT INTO stay VALUES (5, '[2026-01-04,2026-01-06)');
INSERT INTO stay VALUES (5, '[2026-01-04,2026-01-06)', true), (6, '[2026-01-04,2026-01-06)', true);
INSERT INTO stay VALUES (7, '[2026-03-01,2026-03-05)'), (8, '[2026-03-07,2026-03-09)'), (9, '[2026-03-04,2026-03-08)');
INSERT INTO stay VALUES (7, '[2026-01-01 10:00,2026-01-01 12:00)') RETURNING id;
SET datestyle = german;
INSERT INTO stay VALUES (7, '[2026-01-01 10:00,2026-01-01 12:00)');
RESET datestyle;
INSERT INTO stay VALUES (7, 'empty'), (8, 'empty');
UPDATE stay SET during = '[2026-01-02,2026-01-03)' WHERE id = 2;
UPDATE stay SET during = '[2026-01-02,2026-01-03)' WHERE id = 1 RETURNING during;
UPDATE stay SET cancelled = false WHERE id = 5;
UPDATE stay SET note = 'x';
UPDATE stay SET during = during + tsrange '[2026-01-02,2026-01-02]' WHERE id = 1;
INSERT INTO stay VALUES (10, '[2026-01-02,2026-01-10)'), (11, '[2027-01-01,2027-01-02)'), (12, '[2027-01-01,2027-01-03)')
    ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO stay VALUES (10, '[2026-01-02,2026-01-10)') ON CONFLICT ON CONSTRAINT stay_during_excl DO NOTHING;
INSERT INTO stay VALUES (10, '[2026-01-02,2026-01-10)') ON CONFLICT ON CONSTRAINT stay_during_excl DO UPDATE SET id = 2;
INSERT INTO stay VALUES (10, '[2026-01-02,2026-01-10)') ON CONFLICT (during) DO NOTHING;
INSERT INTO stay VALUES (1, '[2026-01-05,2026-01-06)') ON CONFLICT (id) DO UPDATE SET during = excluded.during;
INSERT INTO stay VALUES (1, '[2026-02-05,2026-02-06)') ON CONFLICT (id) DO UPDATE SET during = excluded.during;
INSERT INTO stay SELECT 100 + n, tsrange('2030-01-01'::timestamp + n * interval '1 day', '2030-01-02'::timestamp + n * interval '1 day')
    FROM generate_series(1, 100) n;
INSERT INTO stay SELECT 300 + n, tsrange('2031-01-01'::timestamp + n * interval '1 day', '2031-01-02 01:00'::timestamp + n * interval '1 day')
    FROM generate_series(1, 100) n;
INSERT INTO stay SELECT 300 + n, tsrange('2030-03-01'::timestamp - n * interval '1 day', '2030-03-02'::timestamp - n * interval '1 day')
    FROM generate_series(1, 50) n;
INSERT INTO stay SELECT id + 1000, during FROM stay WHERE id > 100 ORDER BY id;
MERGE INTO stay USING (VALUES (1), (400)) v (i) ON id = i
    WHEN MATCHED THEN UPDATE SET during = '[2026-01-05,2026-01-06)' WHEN NOT MATCHED THEN INSERT VALUES (i, NULL);
COPY stay FROM STDIN;
500	[2040-01-01,2040-01-02)	f	\N
501	[2026-02-05,2026-03-01)	f	\N
\.
SELECT count(*), sum(id) FROM stay;
SELECT id, during, cancelled FROM stay WHERE id < 100 ORDER BY id;
SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'stay'::regclass ORDER BY 1;
\d stay

-- Over expressions, several operators, other methods and types.
CREATE TABLE room (number int, at date, days int, kind text, spot point, net inet, name text,
    CONSTRAINT one EXCLUDE USING gist (int4range(number, number, '[]') WITH =, daterange(at, at + days) WITH &&),
    CONSTRAINT near EXCLUDE USING gist (circle(spot, 1) WITH &&),
    CONSTRAINT nets EXCLUDE USING gist (net inet_ops WITH &&),
    CONSTRAINT kinds EXCLUDE USING btree (lower(kind) WITH =, number WITH =) WHERE (number > 5));
INSERT INTO room VALUES (1, '2026-01-01', 3, 'a', '(0,0)', '10.0.0.0/24'), (1, '2026-01-04', 1, 'b', '(5,5)', '10.0.1.0/24');
INSERT INTO room VALUES (1, '2026-01-02', 1, 'a', NULL, NULL);
INSERT INTO room VALUES (2, '2026-01-02', 1, 'a', '(1,1)', NULL);
INSERT INTO room VALUES (2, '2026-01-02', 1, 'a', NULL, '10.0.0.7');
INSERT INTO room VALUES (7, '2026-01-02', 1, 'A'), (8, '2026-01-02', 1, 'A');
INSERT INTO room VALUES (7, '2027-01-02', 1, 'a');
INSERT INTO room VALUES (4, '2027-01-02', 1, 'A'), (5, '2027-01-02', 1, 'a');
INSERT INTO room VALUES (9, '2026-01-02', -1, 'A');
UPDATE room SET number = 7 WHERE number = 4;
UPDATE room SET days = 9 WHERE number = 1 AND at = '2026-01-01';
SELECT number, at, days, kind, spot, net FROM room ORDER BY 1, 2;
ALTER TABLE room RENAME number TO "the number";
ALTER TABLE room RENAME CONSTRAINT one TO "the one";
INSERT INTO room VALUES (1, '2026-01-02', 1, 'a', NULL, NULL);
CREATE TABLE alike (LIKE room INCLUDING ALL);
INSERT INTO alike SELECT * FROM room;
INSERT INTO alike SELECT * FROM room LIMIT 1;
CREATE TABLE single (a int, b bool DEFAULT true, EXCLUDE USING btree (b WITH =) WHERE (a IS NULL));
INSERT INTO single VALUES (1), (1), (NULL);
INSERT INTO single VALUES (NULL);
CREATE TABLE alone (a int, EXCLUDE USING gist ((int4range(1, 2)) WITH &&));
INSERT INTO alone VALUES (1);
INSERT INTO alone VALUES (2);
UPDATE alone SET a = 3;
CREATE TABLE long (i interval, EXCLUDE (i WITH =));
INSERT INTO long VALUES ('1 day'), ('2 days');
SET intervalstyle = iso_8601;
INSERT INTO long VALUES ('24 hours');
RESET intervalstyle;
CREATE TABLE differs (g int4range, k int4range, EXCLUDE USING gist (g WITH =, k WITH -|-));
INSERT INTO differs VALUES ('[1,2)', '[1,2)'), ('[1,2)', '[1,2)'), ('[3,4)', '[5,6)');
INSERT INTO differs VALUES ('[1,2)', '[2,8)');

-- ALTER TABLE over rows that are there.
CREATE TABLE later (n int4range, t text);
INSERT INTO later VALUES ('[1,5)', 'a'), ('[7,9)', 'b'), ('[8,10)', 'c'), ('[4,6)', 'd');
ALTER TABLE later ADD CONSTRAINT one EXCLUDE USING gist (n WITH &&);
DELETE FROM later WHERE t IN ('c', 'd');
ALTER TABLE later ADD CONSTRAINT one EXCLUDE USING gist (n WITH &&), ADD CONSTRAINT two EXCLUDE (t WITH =) WHERE (t > 'k');
INSERT INTO later VALUES ('[3,4)', 'x');
INSERT INTO later VALUES ('[13,14)', 'x'), ('[14,15)', 'x');
ALTER TABLE later ALTER n TYPE int8range USING int8range(0, upper(n));
ALTER TABLE later ALTER n TYPE int8range USING int8range(lower(n), upper(n));
INSERT INTO later VALUES ('[3,4)', 'x');
ALTER TABLE later DROP COLUMN n;
INSERT INTO later VALUES ('x');
INSERT INTO later VALUES ('x');
BEGIN;
ALTER TABLE later ADD m int8range;
INSERT INTO later VALUES ('c', '[1,2)'), ('d', '[1,3)');
SAVEPOINT a;
ALTER TABLE later ADD EXCLUDE USING gist (m WITH &&);
ROLLBACK TO a;
UPDATE later SET m = '[2,3)' WHERE t = 'd';
ALTER TABLE later ADD EXCLUDE USING gist (m WITH &&);
SAVEPOINT b;
INSERT INTO later VALUES ('e', '[2,4)');
ROLLBACK TO b;
INSERT INTO later VALUES ('e', '[3,4)');
COMMIT;
INSERT INTO later VALUES ('f', '[1,4)');
SELECT * FROM later ORDER BY t;

-- Deferred, in functions and triggers.
CREATE TABLE put_off (n int4range, CONSTRAINT off EXCLUDE USING gist (n WITH &&) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO put_off VALUES ('[1,3)'), ('[2,4)');
BEGIN;
INSERT INTO put_off VALUES ('[1,3)'), ('[2,4)');
DELETE FROM put_off WHERE n = '[1,3)';
COMMIT;
BEGIN;
INSERT INTO put_off VALUES ('[3,5)');
SET CONSTRAINTS off IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO put_off VALUES ('[3,5)');
ROLLBACK;
INSERT INTO put_off VALUES ('[3,5)') ON CONFLICT DO NOTHING;
SELECT * FROM put_off;
CREATE FUNCTION book(r int4range) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO differs VALUES ('[1,2)', r);
    RETURN 'booked';
EXCEPTION WHEN exclusion_violation THEN
    RETURN SQLERRM;
END $$;
SELECT book('[1,2)'), book('[2,3)'), book('[1,2)');
DO $$ BEGIN INSERT INTO differs VALUES ('[1,2)', '[-5,1)'); END $$;
SELECT count(*) FROM differs;
DROP FUNCTION book;
DROP TABLE stay, room, alike, single, alone, long, differs, later, put_off;
