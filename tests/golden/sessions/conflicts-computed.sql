-- ON CONFLICT where PostgreSQL reads more than the row that is there
CREATE SCHEMA conflicting_more;
SET search_path = conflicting_more;
CREATE TABLE account (id integer PRIMARY KEY, email text NOT NULL, gone boolean NOT NULL DEFAULT false, visits integer DEFAULT 1);
CREATE UNIQUE INDEX account_email ON account (lower(email)) WHERE NOT gone;
CREATE TABLE price (id integer, amount numeric(8, 2), note jsonb);
INSERT INTO price VALUES (1, 10.50, '{"a": 1}'), (2, 20, '{"a": 2}'), (3, 5, NULL);
-- an index over an expression, and over some rows
INSERT INTO account VALUES (1, 'Ann@x', false), (2, 'bob@x', true), (3, 'BOB@x', false);
INSERT INTO account VALUES (4, 'ANN@X') ON CONFLICT (lower(email)) WHERE NOT gone DO UPDATE SET visits = account.visits + 1 RETURNING *;
INSERT INTO account VALUES (5, 'Bob@x', true), (6, 'cyd@x', false) ON CONFLICT (lower(email)) WHERE NOT gone DO UPDATE SET visits = 0 RETURNING *;
INSERT INTO account VALUES (7, 'CYD@x'), (1, 'else@x') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO account VALUES (8, 'dan@x') ON CONFLICT (lower(email)) WHERE NOT gone DO NOTHING;
INSERT INTO account VALUES (9, 'DAN@x') ON CONFLICT (id) DO UPDATE SET visits = 7;
INSERT INTO account VALUES (8, 'DAN@x') ON CONFLICT (id) DO UPDATE SET email = 'bob@X';
INSERT INTO account VALUES (10, 'eve@x'), (11, 'EVE@x') ON CONFLICT (lower(email)) WHERE NOT gone DO UPDATE SET visits = 2;
INSERT INTO account SELECT id + 20, 'ann@x' FROM price WHERE id = 1 ON CONFLICT (lower(email)) WHERE NOT gone DO UPDATE SET visits = account.visits + excluded.id RETURNING *;
SELECT * FROM account ORDER BY id;
BEGIN;
UPDATE account SET gone = true WHERE id = 1;
INSERT INTO account VALUES (12, 'ANN@x') ON CONFLICT (lower(email)) WHERE NOT gone DO UPDATE SET visits = -1 RETURNING id, visits;
INSERT INTO account VALUES (13, 'aNN@x') ON CONFLICT (lower(email)) WHERE NOT gone DO UPDATE SET visits = -1 RETURNING id, visits;
ROLLBACK;
-- subqueries
INSERT INTO account VALUES (1, 'x@x') ON CONFLICT (id) DO UPDATE SET visits = (SELECT sum(amount) FROM price WHERE price.id <= excluded.id + 1) RETURNING id, visits, (SELECT count(*) FROM price);
INSERT INTO account SELECT id, 'y@x' FROM price WHERE id = 3 ON CONFLICT (id) DO UPDATE SET visits = (SELECT max(visits) FROM account) + 1 WHERE EXISTS (SELECT FROM price WHERE price.id = account.id) RETURNING *;
WITH top AS (SELECT max(amount) AS amount FROM price)
INSERT INTO account VALUES (3, 'z@x') ON CONFLICT (id) DO UPDATE SET visits = (SELECT amount FROM top) RETURNING *;
-- sources that Spark cannot compute
INSERT INTO account SELECT id, note ->> 'a' FROM price p WHERE to_jsonb(p) ->> 'note' IS NOT NULL AND jsonb_path_exists(note, '$.a ? (@ > 1)') ON CONFLICT (id) DO UPDATE SET visits = 99 RETURNING *;
INSERT INTO account (id, email) SELECT id + 30, format('%s@x', to_json(p) ->> 'id') FROM price p WHERE id < 3 ON CONFLICT DO NOTHING RETURNING id, email;
INSERT INTO account SELECT id, 'again' FROM account a WHERE to_json(a) ->> 'id' = '31' ON CONFLICT (id) DO UPDATE SET email = account.email || excluded.email RETURNING *;
-- functions made by users
CREATE FUNCTION twice(n integer) RETURNS integer LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN n * 2; END $$;
INSERT INTO account VALUES (twice(4), 'f@x') ON CONFLICT (id) DO UPDATE SET visits = twice(account.visits + 20) RETURNING id, visits;
INSERT INTO account VALUES (twice(20), 'g@x') RETURNING id, twice(id);
SELECT * FROM account ORDER BY id;
DROP SCHEMA conflicting_more CASCADE;
