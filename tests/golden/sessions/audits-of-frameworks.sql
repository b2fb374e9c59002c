-- Audit triggers as frameworks install them: events with a context of the transaction, revisions, and row versions.
CREATE SCHEMA au;
SET search_path = au;
SET client_min_messages = notice;

-- Events, in the way of django-pghistory and django-pgtrigger: a table of events for each model, a context that the
-- application sets for its transaction, and a list of triggers to ignore.
CREATE TABLE context (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, metadata jsonb NOT NULL);
CREATE TABLE model (id serial PRIMARY KEY, name varchar(50) NOT NULL, state text NOT NULL DEFAULT 'new', amount numeric(8, 2));
CREATE TABLE model_event (
    event_id serial PRIMARY KEY, event_at timestamptz NOT NULL, label text NOT NULL,
    obj_id integer REFERENCES model ON DELETE SET NULL, context_id uuid REFERENCES context DEFERRABLE INITIALLY DEFERRED,
    id integer NOT NULL, name varchar(50) NOT NULL, state text NOT NULL, amount numeric(8, 2)
);
CREATE FUNCTION attach_context() RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    now_id uuid;
BEGIN
    BEGIN
        SELECT current_setting('audit.context_id') INTO now_id;
    EXCEPTION WHEN undefined_object OR invalid_text_representation THEN
        RETURN NULL;
    END;
    IF now_id IS NOT NULL THEN
        INSERT INTO context (id, created_at, metadata)
        VALUES (now_id, now(), coalesce(nullif(current_setting('audit.metadata', true), ''), '{}')::jsonb)
        ON CONFLICT (id) DO UPDATE SET metadata = context.metadata || excluded.metadata;
    END IF;
    RETURN now_id;
END $$;
CREATE FUNCTION is_ignored(trigger_name name) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    ignored text := current_setting('audit.ignored', true);
BEGIN
    RETURN ignored IS NOT NULL AND trigger_name = ANY (string_to_array(ignored, ','));
END $$;
CREATE FUNCTION model_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF is_ignored(TG_NAME) THEN
        IF TG_OP = 'DELETE' THEN RETURN OLD; ELSE RETURN NEW; END IF;
    END IF;
    INSERT INTO model_event (event_at, label, obj_id, context_id, id, name, state, amount)
    VALUES (now(), TG_ARGV[0], NEW.id, attach_context(), NEW.id, NEW.name, NEW.state, NEW.amount);
    RETURN NULL;
END $$;
CREATE FUNCTION model_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO model_event (event_at, label, context_id, id, name, state, amount)
    VALUES (now(), 'removed', attach_context(), OLD.id, OLD.name, OLD.state, OLD.amount);
    RETURN NULL;
END $$;
CREATE TRIGGER audit_insert AFTER INSERT ON model FOR EACH ROW EXECUTE PROCEDURE model_changed('added');
CREATE TRIGGER audit_update AFTER UPDATE ON model FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE PROCEDURE model_changed('changed');
CREATE TRIGGER audit_state AFTER UPDATE OF state ON model FOR EACH ROW WHEN (NEW.state = 'done' AND OLD.state <> 'done')
    EXECUTE PROCEDURE model_changed('finished');
CREATE TRIGGER audit_delete AFTER DELETE ON model FOR EACH ROW EXECUTE PROCEDURE model_removed();
COMMENT ON TRIGGER audit_insert ON model IS 'of the framework';

