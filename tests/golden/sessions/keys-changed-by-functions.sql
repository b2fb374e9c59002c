-- Keys that functions change, where references forbid deletions at once and changes of keys at COMMIT.
CREATE SCHEMA dr; SET search_path = dr;
CREATE TABLE parent (id integer PRIMARY KEY, n integer, s text UNIQUE);
CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED, n integer CHECK (n < 50));
INSERT INTO parent (id, n, s) VALUES (1, 10, 'one'), (2, 20, 'two'), (7, 5, NULL);
INSERT INTO child VALUES (1, 1, 1), (2, 1, 2), (5, 7, NULL);
UPDATE parent SET id = id + 100 WHERE id = 7;
CREATE FUNCTION f0() RETURNS integer LANGUAGE plpgsql AS $f$ BEGIN UPDATE parent SET id = id + 100 WHERE id = 7; RETURN 1; END $f$;
SELECT f0();
BEGIN; SELECT f0(); UPDATE child SET parent = 107 WHERE parent = 7; COMMIT;
SELECT * FROM child ORDER BY id;
CREATE FUNCTION f1() RETURNS integer LANGUAGE plpgsql AS $f$ BEGIN UPDATE parent SET id = id + 100 WHERE id = 1; UPDATE child SET parent = 101 WHERE parent = 1; RETURN 1; END $f$;
SELECT f1();
SELECT * FROM parent ORDER BY id;
BEGIN; SELECT f0(); DELETE FROM parent WHERE id = 101; ROLLBACK;
CREATE FUNCTION f2() RETURNS integer LANGUAGE plpgsql AS $f$ BEGIN DELETE FROM parent WHERE id = 101; RETURN 1; END $f$;
SELECT f2();
