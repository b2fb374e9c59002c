-- Triggers on tables as people write them: updated_at, audit, counters, validation, normalised columns.
CREATE SCHEMA tu;
SET search_path = tu;
SET client_min_messages = notice;

-- updated_at
CREATE TABLE doc (id integer PRIMARY KEY, title text, version integer DEFAULT 1, created_at timestamptz DEFAULT now(), updated_at timestamptz);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;
CREATE TRIGGER doc_touch BEFORE UPDATE ON doc FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO doc (id, title) VALUES (1, 'one'), (2, 'two'), (3, 'three');
UPDATE doc SET title = upper(title) WHERE id < 3;
UPDATE doc SET title = 'last' WHERE id = 3 RETURNING id, title, version, updated_at = now();
UPDATE doc SET title = 'none' WHERE id = 99;
SELECT id, title, version, updated_at IS NOT NULL AS touched FROM doc ORDER BY id;
INSERT INTO doc (id, title) VALUES (3, 'again') ON CONFLICT (id) DO UPDATE SET title = excluded.title;
INSERT INTO doc (id, title) VALUES (3, 'not this') ON CONFLICT DO NOTHING;
MERGE INTO doc d USING (VALUES (1, 'merged'), (9, 'new')) v (id, title) ON d.id = v.id
    WHEN MATCHED THEN UPDATE SET title = v.title WHEN NOT MATCHED THEN INSERT (id, title) VALUES (v.id, v.title);
SELECT id, title, version FROM doc ORDER BY id;

-- audit
CREATE TABLE item (id serial PRIMARY KEY, name text NOT NULL, price numeric(10, 2) CHECK (price >= 0));
CREATE TABLE item_log (log_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, op text, who text, old jsonb, new jsonb);
CREATE FUNCTION log_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO item_log (op, who, old) VALUES (TG_OP, TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME, to_jsonb(OLD));
        RETURN OLD;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO item_log (op, who, old, new) VALUES (TG_OP, TG_NAME, to_jsonb(OLD), to_jsonb(NEW));
        RETURN NEW;
    END IF;
    INSERT INTO item_log (op, who, new) VALUES (TG_OP, TG_WHEN || ' ' || TG_LEVEL, to_jsonb(NEW));
    RETURN NEW;
END $$;
CREATE TRIGGER item_audit AFTER INSERT OR UPDATE OR DELETE ON item FOR EACH ROW EXECUTE FUNCTION log_item();
INSERT INTO item (name, price) VALUES ('pen', 1.5), ('ink', 7), ('pad', 3.25);
UPDATE item SET price = price * 2 WHERE price < 5;
DELETE FROM item WHERE name = 'ink';
INSERT INTO item (name, price) VALUES ('bad', -1);
INSERT INTO item (id, name) VALUES (1, 'twice');
UPDATE item SET name = NULL;
INSERT INTO item (name, price) SELECT name || '2', price FROM item ORDER BY id;
SELECT * FROM item ORDER BY id;
SELECT op, who, old, new FROM item_log ORDER BY log_id;

-- counters that are kept beside
CREATE TABLE author (id integer PRIMARY KEY, name text, posts integer NOT NULL DEFAULT 0);
CREATE TABLE post (id integer PRIMARY KEY, author integer REFERENCES author ON DELETE CASCADE, body text);
CREATE FUNCTION count_posts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        UPDATE author SET posts = posts - 1 WHERE id = OLD.author;
    END IF;
    IF TG_OP IN ('UPDATE', 'INSERT') THEN
        UPDATE author SET posts = posts + 1 WHERE id = NEW.author;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER post_count AFTER INSERT OR DELETE OR UPDATE OF author ON post FOR EACH ROW EXECUTE FUNCTION count_posts();
INSERT INTO author VALUES (1, 'ann'), (2, 'bob');
INSERT INTO post VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c');
UPDATE post SET body = body || '!';
UPDATE post SET author = 2 WHERE id = 1;
DELETE FROM post WHERE id = 3;
INSERT INTO post VALUES (4, 7, 'nobody');
SELECT * FROM author ORDER BY id;
DELETE FROM author WHERE id = 2;
SELECT * FROM author ORDER BY id;
SELECT * FROM post ORDER BY id;

-- validation, and what is made alike
CREATE TABLE person (id integer, email text, born integer);
CREATE FUNCTION check_person() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.email := lower(trim(NEW.email));
    IF NEW.email NOT LIKE '%@%' THEN
        RAISE EXCEPTION 'invalid email: %', NEW.email USING ERRCODE = 'check_violation', HINT = 'It has no @.', COLUMN = 'email';
    END IF;
    IF EXISTS (SELECT FROM person p WHERE p.email = NEW.email AND p.id <> NEW.id) THEN
        RAISE EXCEPTION 'email % is taken', NEW.email USING ERRCODE = 'unique_violation';
    END IF;
    IF NEW.born > 2020 THEN
        RAISE WARNING 'so young: %', NEW.id;
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER person_check BEFORE INSERT OR UPDATE ON person FOR EACH ROW EXECUTE FUNCTION check_person();
INSERT INTO person VALUES (1, ' Ann@X.org', 1990);
INSERT INTO person VALUES (2, 'nothing', 1990);
INSERT INTO person VALUES (3, 'ANN@x.ORG', 1990);
INSERT INTO person VALUES (4, 'kid@x.org', 2022), (5, 'bob@x.org', 1980) RETURNING *;
UPDATE person SET email = 'ann@x.org' WHERE id = 5;
UPDATE person SET born = 2023;
SELECT * FROM person ORDER BY id;
DROP TABLE item, item_log, doc CASCADE;
DROP SCHEMA tu CASCADE;
