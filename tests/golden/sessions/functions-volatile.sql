-- Functions that nobody declared STABLE or IMMUTABLE, in changes of rows.
CREATE SCHEMA volatile_functions; SET search_path = volatile_functions; SET client_min_messages = notice;
CREATE TABLE page (id integer PRIMARY KEY, title text, slug text UNIQUE, touched integer DEFAULT 0);
CREATE TABLE source (id integer, title text);
CREATE SEQUENCE visits;
INSERT INTO page (id, title) VALUES (1, 'First Page'), (2, 'Second  page'), (3, NULL);
INSERT INTO source VALUES (2, 'Second, again'), (4, 'A Fourth'), (5, 'The Fifth');
CREATE FUNCTION slugify(what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN trim(BOTH '-' FROM regexp_replace(lower(what), '[^a-z0-9]+', '-', 'g'));
END $$;
CREATE FUNCTION visit(what integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'visit of %', what;
    RETURN nextval('visits');
END $$;
CREATE FUNCTION by_sql(what integer) RETURNS integer LANGUAGE sql AS 'SELECT what * 10';
UPDATE page SET slug = slugify(title);
UPDATE page SET slug = slugify(title || ' ' || id) WHERE id = 2 RETURNING *;
UPDATE page SET touched = visit(id) WHERE id = 1 RETURNING touched;
INSERT INTO page SELECT id + 10, title, slugify(title) FROM source ORDER BY id RETURNING *;
INSERT INTO page (id, title, slug) SELECT id, title, slugify(title) || '-2' FROM source
    ON CONFLICT (id) DO UPDATE SET title = excluded.title, slug = slugify(excluded.title || ' new');
MERGE INTO page USING source ON page.id = source.id WHEN MATCHED THEN UPDATE SET touched = by_sql(page.id)
    WHEN NOT MATCHED THEN INSERT (id, title, touched) VALUES (source.id, source.title, by_sql(source.id));
UPDATE page SET touched = by_sql(source.id) FROM source WHERE source.id = page.id;
WITH moved AS (UPDATE page SET touched = by_sql(id) + 1 WHERE id < 3 RETURNING id, touched)
    INSERT INTO source SELECT id + 100, touched::text FROM moved RETURNING *;
WITH gone AS (DELETE FROM page WHERE id = 3 RETURNING by_sql(id) AS was) SELECT * FROM gone;
DELETE FROM page WHERE slugify(title) = 'a-fourth' AND id > 10 RETURNING id, by_sql(id);
INSERT INTO source SELECT max(id) + 1, max(slugify(title)) FROM page GROUP BY touched % 2 ORDER BY 1;
UPDATE page SET slug = (SELECT max(slugify(source.title)) FROM source WHERE source.id = page.id);
SELECT * FROM page ORDER BY id;
SELECT * FROM source ORDER BY id, title;
SELECT last_value FROM visits;
-- errors, blocks
UPDATE page SET slug = slugify('same');
UPDATE page SET touched = 1 / (by_sql(id) - by_sql(2)) WHERE id <= 2;
BEGIN; UPDATE page SET touched = visit(id) WHERE id = 2; SAVEPOINT s; DELETE FROM page WHERE by_sql(id) = 20;
ROLLBACK TO s; COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE page SET title = slugify(title) WHERE id = 2; SELECT * FROM page WHERE id = 2; ROLLBACK;
PREPARE renamed AS UPDATE page SET title = slugify($1) WHERE id = $2 RETURNING title;
EXECUTE renamed('Once More', 2);
EXECUTE renamed('And Again', 1);
CREATE VIEW pages AS SELECT id, title, slug FROM page;
UPDATE pages SET slug = slugify(title) WHERE id < 3;
CREATE FUNCTION changes(what integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN INSERT INTO source VALUES (what, 'by a function'); RETURN what; END $$;
UPDATE page SET touched = changes(id) WHERE id = 1;
SELECT * FROM source WHERE title = 'by a function';
-- functions that read the table of which a key selects a row
CREATE TABLE child (id integer PRIMARY KEY, n integer);
INSERT INTO child VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, NULL);
CREATE FUNCTION children(a integer) RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN (SELECT count(*) FROM child); END $$;
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE TRIGGER fired BEFORE INSERT OR UPDATE OR DELETE ON child FOR EACH ROW EXECUTE FUNCTION fired();
DELETE FROM child WHERE id = 4 AND children(3) > 1 RETURNING *;
UPDATE child SET n = children(3) WHERE id = 1 RETURNING *;
UPDATE child SET n = children(3) + 1 WHERE id = (SELECT children(1) - 1) RETURNING *;
UPDATE child SET n = x FROM (SELECT children(1) AS x) AS y WHERE id = 2 AND x > 3 RETURNING *;
DELETE FROM child WHERE id = 3 RETURNING children(1);
SELECT * FROM child ORDER BY id;
SELECT * FROM page ORDER BY id;
-- WITH that changes rows
CREATE TABLE other (id integer PRIMARY KEY, n integer); CREATE TABLE told (what text, n integer);
INSERT INTO other VALUES (1, 10), (2, 20);
CREATE FUNCTION others(a integer) RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN (SELECT count(*) FROM other) + a; END $$;
CREATE FUNCTION adds(a integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN INSERT INTO other VALUES (a + 100, a); RETURN a; END $$;
WITH done AS (UPDATE child SET n = others(1) WHERE id = 5 RETURNING n) INSERT INTO told SELECT 'a', n FROM done RETURNING *;
WITH done AS (DELETE FROM child WHERE id = 1 RETURNING others(id) AS n) SELECT * FROM done;
WITH done AS (INSERT INTO child VALUES (9, adds(9)) RETURNING n) SELECT n, others(n) FROM done;
WITH done AS (INSERT INTO child VALUES (10, 10) RETURNING id) UPDATE other SET n = others(n) FROM done WHERE other.id < 3
    RETURNING other.*;
SELECT * FROM child ORDER BY id; SELECT * FROM other ORDER BY id; SELECT * FROM told;
SET client_min_messages = error;
DROP SCHEMA volatile_functions CASCADE;
