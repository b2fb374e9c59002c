-- DDL by clients: event triggers that take a relation into the lake, number its columns, and refuse what the lake
-- cannot store yet. Their notes in `dirty` are published at COMMIT (publish.sql).

CREATE FUNCTION pg_sluice.refuse(construct text, hint text DEFAULT '') RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF hint <> '' THEN
        RAISE EXCEPTION '% is not supported on lake tables', construct
            USING ERRCODE = 'feature_not_supported', HINT = refuse.hint;
    END IF;
    RAISE EXCEPTION '% is not supported on lake tables', construct USING ERRCODE = 'feature_not_supported';
END $$;


-- A row that is still in a shadow at COMMIT was written by code that ran on PostgreSQL alone, and so is a TRUNCATE that
-- the gateway has not asked for: it would leave the lake's rows in place. The gateway writes lasting rows, and
-- truncates, with `session_replication_role` local, which clients cannot set. Rows that functions write while shadows
-- are filled are taken by the gateway (scans.sql). A TRUNCATE by functions that are watched is noted, for the gateway
-- to take.
CREATE FUNCTION pg_sluice.refuse_shadow_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' AND pg_sluice.backend_setting('sluice.watched', true) = 'on' THEN
        PERFORM pg_sluice.note_truncate(TG_RELID);
        RETURN NULL;
    END IF;
    PERFORM pg_sluice.refuse(format('writing table "%s" from within a function or procedure', TG_TABLE_NAME));
    RETURN NULL;
END $$;


-- Only the gateway has the guards that refuse such changes: for clients they do not exist.
CREATE FUNCTION pg_sluice.disown_guard(guard text, guarded regclass) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'trigger "%" for table "%" does not exist', guard, guarded
        USING ERRCODE = 'undefined_object';
END $$;


-- Take a new relation into the lake: an ID, a folder, and the guards against changes of its shadow alone.
CREATE FUNCTION pg_sluice.adopt(shadow regclass) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c pg_class; n name; id bigint := pg_sluice.take_numbers('pg_sluice.catalog_id');
BEGIN
    SELECT * INTO c FROM pg_class WHERE oid = shadow;
    SELECT nspname INTO n FROM pg_namespace WHERE oid = c.relnamespace;
    INSERT INTO pg_sluice.relation (relid, table_id, path, schema_path) VALUES (
        shadow, id,
        format('%s-%s/', regexp_replace(c.relname, '[^A-Za-z0-9_]', '_', 'g'), id),
        format('%s/', regexp_replace(n, '[^A-Za-z0-9_]', '_', 'g')));
    INSERT INTO pg_sluice.writer VALUES (shadow) ON CONFLICT DO NOTHING;
    INSERT INTO pg_sluice.placed VALUES (shadow) ON CONFLICT DO NOTHING;
    INSERT INTO pg_sluice.changing VALUES (shadow) ON CONFLICT DO NOTHING;
    PERFORM pg_sluice.make_table_lock(id);
    PERFORM pg_sluice.guard(shadow);
END $$;


-- Update `attribute` to the shadow's present columns. A column whose values must be computed for existing rows, for the
-- first time or anew, is noted (obligations.sql). One whose new type its files hold already keeps its ID. Returns the
-- new columns for which every existing row has a value, stored as text independent of the session's settings.
CREATE FUNCTION pg_sluice.number_columns(shadow regclass) RETURNS smallint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = postgres SET timezone = 'UTC'
SET bytea_output = hex SET extra_float_digits = 1 AS $$
DECLARE
    a record; known pg_sluice.attribute; next_id bigint; filled smallint[] := '{}';
    published boolean := EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = shadow);
    has_default boolean; computed boolean; constrained boolean; kept oid; first_value text;
