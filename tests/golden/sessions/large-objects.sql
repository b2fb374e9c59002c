-- What PostgreSQL's own functions leave in INSERTs, and in queries: large objects, settings, locks.
CREATE TABLE blob (id integer PRIMARY KEY, data oid, note text);
INSERT INTO blob VALUES (1, lo_creat(-1));
SELECT lo_put(data, 0, 'abc') FROM blob;
SELECT id, lo_get(data) FROM blob;
INSERT INTO blob SELECT n, lo_from_bytea(0, convert_to(n::text, 'UTF8')) FROM generate_series(2, 4) n RETURNING id;
SELECT id, convert_from(lo_get(data), 'UTF8') AS text FROM blob ORDER BY id;
SELECT id FROM blob WHERE lo_get(data, 0, 1) = '3';
SELECT count(*) FROM blob b JOIN pg_largeobject_metadata m ON m.oid = b.data;
-- An INSERT that fails leaves nothing.
SELECT count(*) AS before FROM pg_largeobject_metadata \gset
INSERT INTO blob VALUES (5, lo_creat(-1)), (1, lo_creat(-1));
SELECT count(*) - :before AS more FROM pg_largeobject_metadata;
BEGIN;
INSERT INTO blob VALUES (5, lo_from_bytea(0, 'in a block')) RETURNING id;
ROLLBACK;
BEGIN;
INSERT INTO blob VALUES (5, lo_from_bytea(0, 'in a block'));
SELECT convert_from(lo_get(data), 'UTF8') FROM blob WHERE id = 5;
SAVEPOINT a;
INSERT INTO blob VALUES (6, lo_from_bytea(0, 'undone'));
ROLLBACK TO a;
INSERT INTO blob VALUES (7, lo_from_bytea(0, 'kept'));
COMMIT;
SELECT id, convert_from(lo_get(data), 'UTF8') AS text FROM blob WHERE id >= 5 ORDER BY id;
SELECT count(*) - :before AS more FROM pg_largeobject_metadata;
SELECT id, lo_unlink(data) FROM blob WHERE id = 2;
SELECT count(*) - :before AS more FROM pg_largeobject_metadata;
-- With keys, references, defaults and checks.
CREATE TABLE page (id serial PRIMARY KEY, blob integer NOT NULL REFERENCES blob, data oid DEFAULT lo_creat(-1), CHECK (data > 0));
INSERT INTO page (blob) VALUES (1), (3);
INSERT INTO page (blob) VALUES (99);
INSERT INTO page (blob, data) VALUES (3, lo_creat(-1) - lo_creat(-1));
SELECT p.id, blob, m.oid IS NOT NULL AS is_there FROM page p LEFT JOIN pg_largeobject_metadata m ON m.oid = p.data ORDER BY 1;
-- Settings, locks.
INSERT INTO blob (id, note) VALUES (10, set_config('my.note', 'set', false)) RETURNING note;
SELECT current_setting('my.note');
BEGIN;
INSERT INTO blob (id, note) VALUES (12, pg_advisory_xact_lock(4711)::text);
SELECT mode FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND pid = pg_backend_pid();
COMMIT;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711;
PREPARE adding AS INSERT INTO blob VALUES ($1, lo_from_bytea(0, $2));
EXECUTE adding (20, 'prepared');
EXECUTE adding (21, 'again');
SELECT id, convert_from(lo_get(data), 'UTF8') AS text FROM blob WHERE id >= 20 ORDER BY id;
DROP TABLE page, blob;
SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata;
SELECT count(*) FROM pg_largeobject_metadata;
