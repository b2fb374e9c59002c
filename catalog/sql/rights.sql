-- The owners of everything until here, and the functions that clients may call.

-- The first relation on which a role lacks a right, by rows of relation, role (0 for the one that asks), right, and the
-- column's number as text: empty for any column, 0 for all.
CREATE FUNCTION pg_sluice.missing_right(
    relations oid[], roles oid[], rights text[], numbers text[], OUT relname name, OUT relkind "char")
RETURNS SETOF record LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    client oid := (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user); place integer; role oid;
BEGIN
    FOR place IN 1 .. cardinality(relations) LOOP
        role := CASE WHEN roles[place] = 0 THEN client ELSE roles[place] END;
        CONTINUE WHEN has_table_privilege(role, relations[place], rights[place]) IS NOT FALSE;
        CONTINUE WHEN rights[place] NOT IN ('DELETE', 'TRUNCATE', 'MAINTAIN') AND CASE
            WHEN numbers[place] = '' THEN has_any_column_privilege(role, relations[place], rights[place]) IS NOT FALSE
            WHEN numbers[place] <> '0'
            THEN has_column_privilege(role, relations[place], numbers[place]::smallint, rights[place]) IS NOT FALSE
            ELSE NOT EXISTS (
                SELECT FROM pg_attribute t WHERE t.attrelid = relations[place] AND t.attnum > 0 AND NOT t.attisdropped
                    AND NOT has_column_privilege(role, relations[place], t.attnum, rights[place])) END;
        RETURN QUERY SELECT c.relname, c.relkind FROM pg_class c WHERE c.oid = relations[place];
        RETURN;
    END LOOP;
END $$;

-- sluice_metadata owns no table of a client's and may do nothing else.
DO $$
DECLARE
    it record;
BEGIN
    FOR it IN SELECT format('SCHEMA %I', nspname) AS what FROM pg_namespace WHERE nspname IN ('pg_sluice', 'pg_ducklake')
        UNION ALL SELECT format('%s %s', CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                                c.oid::regclass)
            FROM pg_class c WHERE c.relnamespace IN ('pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace)
                AND c.relkind IN ('r', 'v', 'S')
                -- Sequences of identities go with their tables.
                AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                                AND d.deptype = 'i' AND d.refobjsubid > 0)
        UNION ALL SELECT format('ROUTINE %s', p.oid::regprocedure) FROM pg_proc p
            WHERE p.pronamespace = 'pg_sluice'::regnamespace
    LOOP
        EXECUTE format('ALTER %s OWNER TO sluice_metadata', it.what);
    END LOOP;
END $$;

-- Only the owner sees the rows of these, also if PostgreSQL lets a role read or write everything (pg_read_all_data,
-- pg_write_all_data). Rows of pg_ducklake, which tell where the lake's files are, are for readers too, and so are the
-- hot rows: who reads the lake's files reads all tables.
DO $$
DECLARE
    it record;
BEGIN
    FOR it IN SELECT oid::regclass AS name, relnamespace = 'pg_ducklake'::regnamespace
                     OR oid IN ('pg_sluice.data_file'::regclass, 'pg_sluice.delete_file'::regclass) AS is_format FROM pg_class
              WHERE relnamespace IN ('pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace) AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', it.name);
        IF it.is_format THEN
            EXECUTE format('GRANT SELECT ON %s TO sluice_reader', it.name);
            EXECUTE format('CREATE POLICY readers ON %s FOR SELECT TO sluice_reader USING (true)', it.name);
        END IF;
    END LOOP;
END $$;
-- To name its tables, as vacuumdb does: PostgreSQL then warns that the role may not vacuum them, and goes on.
GRANT USAGE ON SCHEMA pg_ducklake TO PUBLIC;
GRANT SELECT ON pg_ducklake.ducklake_data_file, pg_ducklake.ducklake_delete_file, pg_ducklake.ducklake_file_partition_value
    TO sluice_reader;
-- Also where nobody may connect but who is allowed to by name.
DO $$
BEGIN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO sluice_gateway, sluice_reader', current_database());
END $$;

GRANT USAGE ON SCHEMA pg_sluice TO PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pg_sluice FROM PUBLIC;
DO $$
DECLARE
    -- They return public facts, or do what any role may do.
    open text[] := ARRAY[
        'attend', 'backend_setting', 'cancel', 'code_mark', 'describe', 'exclusion_conflicts', 'exclusion_described', 'exclusion_parts',
        'exclusion_query', 'fired_triggers', 'index_exclusion_rows', 'insert_of_cells', 'is_checked', 'is_filled', 'is_told',
        'keep_own_mark', 'kept_text', 'make_exclusion_rows', 'missing_right', 'named_snapshot', 'newest_table', 'node_states', 'of_kept_texts', 'pause', 'present_exclusion', 'put_kept', 'referring',
        'refuse_in_the_past', 'refuse_rewriting', 'refuse_unusable', 'resume', 'rows_of_cells', 'runs_users_code', 'schema_mark', 'schema_mark_of', 'shadow_changes', 'shadow_scans',
        'shadow_touches', 'shadow_writes', 'volatile_functions'];
    -- They obey the session's gateway alone (`authorize` in staging.sql).
    asked text[] := ARRAY[
        'begin_emptying', 'carry_arrays', 'changed', 'check_as_owner', 'claim_keys', 'column_obligations', 'conclude', 'confirm_at_once',
        'elements', 'end_emptying', 'explained', 'explained_steps',
        'hold_off_compaction', 'hold_schema', 'hold_steps_since', 'lock_all_rows', 'lock_checked', 'lock_keys',
        'lock_referenced', 'lock_relations', 'lock_rows', 'lock_tables', 'make_query', 'make_twin', 'move_row_locks',
        'moved_rows', 'note_updates', 'noted_updates', 'obligations', 'open_shadow', 'order_at_once', 'order_changes',
        'populate', 'precede_late', 'prepare_commit', 'put_as_owner', 'put_own_row_locks', 'ready_to_commit',
        'forget_defaults', 'recompute_columns', 'resume_unvalidated', 'rewind_sequences', 'sequences_used', 'set_filled', 'set_partition_key', 'set_replication_role',
        'set_sort_key', 'stage', 'suspend_exclusions', 'suspend_unvalidated', 'tables_to_write_anew',
        'uncommitted', 'vouch', 'vouch_all', 'vouch_columns', 'vouch_for_no_rows'];
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
             WHERE p.pronamespace = 'pg_sluice'::regnamespace AND p.proname = ANY (open || asked) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
END $$;

-- PostgreSQL plans a function's query anew for each call, if it hopes for a better plan by the arguments. These queries
-- take less time than their planning, so what gateways call has its plans kept. It holds for what these call, too.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'pg_sluice'::regnamespace AND p.prokind = 'f'
             AND (p.prosecdef OR p.proname IN ('report', 'publish_compaction')) LOOP
        EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', f);
    END LOOP;
END $$;
