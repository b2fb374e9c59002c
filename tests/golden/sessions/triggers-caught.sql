-- Violations that triggers meet, catch, or come after: each at its time.
CREATE SCHEMA tx;
SET search_path = tx;
SET client_min_messages = notice;
CREATE TABLE parent (id integer PRIMARY KEY, n integer DEFAULT 0);
CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent);
CREATE TABLE source (id integer PRIMARY KEY, parent integer);
INSERT INTO parent VALUES (1);
INSERT INTO source VALUES (100, 1);
INSERT INTO child VALUES (1, 1);

-- what is missing is made when that is told
CREATE FUNCTION lazily() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO child VALUES (NEW.id, NEW.parent);
    EXCEPTION WHEN foreign_key_violation THEN
        RAISE NOTICE 'no parent %', NEW.parent;
        INSERT INTO parent VALUES (NEW.parent);
        INSERT INTO child VALUES (NEW.id, NEW.parent);
    WHEN unique_violation THEN
        RAISE NOTICE 'there is a child %: %', NEW.id, SQLERRM;
    END;
    RETURN NEW;
END $$;
CREATE TRIGGER lazily BEFORE INSERT ON source FOR EACH ROW EXECUTE FUNCTION lazily();
INSERT INTO source VALUES (2, 1);
INSERT INTO source VALUES (3, 7);
INSERT INTO source VALUES (1, 1);
INSERT INTO source VALUES (100, 9);
SELECT * FROM parent ORDER BY id;
SELECT * FROM child ORDER BY id;
SELECT id FROM source ORDER BY id;
DROP TRIGGER lazily ON source;

-- a parent that comes too late
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO child VALUES (NEW.id, NEW.id);
    INSERT INTO parent VALUES (NEW.id);
    RETURN NEW;
END $$;
CREATE TRIGGER late BEFORE INSERT ON source FOR EACH ROW EXECUTE FUNCTION late();
INSERT INTO source VALUES (50, 1);
SELECT count(*) FROM parent WHERE id = 50;
DROP TRIGGER late ON source;

-- a key that is taken, and given up again; and another error after one
CREATE FUNCTION in_passing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO child VALUES (1, 1);
    DELETE FROM child WHERE id = 1;
    RETURN NEW;
END $$;
CREATE TRIGGER in_passing BEFORE INSERT ON source FOR EACH ROW EXECUTE FUNCTION in_passing();
INSERT INTO source VALUES (60, 1);
DROP TRIGGER in_passing ON source;
CREATE FUNCTION says_no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no: %', NEW.id; END $$;
CREATE TRIGGER says_no AFTER INSERT ON source FOR EACH ROW EXECUTE FUNCTION says_no();
INSERT INTO source VALUES (100, 1);
INSERT INTO source VALUES (101, 1);
INSERT INTO source VALUES (102, 1), (102, 2);
DROP TRIGGER says_no ON source;
CREATE FUNCTION undoes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO child VALUES (1, 1);
        RAISE EXCEPTION 'undone';
    EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'was there';
    WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM;
    END;
    RETURN NEW;
END $$;
CREATE TRIGGER undoes BEFORE INSERT ON source FOR EACH ROW EXECUTE FUNCTION undoes();
INSERT INTO source VALUES (70, 1);
SELECT * FROM child ORDER BY id;
SELECT id FROM source ORDER BY id;
DROP SCHEMA tx CASCADE;
