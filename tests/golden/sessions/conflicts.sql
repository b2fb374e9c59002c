-- INSERT … ON CONFLICT
CREATE SCHEMA conflicting;
SET search_path = conflicting;
CREATE TABLE stock (item text PRIMARY KEY, code integer UNIQUE, amount integer CHECK (amount >= 0), changed integer DEFAULT 0,
    doubled integer GENERATED ALWAYS AS (amount * 2) STORED);
INSERT INTO stock VALUES ('a', 1, 10), ('b', 2, 20), ('c', 3, 30);
INSERT INTO stock VALUES ('a', 9, 1) ON CONFLICT DO NOTHING;
INSERT INTO stock VALUES ('z', 1, 1) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO stock VALUES ('a', 9, 1), ('d', 4, 40), ('d', 5, 50) ON CONFLICT DO NOTHING RETURNING item, code, doubled;
INSERT INTO stock VALUES ('a', 1, 5) ON CONFLICT (item) DO UPDATE SET amount = stock.amount + excluded.amount, changed = stock.changed + 1 RETURNING *;
INSERT INTO stock AS s VALUES ('a', 1, 5), ('e', 5, 50) ON CONFLICT (item) DO UPDATE SET amount = s.amount + excluded.amount RETURNING s.*;
SELECT * FROM stock ORDER BY item;
INSERT INTO stock VALUES ('z', 1, 1) ON CONFLICT (item) DO NOTHING;
INSERT INTO stock VALUES ('z', 2, 1) ON CONFLICT (item) DO UPDATE SET amount = 0;
INSERT INTO stock VALUES ('a', 77, 1) ON CONFLICT (code) DO UPDATE SET amount = 0;
INSERT INTO stock VALUES ('a', 1, 1), ('a', 1, 2) ON CONFLICT (item) DO UPDATE SET amount = excluded.amount;
INSERT INTO stock VALUES ('f', 6, 1), ('f', 7, 2) ON CONFLICT (item) DO UPDATE SET amount = excluded.amount;
INSERT INTO stock VALUES ('a', 1, 1), ('a', 1, 2) ON CONFLICT (item) DO UPDATE SET amount = excluded.amount WHERE false;
INSERT INTO stock VALUES ('a', 1, 1) ON CONFLICT (item) DO UPDATE SET amount = excluded.amount WHERE stock.amount > 1000 RETURNING *;
INSERT INTO stock VALUES ('a', 1, 1) ON CONFLICT (item) DO UPDATE SET amount = -1;
INSERT INTO stock VALUES ('a', 1, 1) ON CONFLICT (item) DO UPDATE SET code = 2;
INSERT INTO stock VALUES ('a', 1, 1) ON CONFLICT (item) DO UPDATE SET item = 'aa', code = 11 RETURNING *;
INSERT INTO stock VALUES ('a', 1, 1) ON CONFLICT ON CONSTRAINT stock_code_key DO UPDATE SET amount = 0;
INSERT INTO stock VALUES ('x', 100, 1) ON CONFLICT (amount) DO NOTHING;
INSERT INTO stock (item) VALUES ('n1'), ('n2') ON CONFLICT (code) DO NOTHING;
SELECT * FROM stock ORDER BY item;
-- rows of the lake
INSERT INTO stock (item, code, amount) SELECT item, code + 100, 7 FROM stock WHERE code < 4 ON CONFLICT (item) DO UPDATE SET amount = stock.amount + excluded.amount, changed = 9 RETURNING item, amount, changed;
INSERT INTO stock (item, code, amount) SELECT item || '+', code + 200, amount FROM stock WHERE code < 4 ON CONFLICT DO NOTHING;
INSERT INTO stock (item, code, amount) SELECT item || '+', code + 300, amount FROM stock WHERE code < 4 ON CONFLICT DO NOTHING;
SELECT * FROM stock ORDER BY item;
-- in a block
BEGIN;
INSERT INTO stock VALUES ('new', 1000, 1);
INSERT INTO stock VALUES ('new', 1000, 1) ON CONFLICT (item) DO UPDATE SET amount = stock.amount + 1 RETURNING amount;
INSERT INTO stock VALUES ('new', 1000, 1) ON CONFLICT (item) DO UPDATE SET amount = stock.amount + 1 RETURNING amount;
DELETE FROM stock WHERE item = 'new';
INSERT INTO stock VALUES ('new', 1000, 1) ON CONFLICT (item) DO UPDATE SET amount = stock.amount + 1 RETURNING amount;
SAVEPOINT s;
INSERT INTO stock VALUES ('new', 1000, 1) ON CONFLICT (item) DO UPDATE SET amount = 100;
ROLLBACK TO s;
COMMIT;
SELECT item, amount FROM stock WHERE item = 'new';
-- identity
CREATE TABLE tag (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, uses integer NOT NULL DEFAULT 1);
INSERT INTO tag (name) VALUES ('red'), ('green') RETURNING *;
INSERT INTO tag (name) VALUES ('red') ON CONFLICT (name) DO UPDATE SET uses = tag.uses + 1 RETURNING *;
INSERT INTO tag (name) SELECT name FROM tag ON CONFLICT (name) DO UPDATE SET uses = tag.uses + 1;
INSERT INTO tag (id, name) VALUES (1, 'x') ON CONFLICT DO NOTHING;
INSERT INTO tag (id, name) OVERRIDING SYSTEM VALUE VALUES (1, 'x') ON CONFLICT DO NOTHING;
SELECT * FROM tag ORDER BY id;
-- referring rows
CREATE TABLE used (tag text REFERENCES tag (name));
INSERT INTO used VALUES ('red') ON CONFLICT DO NOTHING;
INSERT INTO tag (name) VALUES ('red') ON CONFLICT (name) DO UPDATE SET uses = 0;
INSERT INTO tag (name) VALUES ('red') ON CONFLICT (name) DO UPDATE SET name = 'blue';
INSERT INTO tag (name) VALUES ('green') ON CONFLICT (name) DO UPDATE SET name = 'blue' RETURNING name;
DROP SCHEMA conflicting CASCADE;