BEGIN
    IF published AND EXISTS (
        SELECT FROM pg_attribute t LEFT JOIN pg_sluice.attribute l ON l.relid = t.attrelid AND l.attnum = t.attnum
        WHERE t.attrelid = shadow AND t.attnum > 0 AND NOT t.attisdropped
            AND (l.type_oid, l.typmod) IS DISTINCT FROM (t.atttypid, pg_sluice.kept_typmod(t))) THEN
        -- No transaction commits rows without the column between here and COMMIT.
        PERFORM FROM pg_sluice.relation r WHERE r.relid = shadow FOR UPDATE;
    END IF;
    SELECT next_column_id INTO next_id FROM pg_sluice.relation WHERE relid = shadow;
    FOR a IN SELECT t.*, pg_sluice.kept_typmod(t) AS kept_typmod FROM pg_attribute t
             WHERE t.attrelid = shadow AND t.attnum > 0 AND NOT t.attisdropped ORDER BY t.attnum
    LOOP
        SELECT * INTO known FROM pg_sluice.attribute WHERE relid = shadow AND attnum = a.attnum;
        CONTINUE WHEN FOUND AND (known.type_oid, known.typmod) IS NOT DISTINCT FROM (a.atttypid, a.kept_typmod);
        IF pg_sluice.column_type(a.atttypid, a.kept_typmod) IS NULL THEN
            PERFORM pg_sluice.refuse(format('column "%s" of type %s', a.attname, format_type(a.atttypid, a.atttypmod)));
        END IF;
        IF EXISTS (SELECT FROM pg_sluice.made_of(a.atttypid) m JOIN pg_type t ON t.oid = m AND t.oid >= 16384
                   JOIN pg_class c ON c.oid = t.typrelid AND c.relkind <> 'c') THEN
            PERFORM pg_sluice.refuse(format('column "%s" with rows of a relation', a.attname));
        END IF;
        constrained := pg_sluice.is_constrained(a.atttypid);
        PERFORM pg_sluice.note_type(a.atttypid) WHERE a.atttypid >= 16384;
        SELECT k.type_oid INTO kept FROM pg_sluice.kept_type(a.atttypid, a.kept_typmod) k;
        IF known.relid IS NOT NULL AND NOT constrained AND pg_sluice.user_array(a.atttypid) IS NULL
            AND pg_sluice.is_kept_alike(known.type_oid, known.typmod, a.atttypid, a.kept_typmod) THEN
            UPDATE pg_sluice.attribute SET type_oid = a.atttypid, typmod = a.kept_typmod,
                initial_default = CASE  -- of a float4 the number that it is, in more digits
                    WHEN kept = 'float8'::regtype AND (pg_sluice.kept_type(known.type_oid, -1)).type_oid = 'float4'::regtype
                    THEN initial_default::float4::float8::text ELSE initial_default END
                WHERE relid = shadow AND attnum = a.attnum;
            CONTINUE;
        END IF;
        first_value := (a.attmissingval::text::text[])[1];
        -- A default that comes with its column has PostgreSQL note its value, or rewrite the table (`on_rewrite`); one that
        -- the same statement sets later leaves NULL in rows that are there.
        has_default := a.atthasdef AND NOT (
            known.relid IS NULL AND a.attgenerated = '' AND first_value IS NULL AND pg_sluice.has_rows(shadow)
            AND NOT EXISTS (SELECT FROM pg_sluice.column_obligation o WHERE o.relid = shadow AND o.attnum = 0));
        IF published AND known.relid IS NULL AND has_default AND first_value IS NULL THEN
            first_value := pg_sluice.constant_default(shadow, a.attnum);
        END IF;
        computed := (published OR pg_sluice.has_rows(shadow)) AND (
            known.relid IS NOT NULL OR a.attgenerated <> '' OR a.attidentity <> '' OR constrained
            OR ((has_default OR pg_sluice.domain_default(a.atttypid) IS NOT NULL)
                AND (first_value IS NULL OR pg_sluice.column_type(a.atttypid, -1) = 'list' OR kept = 2276 OR kept = 'interval'::regtype)));
        INSERT INTO pg_sluice.attribute VALUES (
                shadow, a.attnum, next_id, a.atttypid, a.kept_typmod, first_value, computed)
            ON CONFLICT (relid, attnum) DO UPDATE SET column_id = excluded.column_id, type_oid = excluded.type_oid,
                typmod = excluded.typmod, initial_default = NULL, computed = excluded.computed;
        next_id := next_id + (SELECT count(*) FROM pg_sluice.fields('', a.atttypid, a.kept_typmod, 0, NULL));
        IF computed AND pg_sluice.has_rows(shadow) THEN
            INSERT INTO pg_sluice.column_obligation VALUES (shadow, a.attnum, known.column_id)
                ON CONFLICT DO NOTHING;
        ELSIF first_value IS NOT NULL THEN
            filled := filled || a.attnum;
        END IF;
    END LOOP;
    -- A change without new columns blocks no commit of rows.
    UPDATE pg_sluice.relation SET next_column_id = next_id WHERE relid = shadow AND next_column_id <> next_id;
    RETURN filled;