INSERT INTO model (name, amount) VALUES ('first', 1.5), ('second', 2) RETURNING name;
BEGIN;
SELECT set_config('audit.context_id', '11111111-1111-1111-1111-111111111111', true);
SELECT set_config('audit.metadata', '{"user": 7, "url": "/a"}', true);
UPDATE model SET amount = amount + 1;
UPDATE model SET amount = amount WHERE name = 'first';
SELECT set_config('audit.metadata', '{"url": "/b", "job": true}', true);
UPDATE model SET state = 'done' WHERE name = 'second';
COMMIT;
BEGIN;
SELECT set_config('audit.context_id', '22222222-2222-2222-2222-222222222222', true);
INSERT INTO model (name) SELECT 'bulk ' || i FROM generate_series(1, 3) i;
SAVEPOINT s;
DELETE FROM model WHERE name > 'bulk 1';
ROLLBACK TO s;
SELECT set_config('audit.ignored', 'audit_update,audit_state', true);
UPDATE model SET state = 'done';
COMMIT;
SET audit.context_id = 'not one';
INSERT INTO model (name) VALUES ('no context');
RESET audit.context_id;
DELETE FROM model WHERE name IN ('first', 'bulk 2');
UPDATE model SET name = repeat('x', 51) WHERE name = 'second';
SELECT label, obj_id IS NULL AS is_gone, context_id, name, state, amount FROM model_event ORDER BY event_id;
SELECT id, metadata FROM context ORDER BY id;
-- what its pages ask: the history of one, with what each event changed
SELECT e.label, e.name, e.state, c.metadata ->> 'user' AS by,
       e.amount - lag(e.amount) OVER (PARTITION BY e.id ORDER BY e.event_id) AS change
    FROM model_event e LEFT JOIN context c ON c.id = e.context_id WHERE e.name = 'second' ORDER BY e.event_id;

-- Revisions, in the way of Hibernate Envers: one row a transaction, and for each entity a table of what it was.
CREATE SEQUENCE revinfo_seq INCREMENT BY 50;
CREATE TABLE revinfo (rev integer PRIMARY KEY, revtstmp bigint, by text);
CREATE TABLE customer (id bigint PRIMARY KEY, name varchar(255), city varchar(255), version integer NOT NULL DEFAULT 0);
CREATE TABLE customer_aud (
    id bigint NOT NULL, rev integer NOT NULL REFERENCES revinfo, revtype smallint, revend integer REFERENCES revinfo,
    name varchar(255), name_mod boolean, city varchar(255), city_mod boolean, PRIMARY KEY (rev, id)
);
CREATE FUNCTION revision() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found integer := nullif(current_setting('envers.revision', true), '')::integer;
BEGIN
    IF found IS NULL THEN
        found := nextval('revinfo_seq');
        INSERT INTO revinfo VALUES (found, extract(epoch FROM now())::bigint, current_user);
        PERFORM set_config('envers.revision', found::text, true);
    END IF;
    RETURN found;
END $$;
CREATE FUNCTION customer_audited() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    rev_now integer := revision();
BEGIN
    UPDATE customer_aud SET revend = rev_now WHERE id = coalesce(NEW.id, OLD.id) AND revend IS NULL AND rev <> rev_now;
    INSERT INTO customer_aud VALUES (
        coalesce(NEW.id, OLD.id), rev_now, CASE TG_OP WHEN 'INSERT' THEN 0 WHEN 'UPDATE' THEN 1 ELSE 2 END, NULL,
        NEW.name, NEW.name IS DISTINCT FROM OLD.name, NEW.city, NEW.city IS DISTINCT FROM OLD.city
    ) ON CONFLICT (rev, id) DO UPDATE SET revtype = excluded.revtype, name = excluded.name, city = excluded.city,
        name_mod = customer_aud.name_mod OR excluded.name_mod, city_mod = customer_aud.city_mod OR excluded.city_mod;
    RETURN NULL;
