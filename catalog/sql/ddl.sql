-- DDL by clients: event triggers that take a relation into the lake, number its columns, and refuse what the lake cannot
-- keep yet. What they note in `dirty` is published at COMMIT (publish.sql).

CREATE FUNCTION pg_sluice.refuse(construct text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is not supported on lake tables', construct USING ERRCODE = 'feature_not_supported';
END $$;


-- A row that is still in a shadow at COMMIT was written by something that ran on PostgreSQL alone.
CREATE FUNCTION pg_sluice.refuse_shadow_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_sluice.refuse(format('writing table "%s" from within a function or procedure', TG_TABLE_NAME));
    RETURN NULL;
END $$;


-- Take a new relation into the lake: an ID, a folder, and the guard against rows in its shadow.
CREATE FUNCTION pg_sluice.adopt(shadow regclass) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog SET allow_system_table_mods = on AS $$
DECLARE
    c pg_class; n name; id bigint := nextval('pg_sluice.catalog_id');
BEGIN
    SELECT * INTO c FROM pg_class WHERE oid = shadow;
    SELECT nspname INTO n FROM pg_namespace WHERE oid = c.relnamespace;
    INSERT INTO pg_sluice.relation (relid, table_id, path, schema_path) VALUES (
        shadow, id,
        format('%s-%s/', regexp_replace(c.relname, '[^A-Za-z0-9_]', '_', 'g'), id),
        format('%s/', regexp_replace(n, '[^A-Za-z0-9_]', '_', 'g')));
    INSERT INTO pg_sluice.writer VALUES (shadow) ON CONFLICT DO NOTHING;
    PERFORM pg_sluice.make_table_lock(id);
    EXECUTE format('CREATE CONSTRAINT TRIGGER pg_sluice_guard AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED '
                   'FOR EACH ROW EXECUTE FUNCTION pg_sluice.refuse_shadow_row()', shadow);
    UPDATE pg_trigger SET tgisinternal = true WHERE tgrelid = shadow AND tgname = 'pg_sluice_guard';
END $$;


-- Bring `attribute` up to what the shadow's columns are now; refuse what is not yet done online.
CREATE FUNCTION pg_sluice.number_columns(shadow regclass, created boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    a record; known pg_sluice.attribute; next_id bigint;
BEGIN
    SELECT next_column_id INTO next_id FROM pg_sluice.relation WHERE relid = shadow;
    FOR a IN SELECT * FROM pg_attribute WHERE attrelid = shadow AND attnum > 0 AND NOT attisdropped ORDER BY attnum
    LOOP
        SELECT * INTO known FROM pg_sluice.attribute WHERE relid = shadow AND attnum = a.attnum;
        IF NOT FOUND THEN
            IF pg_sluice.column_type(a.atttypid, a.atttypmod) IS NULL THEN
                PERFORM pg_sluice.refuse(format('column "%s" of type %s', a.attname,
                                                format_type(a.atttypid, a.atttypmod)));
            END IF;
            IF NOT created AND (a.attgenerated <> '' OR a.attidentity <> '' OR (a.atthasdef AND NOT a.atthasmissing))
            THEN
                PERFORM pg_sluice.refuse(format('adding column "%s" with a computed default', a.attname));
            END IF;
            INSERT INTO pg_sluice.attribute VALUES (
                shadow, a.attnum, next_id, a.atttypid, a.atttypmod, (a.attmissingval::text::text[])[1]);
            next_id := next_id + (SELECT count(*) FROM pg_sluice.fields('', a.atttypid, a.atttypmod, 0, NULL));
        ELSIF (known.type_oid, known.typmod) IS DISTINCT FROM (a.atttypid, a.atttypmod) THEN
            PERFORM pg_sluice.refuse(format('changing the type of column "%s"', a.attname));
        END IF;
    END LOOP;
    UPDATE pg_sluice.relation SET next_column_id = next_id WHERE relid = shadow;
END $$;


CREATE FUNCTION pg_sluice.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    command record; c pg_class; created boolean; has_rows boolean; parent oid;
BEGIN
    FOR command IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF command.object_type = 'schema' THEN
            INSERT INTO pg_sluice.dirty VALUES (0, (SELECT nspname FROM pg_namespace WHERE oid = command.objid));
        END IF;
        parent := CASE command.object_type
            WHEN 'index' THEN (SELECT indrelid FROM pg_index WHERE indexrelid = command.objid)
            WHEN 'trigger' THEN (SELECT tgrelid FROM pg_trigger WHERE oid = command.objid AND NOT tgisinternal
                                  AND tgname <> 'pg_sluice_guard')
            WHEN 'rule' THEN (SELECT ev_class FROM pg_rewrite WHERE oid = command.objid AND rulename <> '_RETURN')
            WHEN 'policy' THEN (SELECT polrelid FROM pg_policy WHERE oid = command.objid) END;
        IF command.object_type <> 'index' AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = parent) THEN
            PERFORM pg_sluice.refuse(command.command_tag);
        ELSIF command.object_type = 'index' AND command.command_tag = 'CREATE INDEX' AND parent IS NOT NULL
              AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = parent)
              AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = command.objid) THEN
            PERFORM pg_sluice.refuse(command.command_tag);
        END IF;
        IF command.classid <> 'pg_class'::regclass OR command.object_type = 'sequence' THEN
            CONTINUE;
        END IF;
        SELECT * INTO c FROM pg_class WHERE oid = command.objid;
        IF NOT FOUND OR c.relpersistence = 't' OR c.relnamespace IN (
            'pg_catalog'::regnamespace, 'pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace) THEN
            CONTINUE;
        END IF;
        IF c.relkind IN ('m', 'p', 'f') THEN
            PERFORM pg_sluice.refuse(CASE c.relkind WHEN 'm' THEN 'a materialized view'
                                     WHEN 'p' THEN 'PARTITION BY' ELSE 'a foreign table' END);
        ELSIF c.relkind <> 'r' THEN
            CONTINUE;
        END IF;
        created := NOT EXISTS (SELECT FROM pg_sluice.relation WHERE relid = c.oid);
        IF c.relpersistence = 'u' THEN
            PERFORM pg_sluice.refuse('UNLOGGED');
        ELSIF EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhrelid, inhparent)) THEN
            PERFORM pg_sluice.refuse('INHERITS');
        ELSIF c.reloftype <> 0 THEN
            PERFORM pg_sluice.refuse('a typed table (OF)');
        ELSIF c.relrowsecurity THEN
            PERFORM pg_sluice.refuse('ROW LEVEL SECURITY');
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', c.oid::regclass) INTO has_rows;
        IF has_rows THEN
            PERFORM pg_sluice.refuse(command.command_tag || ' from within a function, or over catalog tables,');
        END IF;
        IF created THEN
            PERFORM pg_sluice.adopt(c.oid);
        ELSE
            PERFORM pg_sluice.refuse_unvalidated(c.oid);
        END IF;
        PERFORM pg_sluice.number_columns(c.oid, created);
        PERFORM pg_sluice.adopt_constraints(c.oid);
        INSERT INTO pg_sluice.constraint_known
            SELECT oid, conrelid FROM pg_constraint WHERE conrelid = c.oid ON CONFLICT DO NOTHING;
        INSERT INTO pg_sluice.dirty VALUES (c.oid, NULL);
    END LOOP;