END $$;

-- The value of a column's default that is a constant of a type of PostgreSQL's, as its text. PostgreSQL does not note it
-- for the rows of a table that the same statement rewrites, such as for another type.
CREATE FUNCTION pg_sluice.constant_default(shadow oid, number smallint) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expression text := (
        SELECT pg_get_expr(d.adbin, 0) FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.atttypid < 16384 AND a.attgenerated = ''
        WHERE d.adrelid = shadow AND d.adnum = number AND d.adbin::text LIKE '{CONST %:constisnull false %');
    value text;
BEGIN
    IF expression IS NOT NULL THEN
        EXECUTE format('SELECT format(''%%s'', %s)', expression) INTO value;
    END IF;
    RETURN value;
END $$;

CREATE FUNCTION pg_sluice.has_rows(shadow oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.relation r JOIN pg_sluice.data_file f USING (table_id)
                   WHERE r.relid = shadow AND f.end_snapshot IS NULL)
        OR EXISTS (SELECT FROM pg_sluice.staged s WHERE s.relid = shadow)
$$;

-- As `is_stored_alike`, of types that may be domains.
CREATE FUNCTION pg_sluice.is_kept_alike(old_type oid, old_typmod integer, new_type oid, new_typmod integer)
RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 2276 NOT IN (o.type_oid, n.type_oid)  -- texts of one type mean nothing in another
        AND ((o.type_oid, o.typmod) = (n.type_oid, n.typmod)
             OR pg_sluice.is_stored_alike(o.type_oid, o.typmod, n.type_oid, n.typmod))
    FROM pg_sluice.kept_type(old_type, old_typmod) o, pg_sluice.kept_type(new_type, new_typmod) n
$$;

-- Whether files that hold a column of one type hold it as one of the other too, value for value.
CREATE FUNCTION pg_sluice.is_stored_alike(old_type oid, old_typmod integer, new_type oid, new_typmod integer)
RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN old_type IN ('varchar'::regtype, 'text'::regtype) AND new_type IN ('varchar'::regtype, 'text'::regtype)
        THEN new_type = 'text'::regtype OR new_typmod < 0
             OR (old_type = 'varchar'::regtype AND old_typmod BETWEEN 0 AND new_typmod)
        WHEN old_type IN ('int2'::regtype, 'int4'::regtype) AND new_type IN ('int4'::regtype, 'int8'::regtype)
        THEN old_type < new_type OR new_type = 'int8'::regtype
        WHEN old_type = 'float4'::regtype AND new_type = 'float8'::regtype THEN true
        WHEN old_type <> new_type THEN false
        WHEN new_type IN ('timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype)
        THEN new_typmod < 0 OR (old_typmod BETWEEN 0 AND new_typmod)
        WHEN new_type = 'numeric'::regtype AND old_typmod >= 4 AND new_typmod >= 4
        THEN ((old_typmod - 4) & 2047) = ((new_typmod - 4) & 2047)
             AND (old_typmod - 4) >> 16 <= (new_typmod - 4) >> 16 AND (new_typmod - 4) >> 16 <= 38
        ELSE false END
$$;


-- Checks that a client defers to COMMIT run beside `publish`, while no other session can commit. So none of them may
-- run code of a client's, which could take any time. Deferred triggers of lake tables fire before (triggers.sql).
CREATE FUNCTION pg_sluice.refuse_late(changed oid) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    -- REINDEX DATABASE, the owner's right, is about the gateway's own tables too. No client can give these a trigger.
    IF (SELECT relnamespace IN ('pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace) FROM pg_class
        WHERE oid = changed) THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = changed AND t.tgdeferrable AND NOT t.tgisinternal
               AND t.tgfoid <> 'pg_sluice.refuse_shadow_change'::regproc)
        AND NOT EXISTS (SELECT FROM pg_sluice.relation r WHERE r.relid = changed) THEN
        PERFORM pg_sluice.refuse('a trigger that is DEFERRABLE on a temporary table');
    END IF;
    IF EXISTS (
        SELECT FROM pg_constraint k WHERE k.conrelid = changed AND k.condeferrable AND CASE k.contype
            WHEN 'x' THEN EXISTS (
                SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = k.conindid AND d.refobjid >= 16384
                    AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass))
            -- A cast from one type to the other may be a user's, now or later.
            WHEN 'f' THEN EXISTS (
                SELECT FROM unnest(k.conkey, k.confkey) AS n (own, other)
                JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = n.own
                JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = n.other
                JOIN pg_type t ON t.oid IN (a.atttypid, b.atttypid)
                WHERE a.atttypid <> b.atttypid AND t.oid >= 16384 AND t.typtype <> 'd')
            ELSE false END)
        OR EXISTS (
            -- Those that reference the table have triggers on it; no index finds them by confrelid.
            SELECT FROM pg_constraint k WHERE k.condeferrable AND k.contype = 'f' AND k.oid IN (
                    SELECT o.oid FROM pg_constraint o WHERE o.conrelid = changed
                    UNION ALL SELECT t.tgconstraint FROM pg_trigger t WHERE t.tgrelid = changed)
                AND NOT EXISTS (SELECT FROM pg_sluice.relation r WHERE r.relid = k.conrelid)
                AND (pg_sluice.plans_users_code(k.conrelid) OR pg_sluice.plans_users_code(k.confrelid))) THEN
        PERFORM pg_sluice.refuse('a DEFERRABLE constraint that may run code of users');
    END IF;
