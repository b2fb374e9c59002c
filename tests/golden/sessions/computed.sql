-- Queries that no Spark form is known for: PostgreSQL computes them over the rows of the lake.
\pset null <null>
CREATE TABLE town (id integer PRIMARY KEY, name varchar(20) NOT NULL, region char(3), people bigint, area numeric(10,2),
    facts jsonb, tags text[], founded date, seen timestamptz, lasts interval, twice bigint GENERATED ALWAYS AS (people * 2) STORED,
    raw bytea, share double precision, ok boolean, code uuid, free numeric, plain json, at time, moment timestamp);
INSERT INTO town (id, name, region, people, area, facts, tags, founded, seen, lasts, raw, share, ok, code, free, plain, at, moment)
VALUES
    (1, 'Bern', 'BE', 134794, 51.62, '{"lake": false, "rivers": ["Aare"], "n": {"m": [1, 2.50, null]}}', '{capital,old}',
        '1191-05-01', '2024-03-31 01:30:00+00', '-1 days +02:03:04', '\x00ff', 0.1, true, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
        1.500, '{"a" : 1}', '12:34:56.789', '2024-02-29 12:00'),
    (2, 'Chur', 'GR', 38293, 54.2, '{"lake": false, "rivers": ["Plessur", "Rhein"]}', '{old}', '0015-08-01',
        'infinity', '1 year 2 mons', '\x', 'NaN', false, NULL, 'NaN', '[1, 2]', '00:00', '-infinity'),
    (3, 'Olten', 'SO', 18496, 11.5, '{"lake": null, "rivers": ["Aare", "Dünnern"]}', '{}', NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL),
    (4, 'Thun', 'BE', 43568, NULL, '{"lake": true}', '{lake,"a b",NULL}', '1264-03-12', '1970-01-01', '00:00:00.000001', '\x41',
        1e300, true, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 12345678901234567890123456789012345678901234567890.5, 'null',
        '23:59:59.999999', 'infinity');
INSERT INTO town (id, name) VALUES (5, 'Nowhere');
DELETE FROM town WHERE id = 5;
CREATE TABLE road (a integer, b integer, minutes integer);
INSERT INTO road VALUES (1, 4, 18), (4, 1, 19), (1, 3, 27), (2, 1, 95), (3, 1, 26);
CREATE VIEW bernese AS SELECT * FROM town WHERE region = 'BE';