END $$;


-- A constraint put on a table that exists was checked by PostgreSQL against an empty shadow: refuse it.
-- What was there before is in `constraint_known`.
CREATE TABLE pg_sluice.constraint_known (constraint_oid oid PRIMARY KEY, relid oid NOT NULL);

CREATE FUNCTION pg_sluice.refuse_unvalidated(shadow regclass) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
DECLARE
    k record;
BEGIN
    FOR k IN SELECT * FROM pg_constraint c WHERE conrelid = shadow AND contype IN ('c', 'n', 'p', 'u', 'f')
             AND NOT EXISTS (SELECT FROM pg_sluice.constraint_known o WHERE o.constraint_oid = c.oid)
             AND (EXISTS (SELECT FROM pg_sluice.relation r WHERE r.relid = shadow AND r.changed_snapshot > 0)
                  OR EXISTS (SELECT FROM pg_sluice.staged s WHERE s.relid = shadow)) LOOP
        PERFORM pg_sluice.refuse(format('adding constraint "%s" to an existing table', k.conname));
    END LOOP;
END $$;


CREATE FUNCTION pg_sluice.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    o record;
BEGIN
    FOR o IN SELECT * FROM pg_event_trigger_dropped_objects() LOOP
        IF o.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = o.objid) THEN
            INSERT INTO pg_sluice.dirty VALUES (o.objid, NULL);
        ELSIF o.object_type = 'schema' AND NOT o.is_temporary THEN
            INSERT INTO pg_sluice.dirty VALUES (0, o.object_name);
        END IF;
    END LOOP;
END $$;


CREATE FUNCTION pg_sluice.on_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_sluice.relation WHERE relid = pg_event_trigger_table_rewrite_oid()) THEN
        PERFORM pg_sluice.refuse('an ALTER TABLE that rewrites the table');
    END IF;
END $$;
