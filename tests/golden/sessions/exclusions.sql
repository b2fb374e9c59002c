-- EXCLUDE constraints in which equality alone decides, with the rows of others, in all ways that rows come.
CREATE TABLE booked (room int, day date, EXCLUDE USING btree (room WITH =, day WITH =));
INSERT INTO booked VALUES (1, '2026-01-01'), (1, '2026-01-02'), (NULL, '2026-01-01'), (NULL, '2026-01-01');
INSERT INTO booked VALUES (1, '2026-01-01');
INSERT INTO booked VALUES (5, '2026-01-01'), (5, '2026-01-01');
INSERT INTO booked SELECT 5, '2026-01-01' FROM generate_series(1, 2);
UPDATE booked SET day = '2026-01-01' WHERE room = 1;
UPDATE booked SET day = day + 1 WHERE room IS NULL RETURNING *;
INSERT INTO booked VALUES (1, '2026-01-01'), (2, '2026-01-01') ON CONFLICT DO NOTHING RETURNING room;
INSERT INTO booked VALUES (1, '2026-01-01') ON CONFLICT ON CONSTRAINT booked_room_day_excl DO NOTHING;
INSERT INTO booked VALUES (1, '2026-01-01') ON CONFLICT ON CONSTRAINT booked_room_day_excl DO UPDATE SET room = 2;
INSERT INTO booked VALUES (1, '2026-01-01') ON CONFLICT (room, day) DO NOTHING;
MERGE INTO booked USING (VALUES (1), (7)) v (r) ON room = r AND day > '2026-06-01'
    WHEN NOT MATCHED THEN INSERT VALUES (r, '2026-01-02');
COPY booked FROM STDIN;
8	2026-01-01
1	2026-01-02
\.
SELECT * FROM booked ORDER BY room, day;
SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'booked'::regclass;

-- ALTER TABLE over rows that are there.
CREATE TABLE numbered (n int, t text);
INSERT INTO numbered VALUES (1, 'a'), (1, 'b'), (2, 'c');
ALTER TABLE numbered ADD CONSTRAINT one EXCLUDE (n WITH =);
DELETE FROM numbered WHERE t = 'b';
ALTER TABLE numbered ADD CONSTRAINT one EXCLUDE (n WITH =), ADD EXCLUDE USING hash (t WITH =);
INSERT INTO numbered VALUES (2, 'x');
INSERT INTO numbered VALUES (3, 'a');
ALTER TABLE numbered ALTER n TYPE bigint;
INSERT INTO numbered VALUES (2, 'x');
BEGIN;
ALTER TABLE numbered DROP CONSTRAINT one, ADD m int;
INSERT INTO numbered VALUES (2, 'x', 1);
ALTER TABLE numbered ADD EXCLUDE (m WITH =);
INSERT INTO numbered VALUES (4, 'y', 1);
ROLLBACK;
ALTER TABLE numbered DROP CONSTRAINT one;
INSERT INTO numbered VALUES (2, 'x');
SELECT * FROM numbered ORDER BY n, t;

-- Deferred, in functions, and copied with LIKE.
CREATE TABLE later (n int, EXCLUDE (n WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO later VALUES (1), (1);
BEGIN;
INSERT INTO later VALUES (1), (1);
DELETE FROM later;
INSERT INTO later VALUES (1);
COMMIT;
BEGIN;
INSERT INTO later VALUES (1);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
CREATE TABLE alike (LIKE booked INCLUDING ALL);
INSERT INTO alike SELECT * FROM booked;
CREATE FUNCTION book(r int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO alike VALUES (r, '2026-01-01');
    RETURN 'booked';
EXCEPTION WHEN exclusion_violation THEN
    RETURN SQLERRM;
END $$;
SELECT book(1), book(20), book(20);
SELECT count(*) FROM alike;
DROP FUNCTION book;
DROP TABLE booked, numbered, later, alike;
