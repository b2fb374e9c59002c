-- Columns that become of another type in the session's time zone, also in those that Spark does not know, or reads the
-- other way round: PostgreSQL's +05:30 is west of Greenwich.
CREATE SCHEMA zoned;
SET search_path = zoned;
CREATE TABLE z (n int, a timestamp, b timestamptz);
INSERT INTO z VALUES (1, '2024-03-01 12:00', '2024-03-01 12:00+00'), (2, '2024-07-01 12:00', '2024-07-01 12:00+00');
SET timezone = '-7';
SHOW timezone;
ALTER TABLE z ALTER a TYPE timestamptz;
ALTER TABLE z ALTER n TYPE text;
SELECT * FROM z ORDER BY n;
SET timezone = 'EST5EDT,M3.2.0,M11.1.0';
ALTER TABLE z ALTER b TYPE timestamp;
SELECT * FROM z ORDER BY n;
SET timezone = '+05:30';
SHOW timezone;
ALTER TABLE z ALTER a TYPE timestamp;
SELECT * FROM z ORDER BY n;
SET timezone = 'FOO-3';
BEGIN;
ALTER TABLE z ALTER a TYPE timestamptz;
SELECT * FROM z ORDER BY n;
SET LOCAL timezone = 'Europe/Zurich';
ALTER TABLE z ALTER a TYPE text, ADD c text GENERATED ALWAYS AS (n || 'c') STORED;
COMMIT;
SELECT * FROM z ORDER BY n;
SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE;
ALTER TABLE z ALTER b TYPE timestamptz USING b + interval '1 month';
SELECT * FROM z ORDER BY n;