END $$;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON customer FOR EACH ROW EXECUTE FUNCTION customer_audited();
BEGIN;
INSERT INTO customer VALUES (1, 'Ada', 'London'), (2, 'Blaise', 'Paris');
UPDATE customer SET city = 'Oxford', version = version + 1 WHERE id = 1 AND version = 0;
COMMIT;
BEGIN;
UPDATE customer SET name = 'Pascal', version = version + 1 WHERE id = 2 AND version = 0;
UPDATE customer SET name = 'never', version = version + 1 WHERE id = 2 AND version = 0;
INSERT INTO customer VALUES (3, 'Carl', 'Brunswick') ON CONFLICT DO NOTHING;
COMMIT;
DELETE FROM customer WHERE id = 1;
-- (their numbers may have gaps)
SELECT id, dense_rank() OVER (ORDER BY rev) AS rev, revtype, (SELECT count(DISTINCT b.rev) FROM customer_aud b WHERE b.rev <= a.revend) AS revend,
       name, name_mod, city, city_mod FROM customer_aud a ORDER BY rev, id;
SELECT count(*), count(DISTINCT rev) FROM revinfo;
-- an entity at a revision
SELECT id, name, city FROM customer_aud a WHERE a.revtype <> 2 AND a.rev = (
    SELECT max(b.rev) FROM customer_aud b WHERE b.id = a.id AND b.rev < (SELECT max(rev) FROM revinfo)) ORDER BY id;

-- Row versions with their times, and one audit function for all tables.
CREATE TABLE price (item text PRIMARY KEY, cents integer CHECK (cents > 0), valid tstzrange NOT NULL DEFAULT tstzrange(now(), NULL));
CREATE TABLE price_history (LIKE price);
CREATE FUNCTION versioned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        EXECUTE format('INSERT INTO %I.%I SELECT ($1).*', TG_TABLE_SCHEMA, TG_TABLE_NAME || '_history') USING OLD;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    NEW.valid := tstzrange(now(), NULL);
    RETURN NEW;
END $$;
CREATE TRIGGER versioned BEFORE INSERT OR UPDATE OR DELETE ON price FOR EACH ROW EXECUTE FUNCTION versioned();
CREATE TABLE audit_log (id bigint GENERATED ALWAYS AS IDENTITY, relation text, op text, key text, changed jsonb);
CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = au AS $$
DECLARE
    old_row jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    differs jsonb;
BEGIN
    SELECT jsonb_object_agg(k, v) INTO differs
        FROM jsonb_each(coalesce(new_row, old_row)) AS e (k, v)
        WHERE k <> ALL (TG_ARGV[1:]) AND (old_row IS NULL OR new_row IS NULL OR old_row -> k IS DISTINCT FROM v);
    INSERT INTO audit_log (relation, op, key, changed)
    VALUES (TG_TABLE_NAME, left(TG_OP, 1), coalesce(new_row, old_row) ->> TG_ARGV[0], differs);
    RETURN NULL;
END $$;
CREATE TRIGGER logged AFTER INSERT OR UPDATE OR DELETE ON price FOR EACH ROW EXECUTE FUNCTION logged('item', 'valid');
CREATE TRIGGER logged AFTER INSERT OR UPDATE OR DELETE ON customer FOR EACH ROW EXECUTE FUNCTION logged('id', 'version');
INSERT INTO price VALUES ('pen', 120), ('ink', 700);
UPDATE price SET cents = cents * 2 WHERE item = 'pen';
INSERT INTO price VALUES ('pen', 1);
INSERT INTO price VALUES ('pen', 5) ON CONFLICT (item) DO UPDATE SET cents = excluded.cents RETURNING item, cents;
MERGE INTO price USING (VALUES ('ink', NULL), ('pad', 90)) AS v (item, cents) ON price.item = v.item
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (item, cents) VALUES (v.item, v.cents);
UPDATE customer SET city = 'Clermont', version = version + 1 WHERE id = 2;
SELECT item, cents FROM price ORDER BY item;
SELECT item, cents FROM price_history ORDER BY item, cents;
SELECT relation, op, key, changed FROM audit_log ORDER BY id;
SELECT event_object_table, trigger_name, event_manipulation, action_timing FROM information_schema.triggers
    WHERE trigger_schema = 'au' ORDER BY 1, 2, 3;
