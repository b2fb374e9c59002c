-- INSTEAD OF triggers of views over lake tables.
CREATE SCHEMA tv;
SET search_path = tv;
SET client_min_messages = notice;
CREATE TABLE person (id integer PRIMARY KEY, name text);
CREATE TABLE address (person integer REFERENCES person, city text);
INSERT INTO person VALUES (1, 'ann'), (2, 'bob');
INSERT INTO address VALUES (1, 'rome'), (2, 'oslo');
CREATE VIEW both_of AS SELECT p.id, p.name, a.city FROM person p LEFT JOIN address a ON a.person = p.id;
CREATE FUNCTION change_both() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO person VALUES (NEW.id, NEW.name);
        INSERT INTO address VALUES (NEW.id, NEW.city);
        RETURN NEW;
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE person SET name = NEW.name WHERE id = OLD.id;
        UPDATE address SET city = NEW.city WHERE person = OLD.id;
        RETURN NEW;
    END IF;
    DELETE FROM address WHERE person = OLD.id;
    DELETE FROM person WHERE id = OLD.id;
    RETURN OLD;
END $$;
CREATE TRIGGER change_both INSTEAD OF INSERT OR UPDATE OR DELETE ON both_of FOR EACH ROW EXECUTE FUNCTION change_both();
INSERT INTO both_of VALUES (3, 'cyd', 'bern') RETURNING *;
UPDATE both_of SET city = upper(city), name = initcap(name) WHERE id < 3;
UPDATE both_of SET city = 'paris' WHERE name = 'cyd' RETURNING id, city;
DELETE FROM both_of WHERE id = 2;
INSERT INTO both_of VALUES (1, 'again', 'x');
SELECT * FROM both_of ORDER BY id;
BEGIN;
DELETE FROM both_of;
SELECT count(*) FROM person;
ROLLBACK;
MERGE INTO both_of b USING (VALUES (3, 'cee'), (4, 'dan')) v (id, name) ON b.id = v.id
    WHEN MATCHED THEN UPDATE SET name = v.name WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.name, 'lund');
SELECT * FROM person ORDER BY id;
SELECT * FROM address ORDER BY person;
-- a view that PostgreSQL changes itself, over a table with triggers
CREATE VIEW named AS SELECT id, name FROM person WHERE id < 100;
CREATE FUNCTION lower_name() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := lower(NEW.name); RETURN NEW; END $$;
CREATE TRIGGER lower_name BEFORE INSERT OR UPDATE ON person FOR EACH ROW EXECUTE FUNCTION lower_name();
INSERT INTO named VALUES (10, 'TEN');
UPDATE named SET name = 'NOBODY' WHERE id = 1;
SELECT * FROM person ORDER BY id;
DROP SCHEMA tv CASCADE;