END $$;

-- Whether PostgreSQL runs functions of users to plan a query of the table: those in expressions of its indexes and
-- statistics, with constants for arguments.
CREATE FUNCTION pg_sluice.plans_users_code(of_table oid) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = of_table
            UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext s WHERE s.stxrelid = of_table
        ) AS o (classid, objid)
        CROSS JOIN LATERAL (  -- LIMIT: by the index of what depends, not all that depends on functions
            SELECT FROM pg_depend d WHERE d.classid = o.classid AND d.objid = o.objid
                AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384 LIMIT 1) AS used)
$$;


CREATE FUNCTION pg_sluice.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    command record; c pg_class; created boolean; has_rows boolean; parent oid; filled smallint[];
BEGIN
    -- Views of the lake's own metadata are nothing of a client's.
    FOR command IN SELECT * FROM pg_event_trigger_ddl_commands() d
                   WHERE d.schema_name IS DISTINCT FROM 'pg_ducklake' LOOP
        IF command.classid IN ('pg_trigger'::regclass, 'pg_constraint'::regclass)
            AND command.command_tag <> 'CREATE TRIGGER' THEN
            PERFORM pg_sluice.disown_guard(g.tgname, g.tgrelid) FROM pg_trigger g
            WHERE g.tgfoid = 'pg_sluice.refuse_shadow_change'::regproc AND command.objid IN (g.oid, g.tgconstraint);
        END IF;
        PERFORM pg_sluice.refuse_late(CASE command.classid
            WHEN 'pg_class'::regclass THEN
                coalesce((SELECT i.indrelid FROM pg_index i WHERE i.indexrelid = command.objid), command.objid)
            WHEN 'pg_statistic_ext'::regclass THEN (SELECT s.stxrelid FROM pg_statistic_ext s WHERE s.oid = command.objid)
            WHEN 'pg_trigger'::regclass THEN (SELECT t.tgrelid FROM pg_trigger t WHERE t.oid = command.objid) END);
        IF command.classid = 'pg_type'::regclass THEN
            PERFORM pg_sluice.on_type(command.objid, command.command_tag);
        ELSIF command.object_type = 'composite type' AND command.objsubid = 0 THEN
            PERFORM pg_sluice.write_type_anew(t.reltype) FROM pg_class t WHERE t.oid = command.objid;
        ELSIF command.object_type = 'schema' THEN
            INSERT INTO pg_sluice.dirty VALUES (0, (SELECT nspname FROM pg_namespace WHERE oid = command.objid));
            IF command.command_tag = 'ALTER SCHEMA' THEN  -- renamed, its tables are too, and its old name is nobody's
                INSERT INTO pg_sluice.dirty SELECT r.relid, NULL FROM pg_sluice.relation r
                    JOIN pg_class t ON t.oid = r.relid WHERE t.relnamespace = command.objid;
                INSERT INTO pg_sluice.dirty SELECT 0, s.schema_name FROM pg_ducklake.ducklake_schema s
                    WHERE s.end_snapshot IS NULL AND s.schema_name <> 'main'
                    AND NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = s.schema_name);
            END IF;
        END IF;
        parent := CASE command.object_type
            WHEN 'index' THEN (SELECT indrelid FROM pg_index WHERE indexrelid = command.objid)
            WHEN 'trigger' THEN (SELECT tgrelid FROM pg_trigger WHERE oid = command.objid AND NOT tgisinternal
                                  AND tgfoid <> 'pg_sluice.refuse_shadow_change'::regproc)
            WHEN 'rule' THEN (SELECT ev_class FROM pg_rewrite WHERE oid = command.objid AND rulename <> '_RETURN') END;
        INSERT INTO pg_sluice.dirty SELECT r.relid, NULL FROM pg_policy p JOIN pg_sluice.relation r ON r.relid = p.polrelid
            WHERE command.classid = 'pg_policy'::regclass AND p.oid = command.objid;
        IF command.object_type = 'trigger' AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = parent) THEN
            PERFORM pg_sluice.check_triggers(parent);
            INSERT INTO pg_sluice.dirty SELECT r.relid, NULL FROM pg_sluice.tables_above(parent) a
                JOIN pg_sluice.relation r ON r.relid = a;
        ELSIF command.object_type <> 'index' AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = parent) THEN
            PERFORM pg_sluice.refuse(command.command_tag, CASE command.object_type WHEN 'rule' THEN 'Use a trigger instead.' END);
        ELSIF command.object_type = 'index' AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = parent) THEN
            IF command.command_tag = 'REINDEX' THEN
                DELETE FROM pg_sluice.lake_index WHERE index_oid = command.objid;  -- its sidecars are made anew
            END IF;
            PERFORM pg_sluice.note_indexes(parent);
            INSERT INTO pg_sluice.dirty VALUES (parent, NULL);
        END IF;
        IF command.classid IN ('pg_publication_rel'::regclass, 'pg_publication_namespace'::regclass)
            OR (command.classid = 'pg_publication'::regclass AND (
                EXISTS (SELECT FROM pg_publication p WHERE p.oid = command.objid AND p.puballtables)
                OR EXISTS (SELECT FROM pg_publication_rel p WHERE p.prpubid = command.objid)
                OR EXISTS (SELECT FROM pg_publication_namespace p WHERE p.pnpubid = command.objid))) THEN
            PERFORM pg_sluice.refuse('a publication', 'Subscribers would receive no rows: these are in files.');
        END IF;
        IF command.classid <> 'pg_class'::regclass OR command.object_type = 'sequence' THEN
            CONTINUE;
        END IF;
        SELECT * INTO c FROM pg_class WHERE oid = command.objid;
        IF NOT FOUND OR c.relpersistence = 't' OR c.relnamespace IN (
            'pg_catalog'::regnamespace, 'pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace) THEN
            CONTINUE;
        END IF;
        IF c.relkind IN ('p', 'f') THEN
            IF c.relkind = 'p' THEN
                PERFORM pg_sluice.refuse('PARTITION BY', 'Create the table without it: of files whose statistics '
                                         'exclude a condition nothing is read, so a large table needs no partitions.');
            END IF;
            PERFORM pg_sluice.refuse('a foreign table');
        ELSIF c.relkind NOT IN ('r', 'm') THEN
            CONTINUE;
        END IF;
        created := NOT EXISTS (SELECT FROM pg_sluice.relation WHERE relid = c.oid);
        IF c.relpersistence = 'u' THEN
            PERFORM pg_sluice.refuse('UNLOGGED');
        ELSIF EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhrelid, inhparent)) THEN
            PERFORM pg_sluice.refuse('INHERITS', 'CREATE TABLE … (LIKE …) takes the columns of another table.');
        ELSIF c.reloftype <> 0 THEN
            PERFORM pg_sluice.refuse('a typed table (OF)', 'Name the columns of the type in CREATE TABLE.');
        END IF;
        IF c.relkind = 'm' THEN
            -- The gateway creates each WITH NO DATA and fills it itself: PostgreSQL has only shadows to fill it from.
            has_rows := command.command_tag = 'REFRESH MATERIALIZED VIEW' OR (created AND c.relispopulated);
        ELSIF NOT created THEN
            has_rows := false;  -- rows that somebody has put there the guard has seen
        ELSE
            has_rows := pg_relation_size(c.oid) > 0 AND NOT pg_sluice.is_filled();  -- else the gateway takes them
        END IF;
        IF has_rows THEN
            PERFORM pg_sluice.refuse(command.command_tag || ' from within a function, or over catalog tables,');
        END IF;
        IF created THEN
            PERFORM pg_sluice.adopt(c.oid);
        END IF;
        filled := pg_sluice.number_columns(c.oid);
        PERFORM pg_sluice.check_sort_key(c.oid);
        PERFORM pg_sluice.check_partition_key(c.oid);
        PERFORM pg_sluice.adopt_constraints(c.oid);
        PERFORM pg_sluice.note_obligations(c.oid, filled);
        PERFORM pg_sluice.note_indexes(c.oid);
        INSERT INTO pg_sluice.dirty VALUES (c.oid, NULL);
        IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND pg_sluice.is_of_users(t)) THEN
            PERFORM pg_sluice.check_triggers(c.oid);
            INSERT INTO pg_sluice.dirty SELECT r.relid, NULL FROM pg_sluice.tables_above(c.oid) a
                JOIN pg_sluice.relation r ON r.relid = a WHERE r.relid <> c.oid;
        END IF;
    END LOOP;
