-- Functions that need a superuser: to write PostgreSQL's own catalogs, to lock any relation, to act as any owner. The
-- superuser owns these functions. All others belong to sluice_metadata (rights.sql), which alone may call these. They
-- take OIDs, booleans and modes, and evaluate no expression: code that may run users' code is executed by a function
-- which the table's owner owns.

-- Let the gateway read a shadow (`is_told` in staging.sql), through a view: its rows need no rights of the caller, and
-- the caller is the role for code that PostgreSQL evaluates to plan the query. Anybody may name the view: its barrier
-- keeps statistics of the shadow from their operators, and who may only SELECT can lock in the weakest mode alone.
CREATE FUNCTION pg_sluice.view_shadow(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET allow_system_table_mods = on AS $$
DECLARE
    viewed name := format('shadow_%s', shadow); made oid;
BEGIN
    -- `s.*` is the row even if there is a column s.
    EXECUTE format('CREATE VIEW pg_sluice.%1$I WITH (security_barrier) AS '
                   'SELECT s.ctid, s.xmin, s.xmax, s.*::%2$s AS kept FROM ONLY %2$s AS s '
                   'WHERE pg_sluice.is_told(''shadow %3$s'')', viewed, shadow::regclass, shadow);
    EXECUTE format('ALTER VIEW pg_sluice.%I OWNER TO sluice_shadow', viewed);
    EXECUTE format('GRANT SELECT ON pg_sluice.%I TO PUBLIC', viewed);
    -- It is a part of the shadow, which is altered and dropped as if there was no view.
    made := format('pg_sluice.%I', viewed)::regclass;
    DELETE FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = made AND refclassid = 'pg_type'::regclass;
    DELETE FROM pg_depend WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass AND refobjid = shadow
        AND objid IN (SELECT r.oid FROM pg_rewrite r WHERE r.ev_class = made);
    INSERT INTO pg_depend VALUES ('pg_class'::regclass, made, 0, 'pg_class'::regclass, shadow, 0, 'a');
END $$;

-- Let a role delete the rows of a shadow for the gateway, by a view of this backend's. Nothing is evaluated as its owner.
CREATE FUNCTION pg_sluice.open_emptying(shadow oid, deleting name) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET event_triggers = off AS $$
DECLARE
    name text := format('pg_sluice.emptied_%s_%s', shadow, pg_backend_pid());
BEGIN
    EXECUTE format('CREATE VIEW %s AS SELECT s.ctid FROM ONLY %s AS s WHERE pg_sluice.is_told(''shadow %s'')',
                   name, shadow::regclass, shadow);
    EXECUTE format('ALTER VIEW %s OWNER TO sluice_shadow', name);
    EXECUTE format('GRANT DELETE ON %s TO %I', name, deleting);
END $$;

CREATE FUNCTION pg_sluice.close_emptying(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET event_triggers = off AS $$
BEGIN
    EXECUTE format('DROP VIEW pg_sluice.emptied_%s_%s', shadow, pg_backend_pid());
END $$;

-- Let the owner insert rows into its shadow whatever its policies say, though they are FORCEd, as PostgreSQL's own
-- actions of foreign keys do: through a view, for whose owner there are no policies. Returns its name.
CREATE FUNCTION pg_sluice.open_past_policies(shadow oid) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET event_triggers = off AS $$
DECLARE
    name text := format('pg_sluice.past_policies_%s_%s', shadow, pg_backend_pid());
BEGIN
    EXECUTE format('CREATE VIEW %s AS SELECT * FROM ONLY %s', name, shadow::regclass);
    EXECUTE format('ALTER VIEW %s OWNER TO sluice_shadow', name);
    EXECUTE format('GRANT INSERT ON %s TO %s', name, (SELECT c.relowner::regrole FROM pg_class c WHERE c.oid = shadow));
    RETURN name;
END $$;

CREATE FUNCTION pg_sluice.close_past_policies(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET event_triggers = off AS $$
BEGIN
    EXECUTE format('DROP VIEW pg_sluice.past_policies_%s_%s', shadow, pg_backend_pid());
END $$;

-- Guard a new shadow against changes of it alone.
CREATE FUNCTION pg_sluice.guard(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET allow_system_table_mods = on AS $$
DECLARE
    guarded regclass := shadow; constrained oid;
BEGIN
    PERFORM pg_sluice.view_shadow(shadow);
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = shadow AND c.relkind = 'm') THEN
        RETURN;  -- PostgreSQL itself lets nobody write into it
    END IF;
    EXECUTE format('CREATE CONSTRAINT TRIGGER pg_sluice_guard AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED '
                   'FOR EACH ROW WHEN (pg_sluice.backend_setting(''session_replication_role'') <> ''local'' '
                   'AND (pg_sluice.backend_setting(''sluice.filled'', true) IS DISTINCT FROM ''on'' OR NOT pg_sluice.is_filled())) '
                   'EXECUTE FUNCTION pg_sluice.refuse_shadow_change()', guarded);
    EXECUTE format('CREATE TRIGGER pg_sluice_guard_truncate BEFORE TRUNCATE ON %s '
                   'FOR EACH STATEMENT WHEN (pg_sluice.backend_setting(''session_replication_role'') <> ''local'') '
                   'EXECUTE FUNCTION pg_sluice.refuse_shadow_change()', guarded);
    -- Clients see neither the triggers nor a constraint: a deferred trigger needs none.
    SELECT tgconstraint INTO constrained FROM pg_trigger WHERE tgrelid = shadow AND tgname = 'pg_sluice_guard';
    UPDATE pg_trigger SET tgisinternal = true, tgconstraint = 0
        WHERE tgrelid = shadow AND tgfoid = 'pg_sluice.refuse_shadow_change'::regproc;
    DELETE FROM pg_depend WHERE classid = 'pg_constraint'::regclass AND objid = constrained;
    DELETE FROM pg_constraint WHERE oid = constrained;
END $$;

-- Let no trigger of PostgreSQL look for the rows that a foreign key refers to in empty shadows. In filled ones, an UPDATE
-- that keeps a reference checks nothing, as for rows of other transactions; to PostgreSQL all copied rows are of this one
-- (RI_FKey_fk_upd_check_required in ri_triggers.c).
CREATE FUNCTION pg_sluice.silence_foreign_key(of_constraint oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET allow_system_table_mods = on SET event_triggers = off AS $$
DECLARE
    child regclass; differs text; sample oid;
BEGIN
    UPDATE pg_trigger t SET tgqual = f.tgqual FROM pg_trigger f
        WHERE t.tgconstraint = of_constraint AND t.tgfoid <> '"RI_FKey_check_upd"'::regproc
            AND f.tgrelid = 'pg_sluice.filled_alone'::regclass
            AND f.tgname = CASE t.tgfoid WHEN '"RI_FKey_check_ins"'::regproc THEN 'checked_alone' ELSE 'filled_alone' END;
    IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgconstraint = of_constraint AND t.tgfoid = '"RI_FKey_check_upd"'::regproc
               AND coalesce(t.tgqual::text, '') NOT LIKE '%{VAR %') THEN
        SELECT k.conrelid, string_agg(format('(OLD.%1$I OPERATOR(%2$I.%3$s) NEW.%1$I) IS NOT TRUE', a.attname, n.nspname, o.oprname), ' OR ')
            INTO child, differs
            FROM pg_constraint k CROSS JOIN unnest(k.conkey, k.conffeqop) u (attnum, equality)
            JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum
            JOIN pg_operator o ON o.oid = u.equality JOIN pg_namespace n ON n.oid = o.oprnamespace
            WHERE k.oid = of_constraint GROUP BY k.conrelid;
        EXECUTE format('CREATE TRIGGER pg_sluice_differs AFTER UPDATE ON %s FOR EACH ROW '
                       'WHEN ((%s) AND (coalesce(current_setting(''sluice.filled'', true), '''') = ''on'' '
                       'AND coalesce(current_setting(''sluice.unchecked'', true), '''') <> ''on'' OR pg_sluice.is_checked())) '
                       'EXECUTE FUNCTION suppress_redundant_updates_trigger()', child, differs);
        UPDATE pg_trigger t SET tgqual = f.tgqual FROM pg_trigger f
            WHERE t.tgconstraint = of_constraint AND t.tgfoid = '"RI_FKey_check_upd"'::regproc
                AND f.tgrelid = child AND f.tgname = 'pg_sluice_differs';
        -- DROP TRIGGER would take a stronger lock than the statement that makes a foreign key.
        DELETE FROM pg_trigger WHERE tgrelid = child AND tgname = 'pg_sluice_differs' RETURNING oid INTO sample;
        DELETE FROM pg_depend WHERE classid = 'pg_trigger'::regclass AND objid = sample;
    END IF;
    -- Every session's cached description of the two tables is stale.
    UPDATE pg_class c SET relname = c.relname FROM pg_constraint k
        WHERE k.oid = of_constraint AND c.oid IN (k.conrelid, k.confrelid);
END $$;

-- Set whether unvalidated constraints and indexes bind incoming rows (staging.sql).
CREATE FUNCTION pg_sluice.set_unvalidated(
    shadow oid, checks oid[], columns smallint[], indexes oid[], bind boolean
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pg_constraint SET conenforced = bind WHERE oid = ANY (checks) AND conrelid = shadow;
    UPDATE pg_index SET indisready = bind WHERE indexrelid = ANY (indexes) AND indrelid = shadow;
    -- PostgreSQL reads a table's constraints anew if one of its columns has changed.
    UPDATE pg_attribute SET attnotnull = CASE WHEN attnum = ANY (columns) THEN bind ELSE attnotnull END
        WHERE attrelid = shadow AND (attnum = 1 OR attnum = ANY (columns));
END $$;

-- Mark a materialized view as populated or not.
CREATE FUNCTION pg_sluice.set_populated(shadow oid, populated boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET allow_system_table_mods = on AS $$
BEGIN
    UPDATE pg_class SET relispopulated = populated WHERE oid = shadow AND relkind = 'm';
END $$;

-- PostgreSQL allows no writes to a materialized view. To this transaction its shadow is a table, until the savepoint
-- around it is undone; another transaction that does the same waits for that, though not for long.
CREATE FUNCTION pg_sluice.as_table(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET allow_system_table_mods = on SET lock_timeout = '5s' AS $$
BEGIN
    UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = shadow AND relkind = 'm';
END $$;

-- Lock a relation, under any name. LOCK TABLE takes no materialized view; preparing a query that names one locks it as
-- well, in the weakest mode, and neither plans nor runs anything.
CREATE FUNCTION pg_sluice.lock_relation(relation oid, mode text, nowait boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    prepared text := gen_random_uuid();  -- the client's have names here too
BEGIN
    PERFORM pg_sluice.check_lock_mode(mode);
    IF EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind = 'm') THEN
        EXECUTE format('PREPARE %I AS SELECT FROM %s', prepared, relation::regclass);
        EXECUTE format('DEALLOCATE %I', prepared);
    ELSE
        EXECUTE format('LOCK TABLE %s IN %s MODE %s', relation::regclass, mode, CASE WHEN nowait THEN 'NOWAIT' END);
    END IF;
END $$;

-- Record the rows of a shadow that a statement gives other values (staging.sql), until the savepoint around it is
-- undone.
CREATE FUNCTION pg_sluice.watch_updates(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET event_triggers = off AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER pg_sluice_note AFTER UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION pg_sluice.note_update()',
                   shadow::regclass);
END $$;

-- Until the end of the savepoint or `wake_triggers`, for this transaction alone: triggers of users of these shadows that
-- are ENABLEd as ALWAYS or REPLICA are so for the origin, that is, not while rows are copied; NULL: all that fire at
-- TRUNCATE of a table that the client may truncate. Other sessions that do the same wait.
CREATE FUNCTION pg_sluice.still_triggers(shadows oid[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation oid; client name := pg_sluice.client_role();
BEGIN
    FOR relation IN SELECT DISTINCT t.tgrelid FROM pg_trigger t JOIN pg_sluice.relation r ON r.relid = t.tgrelid
            WHERE t.tgenabled IN ('A', 'R') AND CASE
                WHEN shadows IS NOT NULL THEN r.relid = ANY (shadows)
                ELSE t.tgtype & 32 <> 0 AND has_table_privilege(client, r.relid, 'TRUNCATE') END
            ORDER BY t.tgrelid LOOP
        PERFORM pg_sluice.lock_relation(relation, 'ROW EXCLUSIVE', false);
        INSERT INTO pg_sluice.stilled SELECT pg_backend_pid(), t.oid, t.tgenabled FROM pg_trigger t
            WHERE t.tgrelid = relation AND t.tgenabled IN ('A', 'R') AND pg_sluice.is_of_users(t);
        PERFORM pg_sluice.set_enabled(t.oid, 'O') FROM pg_trigger t
            WHERE t.tgrelid = relation AND t.tgenabled IN ('A', 'R') AND pg_sluice.is_of_users(t);
    END LOOP;
END $$;

CREATE FUNCTION pg_sluice.wake_triggers() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.set_enabled(s.trigger, s.enabled) FROM pg_sluice.stilled s WHERE s.backend = pg_backend_pid();
    DELETE FROM pg_sluice.stilled WHERE backend = pg_backend_pid();
END $$;

CREATE FUNCTION pg_sluice.set_enabled(trigger oid, enabled "char") RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET allow_system_table_mods = on AS $$
BEGIN
    UPDATE pg_trigger SET tgenabled = enabled WHERE oid = trigger;
    -- This session's cached description of the table is stale.
    UPDATE pg_attribute a SET attname = a.attname FROM pg_trigger t
        WHERE t.oid = trigger AND a.attrelid = t.tgrelid AND a.attnum = -1;
END $$;

-- The first event of the queue (triggers.sql), at COMMIT: defer the triggers of users that `sluice.late` lists, by the
-- OIDs of their constraints. That runs none of them, and is in schemas that the caller may not use, too. A client may
-- set `sluice.late`, but not have shadows filled.
CREATE FUNCTION pg_sluice.defer_again() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    listed text := pg_sluice.backend_setting('sluice.late', true); names text;
BEGIN
    IF coalesce(listed, '') = '' OR NOT pg_sluice.is_filled() THEN
        RETURN NULL;  -- above all at the backend's own COMMIT, which would not end
    ELSIF pg_sluice.backend_setting('transaction_read_only') = 'on' THEN
        RETURN NULL;  -- what fires now cannot queue anything
    END IF;
    SELECT string_agg(format(', %I.%I', n.nspname, k.conname), '') INTO names
        FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
        WHERE k.oid = ANY (listed::oid[]) AND k.contype = 't' AND k.condeferrable
            -- SET CONSTRAINTS means all of that name. Beside one that is not, this one is checked at once.
            AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conname = k.conname AND o.connamespace = k.connamespace
                            AND NOT o.condeferrable);
    EXECUTE concat('SET CONSTRAINTS pg_sluice.pg_sluice_late', names, ' DEFERRED');
    INSERT INTO pg_sluice.late DEFAULT VALUES;
    DELETE FROM pg_sluice.late;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER pg_sluice_late AFTER INSERT ON pg_sluice.late DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.defer_again();

-- Execute a statement as a relation's owner. Only a function that the owner owns acts as the owner; no other session
-- ever sees it. The statement is neither analysed nor planned before it runs. It may be users' code, which may leave
-- behind any search_path: from there on everything is named with its schema, and there are no operators.
CREATE FUNCTION pg_sluice.as_owner(relation oid, statement text, cells text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET check_function_bodies = off AS $$
DECLARE
    name text := format('pg_sluice.as_owner_%s', pg_backend_pid()); owner regrole;
BEGIN
    SELECT c.relowner INTO owner FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner WHERE c.oid = relation AND NOT o.rolsuper;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nothing is carried out as a superuser' USING ERRCODE = 'insufficient_privilege';
    END IF;
    EXECUTE format('CREATE FUNCTION %s(text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER '
                   'SET search_path = pg_catalog, pg_temp AS %L', name, format('BEGIN EXECUTE %L USING $1; END', statement));
    EXECUTE format('ALTER FUNCTION %s(text[]) OWNER TO %s', name, owner);
    EXECUTE format('SELECT %s($1)', name) USING cells;
    EXECUTE pg_catalog.concat('DROP FUNCTION ', name, '(text[])');
END $$;

-- Set whether writers of rows keep an index of a shadow; it has no readers yet.
CREATE FUNCTION pg_sluice.set_ready(shadow oid, index oid, ready boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pg_index SET indisready = ready, indisvalid = false WHERE indexrelid = index AND indrelid = shadow;
END $$;

-- A step of an element (schema_changes.sql): the owner's part, which may create the index whose readiness is set.
-- Users' code may have run in it: the session is reset afterwards (catalog/schema/step_connections.py).
CREATE FUNCTION pg_sluice.take_step(
    id bigint, worker integer, worker_start bigint, after text, statement text, index_schema name, index_name name, ready boolean
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e pg_sluice.element;
BEGIN
    PERFORM FROM pg_sluice.element m JOIN pg_sluice.schema_change c USING (change_id)
        WHERE m.element_id = id AND c.worker_id = worker AND c.worker_started = worker_start FOR SHARE OF c;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another gateway has taken over the change' USING ERRCODE = 'cannot_connect_now';
    END IF;
    UPDATE pg_sluice.element SET state = after WHERE element_id = id RETURNING * INTO e;
    INSERT INTO pg_sluice.dirty (relid) SELECT r FROM unnest(ARRAY[e.relid, e.other_relid]) r WHERE r <> 0;
    IF statement <> '' THEN
        PERFORM pg_sluice.as_owner(e.relid, statement);
        PERFORM pg_sluice.leave_nothing();
    END IF;
    IF ready IS NOT NULL THEN
        PERFORM pg_sluice.set_ready(e.relid, pg_sluice.relation_named(index_schema, index_name), ready);
    END IF;
END $$;

-- A view, or a materialized one without rows, of the same query, columns and owner as a materialized view. The query is
-- copied in its stored form: reading its text again could run users' code for its literals.
CREATE FUNCTION pg_sluice.make_alike(shadow oid, name name, materialized boolean) RETURNS oid LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET allow_system_table_mods = on AS $$
DECLARE
    made oid;
BEGIN
    EXECUTE format(CASE WHEN materialized THEN 'CREATE MATERIALIZED VIEW pg_sluice.%I AS TABLE %s WITH NO DATA'
                   ELSE 'CREATE VIEW pg_sluice.%1$I AS TABLE %s' END, name, shadow::regclass);
    made := format('pg_sluice.%I', name)::regclass;
    UPDATE pg_rewrite w SET ev_action = r.ev_action FROM pg_rewrite r WHERE w.ev_class = made AND r.ev_class = shadow;
    EXECUTE format('ALTER %s pg_sluice.%I OWNER TO %s', CASE WHEN materialized THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END, name,
                   (SELECT c.relowner::regrole FROM pg_class c WHERE c.oid = shadow));
    RETURN made;
END $$;

-- End a backend of a gateway that counts as dead, or of one of its sessions. The gateway may have logged in as a
-- superuser.
CREATE FUNCTION pg_sluice.end_backend(number integer, started bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_sluice.lives(number, started) THEN
        PERFORM pg_terminate_backend(number);
    END IF;
END $$;

-- The password verifier of a login role, and whether it may log in: no row for a missing role.
CREATE FUNCTION pg_sluice.login(role name, OUT verifier text, OUT expired boolean, OUT is_own boolean, OUT reserved boolean)
RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.rolpassword, coalesce(a.rolvaliduntil < now(), false),
           a.rolsuper OR pg_has_role(a.oid, 'sluice_metadata', 'MEMBER') OR pg_has_role(a.oid, 'sluice_reader', 'MEMBER')
               -- Neither the guards of shadows nor `publish` would be sure to fire.
               OR EXISTS (SELECT FROM pg_authid g WHERE pg_has_role(a.oid, g.oid, 'MEMBER')
                          AND has_parameter_privilege(g.oid, 'session_replication_role', 'SET')),
           pg_has_role(a.oid, 'pg_use_reserved_connections', 'USAGE')
    FROM pg_authid a WHERE a.rolname = role
$$;

-- Have PostgreSQL fill a materialized view, which it does as the owner.
CREATE FUNCTION pg_sluice.refresh(shadow oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('REFRESH MATERIALIZED VIEW %s', shadow::regclass);
END $$;

-- The number that a sequence has given last, and, for this transaction, how often it was asked for one, and read.
CREATE FUNCTION pg_sluice.sequence_use(sequence oid) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last bigint; called boolean;
BEGIN
    BEGIN
        EXECUTE format('SELECT last_value, is_called FROM %s', sequence::regclass) INTO last, called;
        RAISE EXCEPTION USING ERRCODE = 'SLU03';  -- frees the lock
    EXCEPTION WHEN SQLSTATE 'SLU03' THEN
        NULL;
    END;
    RETURN jsonb_build_object('sequence', sequence::bigint, 'last', last, 'called', called,
        'asked', pg_stat_get_xact_blocks_fetched(sequence), 'read', pg_stat_get_xact_numscans(sequence));
END $$;

-- Have a sequence give the numbers again that this transaction has taken since that use of it, if nobody else has taken
-- one meanwhile: each takes one page, so all are counted. A lock that others do not wait for tells whether somebody may
-- take one now; the savepoint's end frees it, and leaves the sequence as it was set.
CREATE FUNCTION pg_sluice.rewind(used jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET event_triggers = off SET lock_timeout = '1ms' AS $$
DECLARE
    sequence oid := (used ->> 'sequence')::bigint::oid; former bigint := used ->> 'last'; was_called boolean := used ->> 'called';
    taken bigint := pg_stat_get_xact_blocks_fetched(sequence) - (used ->> 'asked')::bigint; last bigint; called boolean; q record;
BEGIN
    SELECT s.seqincrement, c.relowner::regrole AS owner INTO q
        FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid WHERE s.seqrelid = sequence AND s.seqcache = 1;
    IF NOT FOUND OR taken <= 0 OR pg_stat_get_xact_numscans(sequence) <> (used ->> 'read')::bigint THEN
        RETURN;
    END IF;
    BEGIN
        EXECUTE format('ALTER SEQUENCE %s OWNER TO %s', sequence::regclass, q.owner);
        EXECUTE format('SELECT last_value, is_called FROM %s', sequence::regclass) INTO last, called;
        IF called AND last = former + q.seqincrement * (taken - CASE WHEN was_called THEN 0 ELSE 1 END) THEN
            PERFORM setval(sequence::regclass, former, was_called);
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'SLU03';
    EXCEPTION WHEN lock_not_available OR SQLSTATE 'SLU03' THEN
        NULL;
    END;
END $$;

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
             WHERE p.pronamespace = 'pg_sluice'::regnamespace AND p.proowner <> 'sluice_metadata'::regrole LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO sluice_metadata', f);
    END LOOP;
END $$;

-- Who asks pg_trigger for triggers that somebody has made leaves out internal ones.
UPDATE pg_trigger t SET tgisinternal = true FROM pg_class c
WHERE c.oid = t.tgrelid AND c.relnamespace = 'pg_sluice'::regnamespace;
