-- Functions, DO, and INSTEAD OF triggers that insert rows take each number of a sequence once.
CREATE SCHEMA numbered;
SET search_path = numbered;
CREATE TABLE country (id serial PRIMARY KEY, name text);
CREATE TABLE city (id serial PRIMARY KEY, name text, country integer);
INSERT INTO country (name) VALUES ('x');
CREATE VIEW cities AS
    SELECT city.id, city.name, country.name AS of_country FROM city LEFT JOIN country ON country.id = city.country;
CREATE FUNCTION enter() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE found integer;
BEGIN
    IF NEW.of_country IS NOT NULL THEN SELECT id INTO found FROM country WHERE name = NEW.of_country; END IF;
    INSERT INTO city (name, country) VALUES (NEW.name, found) RETURNING id INTO NEW.id;
    RETURN NEW;
END $$;
CREATE TRIGGER enter INSTEAD OF INSERT ON cities FOR EACH ROW EXECUTE FUNCTION enter();
INSERT INTO cities (name) VALUES ('a') RETURNING *;
INSERT INTO cities (name, of_country) VALUES ('b', 'x') RETURNING *;
INSERT INTO cities (name, of_country) VALUES ('c', 'x');
WITH made AS (INSERT INTO cities (name) VALUES ('d') RETURNING *) SELECT * FROM made;

CREATE FUNCTION add(named text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE made integer;
BEGIN
    INSERT INTO city (name) VALUES (named) RETURNING id INTO made;
    RETURN made;
EXCEPTION WHEN unique_violation THEN RETURN -1;
END $$;
CREATE FUNCTION add_twice(named text) RETURNS integer LANGUAGE sql AS $$ SELECT add(named) + add(named) $$;
SELECT add('e');
SELECT add('f'), add('g');
SELECT add_twice('h');
PREPARE adding AS SELECT add($1);
EXECUTE adding('i');
EXECUTE adding('j');
DO $$ BEGIN INSERT INTO city (name) VALUES ('k'); RAISE NOTICE '%', currval('city_id_seq'); END $$;
CREATE PROCEDURE add_some(count integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 1..count LOOP INSERT INTO city (name) VALUES ('some ' || n); END LOOP;
END $$;
CALL add_some(3);
BEGIN;
SELECT add('l');
SAVEPOINT s;
SELECT add('m');
ROLLBACK TO s;
SELECT add('n');
COMMIT;
CREATE UNIQUE INDEX ON city (name);
SELECT add('a');
SELECT add('o');
INSERT INTO city (name) VALUES ('p') RETURNING id;
SELECT nextval('country_id_seq'), add('q'), lastval();
SELECT id, name, country FROM city ORDER BY id;
SELECT last_value FROM city_id_seq;
SET client_min_messages = error;
DROP SCHEMA numbered CASCADE;