-- rows as values
SELECT t FROM town t ORDER BY id;
SELECT row_to_json(t) FROM town t ORDER BY id;
SELECT (t).name, (t).people FROM town t WHERE (t).id < 3 ORDER BY 1;
SELECT ROW(id, name) FROM town ORDER BY id;
SELECT to_jsonb(r) FROM road r ORDER BY a, b;
SELECT b FROM bernese b ORDER BY b.id;
SELECT count(*) FROM town t WHERE t IS NOT NULL;
SELECT array_agg(r ORDER BY a, b) FROM road r;
-- documents
SELECT id, facts -> 'rivers' ->> -1, facts #> '{n,m}', facts #>> '{n,m,1}' FROM town ORDER BY id;
SELECT id FROM town WHERE facts @> '{"rivers": ["Aare"]}' ORDER BY id;
SELECT id, facts ? 'n', facts ?| '{n,lake}', facts ?& '{n,lake}' FROM town ORDER BY id;
SELECT id, jsonb_path_query(facts, '$.rivers[*] ? (@ like_regex "^A")') FROM town ORDER BY id;
SELECT id, k, v FROM town, jsonb_each_text(facts) AS e (k, v) ORDER BY id, k;
SELECT jsonb_object_agg(name, people ORDER BY id), json_agg(tags ORDER BY id) FROM town;
SELECT jsonb_set(facts, '{lake}', '"maybe"') || '{"new": 1}'::jsonb - 'rivers' FROM town ORDER BY id;
SELECT json_build_object('name', name, 'people', people), jsonb_pretty(facts) FROM town WHERE id = 1;
SELECT j.* FROM town, jsonb_to_record(facts) AS j (lake boolean, rivers text[]) ORDER BY 1, 2;
-- windows
SELECT id, sum(people) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM town ORDER BY id;
SELECT id, count(*) OVER (ORDER BY region GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM town ORDER BY id;
SELECT id, max(people) OVER (ORDER BY people RANGE BETWEEN 20000 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM town ORDER BY id;
SELECT id, lag(id) OVER (ORDER BY id), generate_series(1, 2) FROM town ORDER BY id, 3;
-- sets in the select list and in FROM
SELECT id, unnest(tags), generate_series(1, 3) FROM town ORDER BY id, 3;
SELECT * FROM ROWS FROM (generate_series(1, 2), unnest((SELECT tags FROM town WHERE id = 1))) WITH ORDINALITY AS r (n, tag, place);
SELECT id, m[1] FROM town, regexp_matches(name, '[aeiou]', 'g') AS m ORDER BY id, 2;
SELECT id, s FROM town, LATERAL string_to_table(name, 'e') AS s ORDER BY 1, 2;
-- recursion
WITH RECURSIVE reach (town) AS (SELECT 2 UNION SELECT b FROM road, reach WHERE a = town) SELECT town FROM reach ORDER BY 1;
WITH RECURSIVE ways (a, b) AS (SELECT a, b FROM road UNION ALL SELECT w.a, r.b FROM ways w, road r WHERE r.a = w.b)
    CYCLE b SET round USING path SELECT a, b, round, path FROM ways ORDER BY path;
-- aggregates
SELECT stddev_pop(area), var_samp(area), corr(people, area), regr_slope(people, area), mode() WITHIN GROUP (ORDER BY region) FROM town;
SELECT rank(40000) WITHIN GROUP (ORDER BY people), percent_rank(40000) WITHIN GROUP (ORDER BY people) FROM town;
SELECT (SELECT max(t.people) FROM road WHERE a = 1 LIMIT 1) FROM town t;
-- texts, numbers, times
SELECT format('%s has %L people, %I', name, people, region), to_char(people, '999G999D9'), width_bucket(people, 0, 150000, 5) FROM town ORDER BY id;
SELECT power(area, 2), ln(area), sqrt(area), scale(area), factorial(id) FROM town ORDER BY id;
SELECT regexp_substr(name, '(.)e', 1, 1, 'i', 1), regexp_count(name, 'e'), overlay(name PLACING '__' FROM 2), md5(name) FROM town ORDER BY id;
SELECT age(timestamp '2024-01-01', founded), justify_interval(lasts), date_bin('1 hour', seen, timestamptz '2000-01-01'), extract(julian FROM founded) FROM town WHERE id <> 2 ORDER BY id;
SELECT to_char(founded, 'FMDay, DDth FMMonth YYYY BC'), isfinite(seen), founded + 5, seen AT TIME ZONE 'Europe/Zurich' FROM town ORDER BY id;
SELECT tags[1:1], array_cat(tags, '{x}'), array_positions(tags, 'old'), cardinality(tags), tags || 'end'::text, array_dims(tags) FROM town ORDER BY id;
SELECT pg_typeof(facts), name::regtype IS NULL FROM town WHERE name = 'int4';
SELECT free, free + 1, free * free FROM town ORDER BY id;
-- beside what is not in the lake
CREATE TEMPORARY TABLE wanted AS SELECT 1 AS id UNION ALL SELECT 4;
SELECT name FROM town JOIN wanted USING (id) ORDER BY name;
SELECT t.name, c.relkind FROM town t, pg_class c WHERE c.oid = 'road'::regclass AND t.id = 1;
SELECT tableoid::regclass, count(*) FROM town GROUP BY 1;
-- LIMIT and row locks apart, with the session's settings
SET IntervalStyle = sql_standard;
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'America/New_York';
SELECT t FROM town t ORDER BY id LIMIT (SELECT count(*) / 2 FROM town);
RESET ALL;
-- errors are PostgreSQL's
SELECT t, 1 / (id - 3) FROM town t ORDER BY id;
SELECT jsonb_path_query(facts, 'strict $.none') FROM town;
-- in a transaction: its own rows, its savepoints
BEGIN;
INSERT INTO town (id, name) VALUES (6, 'Biel');
SELECT t FROM town t WHERE id > 4;
SAVEPOINT s;
UPDATE town SET name = 'Bienne' WHERE id = 6;
SELECT (t).name, factorial((t).id) FROM town t WHERE (t).id > 4;
SELECT t, 1 / 0 FROM town t;
SELECT 1;
ROLLBACK TO s;
SELECT (t).name FROM town t WHERE (t).id > 4;
COMMIT;
SELECT (t).name FROM town t ORDER BY 1;
SELECT count(*) FROM town;
DROP VIEW bernese;
DROP TABLE town, road;
-- INSERT of such a query
CREATE TABLE copy (k integer GENERATED ALWAYS AS IDENTITY, id integer PRIMARY KEY, t text NOT NULL CHECK (t <> 'Chur'), len integer
    GENERATED ALWAYS AS (length(t)) STORED, w timestamptz DEFAULT '2024-01-01 00:00+00', x integer REFERENCES copy (id));
CREATE TABLE source (id integer, t text, j jsonb);
INSERT INTO source VALUES (1, 'Bern', '{"a": [1, 2]}'), (2, 'Basel', '{"a": [3]}'), (3, 'Chur', NULL);
INSERT INTO copy (id, t) SELECT id, format('%s', t) FROM source WHERE id < 3 RETURNING k, id, t, len, w;
INSERT INTO copy (id, t, x) SELECT id + 10, format('%s/%s', s.t, c.t), c.id FROM source s JOIN copy c USING (id) WHERE factorial(id) > 1 RETURNING *;
INSERT INTO copy (id, t) SELECT id + 20, format('%s', t) FROM source;
INSERT INTO copy (id, t) SELECT id, format('%s', t) FROM source WHERE id = 1;
INSERT INTO copy (id, t, x) SELECT 30, format('%s', t), 99 FROM source WHERE id = 1;
BEGIN;
INSERT INTO source VALUES (4, 'Thun', '{"a": [5, 6]}');
INSERT INTO copy (id, t) SELECT 100 + jsonb_path_query(j, '$.a[*]')::int, t FROM source;
SAVEPOINT s;
INSERT INTO copy (id, t) SELECT 1000 + (source).id, (source).t FROM source WHERE (source).id = 4;
ROLLBACK TO s;
COMMIT;
SELECT * FROM copy ORDER BY id;
SELECT * FROM source ORDER BY id;
CREATE TABLE made AS SELECT id, format('%s', t) AS t, j -> 'a' AS a, (source).t AS again FROM source;
CREATE TABLE never AS SELECT factorial(id - 2) FROM source;
SELECT * FROM made ORDER BY id;
SELECT * FROM never;
DROP TABLE made;
DROP TABLE copy, source;
-- UPDATE and DELETE
CREATE TABLE stock (id integer PRIMARY KEY, t text NOT NULL CHECK (t <> 'bad'), j jsonb, n numeric, g text GENERATED ALWAYS AS (t || '!') STORED);
CREATE TABLE item (k integer REFERENCES stock (id) ON DELETE CASCADE, w jsonb);
INSERT INTO stock VALUES (1, 'a', '{"n": 1}', 4), (2, 'b', '{"n": [2]}', 9), (3, 'c', NULL, 2), (4, 'c', NULL, 2);
INSERT INTO item VALUES (1, '{"x": 1}'), (1, '{"x": 2}'), (3, '{"x": 3}');
UPDATE stock SET j = jsonb_set(j, '{n}', '7') WHERE id < 3;
UPDATE stock s SET t = format('%s-%s', t, w -> 'x'), n = power(n, 2) FROM item WHERE k = id AND w @> '{"x": 3}' RETURNING s, g, w;
UPDATE stock SET t = format('%s', t) WHERE id > 2 RETURNING old.t, new.t, (stock).id;
UPDATE stock SET t = 'bad' WHERE j @> '{"n": 7}';
UPDATE stock SET t = repeat('bad', (id - 1)::int) WHERE factorial(id) = 2;
DELETE FROM item WHERE w @? '$.x ? (@ > 2)' RETURNING item;
DELETE FROM stock s WHERE (s).id = 1 RETURNING s.*;
SELECT * FROM stock ORDER BY id;
SELECT * FROM item ORDER BY 1, 2;
BEGIN;
INSERT INTO stock VALUES (5, 'own', '{"n": 5}');
UPDATE stock SET j = j || '{"m": 6}' WHERE id = 5;
SAVEPOINT s;
DELETE FROM stock s WHERE to_jsonb(s) ->> 't' = 'own';
SELECT count(*) FROM stock;
ROLLBACK TO s;
COMMIT;
SELECT * FROM stock ORDER BY id;
EXPLAIN (COSTS OFF) DELETE FROM pg_temp.nothing;
DROP TABLE item, stock;
-- the same in cursors and COPY
CREATE TABLE town (id integer PRIMARY KEY, name text NOT NULL, people bigint, facts jsonb);
INSERT INTO town VALUES (1, 'Bern', 134794, '{"a": [1, {"b": 2}]}'), (2, 'Chur', 38293, '{"a": []}'), (3, 'Olten', NULL, NULL);
COPY (SELECT id, facts -> 'a', jsonb_path_query_array(facts, '$.a[*].b'), format('%s!', name) FROM town ORDER BY id) TO STDOUT;
COPY (SELECT id, factorial(id), ln(people::numeric) FROM town ORDER BY id) TO STDOUT (FORMAT csv, HEADER);
BEGIN;
DECLARE plain CURSOR FOR SELECT id, facts -> 'a' ->> 0, NULL FROM town ORDER BY id;
FETCH 1 FROM plain;
INSERT INTO town VALUES (4, 'Thun', 43568, '{}');
FETCH ALL FROM plain;
DECLARE back SCROLL CURSOR FOR SELECT id, format('%s', name), facts || '{"x": 1}' FROM town ORDER BY id;
FETCH LAST FROM back;
FETCH BACKWARD 2 FROM back;
DECLARE kept CURSOR WITH HOLD FOR SELECT id, factorial(id) FROM town ORDER BY id;
FETCH 1 FROM kept;
COMMIT;
FETCH ALL FROM kept;
CLOSE kept;
BEGIN;
DECLARE wrong CURSOR FOR SELECT id, factorial(id - 2) FROM town ORDER BY id DESC;
FETCH ALL FROM wrong;
ROLLBACK;
SELECT * FROM town ORDER BY id;
DROP TABLE town;
