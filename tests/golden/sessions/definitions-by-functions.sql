-- Defaults, conversions and checks of existing rows by functions of users, VOLATILE as functions are by default.

CREATE TABLE tickets (id int PRIMARY KEY, status text, n int);
INSERT INTO tickets VALUES (1, 'open', 10), (2, 'closed', 20), (3, NULL, NULL);
CREATE SEQUENCE numbers;
CREATE FUNCTION code(v text) RETURNS int LANGUAGE plpgsql AS
    'BEGIN RETURN CASE v WHEN ''open'' THEN 1 WHEN ''closed'' THEN 2 END; END';
CREATE FUNCTION new_number() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN nextval(''numbers'') * 1000; END';
CREATE FUNCTION warns(v int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE NOTICE ''v %'', v; RETURN v * 2; END';
CREATE FUNCTION positive(v int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN v > 0; END';
CREATE FUNCTION fails(v bigint) RETURNS int LANGUAGE plpgsql AS
    'BEGIN IF v > 20 THEN RAISE EXCEPTION ''too much: %'', v USING ERRCODE = ''22003''; END IF; RETURN v; END';

-- a default
ALTER TABLE tickets ADD COLUMN number bigint DEFAULT new_number();
SELECT id, number FROM tickets ORDER BY id;
INSERT INTO tickets (id, status) VALUES (4, 'open');
SELECT id, number FROM tickets ORDER BY id;
ALTER TABLE tickets ADD COLUMN w int NOT NULL DEFAULT warns(3), ADD COLUMN s serial;
SELECT id, w, s FROM tickets ORDER BY id;
ALTER TABLE tickets ALTER COLUMN w SET DEFAULT 6;
ALTER TABLE tickets ADD COLUMN f int DEFAULT fails(21);

-- a check
ALTER TABLE tickets ADD CHECK (code(status) < 5);
ALTER TABLE tickets ADD CONSTRAINT open_only CHECK (code(status) < 2);
ALTER TABLE tickets ADD CONSTRAINT open_only CHECK (code(status) < 2) NOT VALID;
ALTER TABLE tickets VALIDATE CONSTRAINT open_only;
INSERT INTO tickets VALUES (5, 'closed');
DELETE FROM tickets WHERE status = 'closed';
ALTER TABLE tickets VALIDATE CONSTRAINT open_only;
ALTER TABLE tickets DROP CONSTRAINT open_only, DROP CONSTRAINT tickets_status_check;

-- a conversion
ALTER TABLE tickets ALTER COLUMN status TYPE int USING code(status);
ALTER TABLE tickets ALTER COLUMN n TYPE bigint USING warns(n);
ALTER TABLE tickets ALTER COLUMN n TYPE int USING fails(n + 5);
SELECT id, status, n FROM tickets ORDER BY id;
BEGIN;
ALTER TABLE tickets ALTER COLUMN n TYPE int USING warns(n::int);
ALTER TABLE tickets ADD COLUMN q int DEFAULT warns(3);
SELECT id, n, q FROM tickets ORDER BY id;
ALTER TABLE tickets ALTER COLUMN q SET DEFAULT 6;
INSERT INTO tickets (id, n) VALUES (20, 5);
SELECT id, n, q FROM tickets ORDER BY id;
SAVEPOINT a;
ALTER TABLE tickets ALTER COLUMN n TYPE text USING fails(100);
ROLLBACK TO a;
SELECT id, n, q FROM tickets ORDER BY id;
ROLLBACK;
SELECT id, n FROM tickets ORDER BY id;

-- a domain
CREATE DOMAIN amount AS int CHECK (VALUE > -10);
CREATE DOMAIN small_amount AS amount;
ALTER TABLE tickets ADD COLUMN e amount DEFAULT 1, ADD COLUMN g small_amount;
UPDATE tickets SET g = id;
ALTER DOMAIN amount ADD CONSTRAINT k CHECK (positive(VALUE));
ALTER DOMAIN amount ADD CONSTRAINT k3 CHECK (positive(VALUE - 2));
UPDATE tickets SET e = 3;
ALTER DOMAIN amount ADD CONSTRAINT k3 CHECK (positive(VALUE - 2));
UPDATE tickets SET g = 5 WHERE id = 1;
ALTER DOMAIN amount ADD CONSTRAINT k3 CHECK (positive(VALUE - 2));
INSERT INTO tickets (id, e) VALUES (30, 2);
SELECT id, e, g FROM tickets ORDER BY id;