END $$;


-- Like to_regclass, which requires rights on the schema.
CREATE FUNCTION pg_sluice.relation_named(schema_name name, name name) RETURNS oid LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = schema_name AND c.relname = name
$$;

CREATE FUNCTION pg_sluice.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o record;
BEGIN
    FOR o IN SELECT * FROM pg_event_trigger_dropped_objects() LOOP
        IF o.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_sluice.relation WHERE relid = o.objid) THEN
            INSERT INTO pg_sluice.dirty VALUES (o.objid, NULL);
        ELSIF o.object_type IN ('table constraint', 'default value', 'policy') THEN
            -- Also for a table that loses only a dependency: DROP … CASCADE names it nowhere.
            INSERT INTO pg_sluice.dirty SELECT r.relid, NULL FROM pg_sluice.relation r
                WHERE r.relid = pg_sluice.relation_named(o.address_names[1]::name, o.address_names[2]::name);
        ELSIF o.object_type = 'index' THEN
            INSERT INTO pg_sluice.dirty SELECT x.relid, NULL FROM pg_sluice.lake_index x WHERE x.index_oid = o.objid;
        ELSIF o.classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_sluice.user_type WHERE type_oid = o.objid) THEN
            DELETE FROM pg_sluice.enum_label WHERE type_oid = o.objid;
            DELETE FROM pg_sluice.user_type WHERE type_oid = o.objid;
        ELSIF o.object_type = 'trigger' THEN
            PERFORM pg_sluice.disown_guard(o.address_names[3], r.relid)
            FROM pg_sluice.relation r JOIN pg_class c ON c.oid = r.relid
            WHERE r.relid = pg_sluice.relation_named(o.address_names[1]::name, o.address_names[2]::name) AND c.relkind = 'r'
                AND o.address_names[3] IN ('pg_sluice_guard', 'pg_sluice_guard_truncate');
            -- Triggers of foreign keys go with their constraints.
            INSERT INTO pg_sluice.dirty SELECT r.relid, NULL
                FROM pg_sluice.tables_above(pg_sluice.relation_named(o.address_names[1]::name, o.address_names[2]::name)) a
                JOIN pg_sluice.relation r ON r.relid = a
                WHERE o.address_names[3] !~ '^RI_ConstraintTrigger_[ac]_[0-9]+$';
        ELSIF o.object_type = 'schema' AND NOT o.is_temporary THEN
            INSERT INTO pg_sluice.dirty VALUES (0, o.object_name);
        END IF;
    END LOOP;
END $$;


-- The shadow is empty: the gateway does the rewrite that PostgreSQL would do for a default or a type.
CREATE FUNCTION pg_sluice.on_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_sluice.relation WHERE relid = pg_event_trigger_table_rewrite_oid()) THEN
        RETURN;
    ELSIF pg_event_trigger_table_rewrite_reason() & ~(2 | 4) <> 0 THEN
        PERFORM pg_sluice.refuse('an ALTER TABLE that rewrites the table');
    ELSIF pg_sluice.has_rows(pg_event_trigger_table_rewrite_oid()) THEN
        -- Only the text tells whether the expression is other than the column itself.
        INSERT INTO pg_sluice.column_obligation VALUES (pg_event_trigger_table_rewrite_oid(), 0)
            ON CONFLICT DO NOTHING;
    END IF;
END $$;
