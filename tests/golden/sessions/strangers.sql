-- What mappers, queues and builders of models send, in their own words.
CREATE SCHEMA strangers;
SET search_path = strangers;
-- A builder of models makes a table anew beside the old one, and swaps them in a block.
CREATE TABLE raw (id integer, name text, amount numeric, at timestamp);
INSERT INTO raw VALUES (1, 'a', 1.5, '2020-01-01'), (2, 'b', 2.5, '2020-01-02'), (3, NULL, 3, '2020-01-03');
CREATE VIEW staged AS SELECT * FROM raw;
BEGIN;
CREATE TABLE "totals__tmp" AS (SELECT id, name, sum(amount) AS total FROM staged GROUP BY 1, 2);
ALTER TABLE "totals__tmp" RENAME TO "totals";
CREATE UNIQUE INDEX IF NOT EXISTS "8a1" ON "totals" USING btree (id);
COMMENT ON TABLE "totals" IS $body$a 'total'$body$;
COMMIT;
BEGIN;
CREATE TABLE "totals__tmp" AS (SELECT id, name, 2 * sum(amount) AS total FROM staged GROUP BY 1, 2);
ALTER TABLE "totals" RENAME TO "totals__backup";
ALTER TABLE "totals__tmp" RENAME TO "totals";
COMMIT;
DROP TABLE IF EXISTS "totals__backup" CASCADE;
TABLE totals ORDER BY id;
-- It merges a temporary table into an incremental one.
CREATE TEMPORARY TABLE "totals__new" AS (
    SELECT id, name, 9 AS total FROM staged WHERE id >= 2 UNION ALL SELECT 4, 'd', 4);
ALTER TABLE totals ADD COLUMN extra integer;
MERGE INTO totals AS into_it USING "totals__new" AS from_it ON (into_it.id = from_it.id)
    WHEN MATCHED THEN UPDATE SET "name" = from_it."name", "total" = from_it."total"
    WHEN NOT MATCHED THEN INSERT ("id", "name", "total") VALUES ("id", "name", "total");
DELETE FROM totals USING "totals__new" WHERE "totals__new".id = totals.id AND totals.name IS NULL;
TABLE totals ORDER BY id;
-- It keeps what rows were (a snapshot), by hashes of keys.
CREATE TABLE kept AS SELECT *,
    md5(coalesce(cast(id AS varchar), '') || '|' || coalesce(cast(at AS varchar), '')) AS scd,
    at AS valid_from, nullif(at, at) AS valid_to FROM (SELECT * FROM raw) sbq;
UPDATE raw SET name = 'z', at = '2021-01-01' WHERE id = 2;
CREATE TEMPORARY TABLE changed AS (
    WITH now AS (SELECT *,
        md5(coalesce(cast(id AS varchar), '') || '|' || coalesce(cast(at AS varchar), '')) AS scd FROM raw)
    SELECT 'insert' AS change, now.*, now.at AS valid_from, NULL::timestamp AS valid_to
        FROM now JOIN kept ON now.id = kept.id WHERE kept.valid_to IS NULL AND kept.valid_from < now.at
    UNION ALL
    SELECT 'update', now.id, now.name, now.amount, now.at, kept.scd, kept.valid_from, now.at
        FROM now JOIN kept ON now.id = kept.id WHERE kept.valid_to IS NULL AND kept.valid_from < now.at
);
UPDATE kept SET valid_to = changed.valid_to FROM changed
    WHERE changed.scd::text = kept.scd::text AND changed.change::text IN ('update', 'delete') AND kept.valid_to IS NULL;
INSERT INTO kept SELECT id, name, amount, at, scd, valid_from, valid_to FROM changed WHERE change = 'insert';
SELECT id, name, valid_from, valid_to FROM kept ORDER BY id, valid_from;
-- A mapper's migration, with an enumeration that grows, and its upserts.
CREATE TYPE mood AS ENUM ('happy', 'sad');
CREATE TABLE "Users" ("id" uuid, "name" varchar(80) NOT NULL, "email" varchar(255) UNIQUE, "mood" mood,
    "tags" varchar(255)[], "version" integer NOT NULL DEFAULT 0, "deletedAt" timestamptz, PRIMARY KEY ("id"));
CREATE UNIQUE INDEX "users_name" ON "Users" ("name", "email") WHERE "mood" = 'happy';
INSERT INTO "Users" ("id", "name", "email", "mood", "tags") VALUES
    ('00000000-0000-4000-8000-000000000001', 'a', 'a@x', 'happy', ARRAY['x', 'y']::varchar(255)[]),
    ('00000000-0000-4000-8000-000000000002', 'b', 'b@x', 'sad', NULL);
INSERT INTO "Users" ("id", "name", "email") VALUES ('00000000-0000-4000-8000-000000000001', 'c', 'c@x')
    ON CONFLICT ("id") DO UPDATE SET "name" = EXCLUDED."name" RETURNING "name", "mood";
UPDATE "Users" SET "name" = 'd', "version" = "version" + 1
    WHERE "id" = '00000000-0000-4000-8000-000000000001' AND "version" = 0
    RETURNING "version";
UPDATE "Users" SET "name" = 'e', "version" = "version" + 1
    WHERE "id" = '00000000-0000-4000-8000-000000000001' AND "version" = 0;
ALTER TABLE "Users" ALTER COLUMN "mood" DROP DEFAULT;
CREATE TYPE mood_new AS ENUM ('happy', 'sad', 'calm');
ALTER TABLE "Users" ALTER COLUMN "mood" TYPE mood_new USING ("mood"::text::mood_new);
SELECT "name" FROM "Users" WHERE "tags" && ARRAY['x']::varchar(255)[] AND "deletedAt" IS NULL ORDER BY 1;
-- Children as JSON, in one query.
SELECT u."name", (SELECT coalesce(json_agg(agg), '[]') FROM (
    SELECT r.id, r.name FROM raw r WHERE r.id > u."version" ORDER BY r.id) AS agg) AS children
    FROM "Users" u ORDER BY 1;
-- Two queues: the next job is locked where it stands, and taken.
CREATE TABLE jobs (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text, state text DEFAULT 'new',
    payload jsonb);
INSERT INTO jobs (queue, payload) SELECT 'q', jsonb_build_object('n', n) FROM generate_series(1, 4) n;
WITH next AS (SELECT id FROM jobs WHERE state = 'new' AND queue = 'q' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED)
UPDATE jobs SET state = 'active' FROM next WHERE jobs.id = next.id RETURNING jobs.id, payload;
UPDATE jobs SET state = 'active' WHERE id = (
    SELECT id FROM jobs WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id;
WITH done AS (DELETE FROM jobs WHERE state = 'active' RETURNING id, queue)
SELECT queue, count(*), min(id) FROM done GROUP BY queue;
TABLE jobs;
-- A tool for maintenance, as the database's owner.
REINDEX DATABASE;
REINDEX SCHEMA strangers;
DROP SCHEMA strangers CASCADE;
