-- Triggers and functions that add so many rows that these go to files as they come.
CREATE SCHEMA many_rows;
SET search_path = many_rows;
CREATE TABLE item (id integer PRIMARY KEY, name text, twice integer GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY, what text, item integer REFERENCES item DEFERRABLE);
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log (what, item) VALUES (TG_OP, NEW.id);
    RETURN NULL;
END $$;
CREATE FUNCTION named() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.name := coalesce(NEW.name, 'item ' || NEW.id); RETURN NEW; END $$;
CREATE TRIGGER named BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION named();
CREATE TRIGGER noted AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION noted();
INSERT INTO item (id) SELECT generate_series(1, 2500);
SELECT count(*), sum(id), max(name), sum(twice) FROM item;
SELECT count(*), sum(item), max(id) FROM log;
-- Among themselves and with rows that are there.
INSERT INTO item (id) SELECT CASE g WHEN 2600 THEN 2599 ELSE g END FROM generate_series(2501, 5000) g;
INSERT INTO item (id) SELECT g FROM generate_series(2500, 0, -1) g WHERE g IN (0, 2500) OR g < -1;
SELECT count(*), sum(id), max(name) FROM item;
BEGIN;
INSERT INTO item (id) SELECT generate_series(2501, 5000);
SAVEPOINT s;
INSERT INTO item (id) SELECT generate_series(5001, 7500);
SELECT count(*), sum(twice) FROM item;
ROLLBACK TO s;
SELECT count(*), sum(twice) FROM item;
ROLLBACK;
SELECT count(*), sum(twice) FROM item;
-- A function that adds rows, reads them, and catches an error.
DO $$
DECLARE n bigint;
BEGIN
    BEGIN
        INSERT INTO item (id) SELECT generate_series(2501, 5000);
        RAISE unique_violation;
    EXCEPTION WHEN unique_violation THEN
        INSERT INTO log (what) SELECT 'caught' FROM generate_series(1, 2500);
    END;
    SELECT count(*) INTO n FROM log;
    RAISE NOTICE '% rows', n;
END $$;
SELECT what, count(*) FROM log GROUP BY 1 ORDER BY 1;
-- In place of all.
DO $$
BEGIN
    TRUNCATE item, log;
    INSERT INTO item (id) SELECT generate_series(1, 2500);
END $$;
SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM log);
DROP SCHEMA many_rows CASCADE;
