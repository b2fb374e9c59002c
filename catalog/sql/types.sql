-- Carried types, and types of users. A domain is stored as its base type, an enumeration as the text of its labels.
-- PostgreSQL decides their valid values, and creates and changes them over empty shadows. Rows of the lake must be
-- checked for a domain's new constraint, and labels rewritten when one is renamed.

-- The last known labels of enumerations: a label of another name under the same OID has been renamed.
CREATE TABLE pg_sluice.enum_label (
    label_oid oid PRIMARY KEY,  -- pg_enum.oid
    type_oid oid NOT NULL,
    label text NOT NULL,
    made_by xid8,               -- the transaction that made it
    later boolean NOT NULL      -- whether its type was there before it
);
CREATE INDEX enum_label_type ON pg_sluice.enum_label (type_oid);

-- The last known constraints of domains, and whether they were valid.
CREATE TABLE pg_sluice.domain_constraint (constraint_oid oid PRIMARY KEY, validated boolean NOT NULL);

-- The enumerations and domains of users, for locks until COMMIT: weak ones of those who make columns of them, strong ones
-- of those who rename a label or add a constraint. So nobody waits who does not use the type.
CREATE TABLE pg_sluice.user_type (type_oid oid PRIMARY KEY);
INSERT INTO pg_sluice.user_type SELECT oid FROM pg_catalog.pg_type WHERE typtype IN ('d', 'e') AND oid >= 16384;


-- The stored form of a type. For a domain it is the base type. For an array of an enumeration or of domains it is an
-- array of texts, or of the domains' base type. For a carried type it is "any", with the typmod of
-- `equal_texts`, and -2 if its input checks domains. For any other it is the type itself. An array with a typmod that
-- `kept_typmod` has made is carried, too.
CREATE FUNCTION pg_sluice.kept_type(INOUT type_oid oid, INOUT typmod integer) LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record; whole boolean := typmod <= -3;
BEGIN
    IF whole THEN
        typmod := -4 - typmod;  -- as own_typmod
    END IF;
    WHILE type_oid >= 16384 LOOP  -- FirstNormalObjectId: what is below is PostgreSQL's own
        SELECT typtype, typbasetype, typtypmod INTO t FROM pg_type WHERE oid = type_oid;
        EXIT WHEN t.typtype IS DISTINCT FROM 'd';
        type_oid := t.typbasetype;
        typmod := t.typtypmod;
    END LOOP;
    IF NOT whole AND (
        EXISTS (SELECT FROM pg_sluice.datatype d WHERE d.type_oid = kept_type.type_oid AND d.type_oid <> 2276)
        OR EXISTS (SELECT FROM pg_sluice.datatype d WHERE d.array_oid = kept_type.type_oid AND d.type_oid <> 2276)) THEN
        RETURN;
    END IF;
    SELECT typtype INTO t FROM pg_type WHERE oid = kept_type.type_oid;
    IF t.typtype IS DISTINCT FROM 'e' THEN
        SELECT coalesce(d.array_oid, 0) AS array_oid, d.typmod INTO t FROM pg_sluice.kept_element(type_oid) d;
        IF t.array_oid <> 0 AND NOT whole THEN
            type_oid := t.array_oid;
            typmod := t.typmod;
        ELSIF EXISTS (SELECT FROM pg_type k WHERE k.oid = kept_type.type_oid AND k.typtype <> 'p') THEN
            typmod := CASE
                WHEN EXISTS (SELECT FROM pg_sluice.made_of(type_oid) m WHERE pg_sluice.is_constrained(m)) THEN -2
                ELSE pg_sluice.equal_texts(type_oid) END;
            type_oid := 2276;
        END IF;
    END IF;
END $$;

-- The typmod of a column for `kept_type` and its callers: its own, except for an array that is declared with several
-- dimensions, or has got values of such (`carry_arrays`), which Spark does not have: one below -2. `own_typmod` returns
-- the column's own again.
CREATE FUNCTION pg_sluice.kept_typmod(a pg_attribute) RETURNS integer LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    several boolean := a.attndims > 1;
BEGIN
    IF NOT several THEN
        several := EXISTS (SELECT FROM pg_sluice.attribute l
                           WHERE l.relid = a.attrelid AND l.attnum = a.attnum AND l.typmod <= -3);
    END IF;
    IF NOT several AND a.atttypid >= 16384 THEN
        several := EXISTS (SELECT FROM pg_sluice.domains_of(a.atttypid) d JOIN pg_type t ON t.oid = d WHERE t.typndims > 1);
    END IF;
    IF several AND pg_sluice.column_type(a.atttypid, a.atttypmod) = 'list' THEN
        RETURN -4 - a.atttypmod;
    END IF;
    RETURN a.atttypmod;
END $$;
CREATE FUNCTION pg_sluice.own_typmod(typmod integer) RETURNS integer LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN $1 <= -3 THEN -4 - $1 ELSE $1 END
$$;

-- For a user's array type: its elements' type, and the array of their stored form. NULLs for any other.
CREATE FUNCTION pg_sluice.kept_element(of_array oid, OUT element oid, OUT array_oid oid, OUT typmod integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT e.oid, d.array_oid, k.typmod
    FROM pg_type a JOIN pg_type e ON e.oid = a.typelem AND e.typarray = a.oid AND e.typtype IN ('d', 'e')
    CROSS JOIN LATERAL pg_sluice.kept_type(e.oid, -1) k
    JOIN pg_sluice.datatype d ON d.array_oid <> 0 AND d.type_oid <> 2276 AND d.type_oid = CASE
        WHEN EXISTS (SELECT FROM pg_type l WHERE l.oid = k.type_oid AND l.typtype = 'e') THEN 'text'::regtype ELSE k.type_oid END
    WHERE a.oid = of_array
$$;

-- The same for a column's type, which may be a domain over such an array, for the description of columns: OIDs of its
-- elements' type and of its own. NULL for any other.
CREATE FUNCTION pg_sluice.user_array(type_oid oid) RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF $1 < 16384 THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT jsonb_build_array(t.oid::bigint, e.element::bigint)
        FROM (SELECT $1 UNION SELECT b.typbasetype FROM pg_sluice.domains_of($1) d JOIN pg_type b ON b.oid = d) t (oid)
        CROSS JOIN LATERAL pg_sluice.kept_element(t.oid) e WHERE e.element IS NOT NULL);
END $$;

-- The type of a carried column, below its domains: its OID, its typmod, and the type of its stored OIDs, if its values
-- are stored as OIDs because names may change. NULL for any other.
CREATE FUNCTION pg_sluice.carried(type_oid oid, typmod integer) RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record; of_type oid := type_oid; of_typmod integer := pg_sluice.own_typmod(typmod); number text;
BEGIN
    IF (pg_sluice.kept_type($1, $2)).type_oid <> 2276 THEN
        RETURN NULL;
    END IF;
    LOOP
        SELECT typtype, typbasetype, typtypmod INTO t FROM pg_type WHERE oid = of_type;
        EXIT WHEN of_type < 16384 OR t.typtype <> 'd';
        of_type := t.typbasetype;
        of_typmod := t.typtypmod;
    END LOOP;
    SELECT CASE WHEN a.oid IS NULL THEN 'pg_catalog.oid' ELSE 'pg_catalog.oid[]' END INTO number
    FROM pg_type r LEFT JOIN pg_type a ON a.typelem = r.oid AND a.oid = r.typarray AND a.oid = of_type
    WHERE of_type IN (r.oid, r.typarray) AND r.oid < 16384 AND r.typname LIKE 'reg%';
    RETURN jsonb_build_array(of_type::bigint, of_typmod, number);
END $$;

-- Whether equal values of a type, or an array's elements, have equal texts: a typmod as in `equal_by_text`, 0 for no.
CREATE FUNCTION pg_sluice.equal_texts(type_oid oid) RETURNS integer LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT e.typmod FROM pg_sluice.equal_by_text e JOIN pg_type t ON t.oid = e.type_oid
                     WHERE $1 IN (t.oid, t.typarray)), 0)
$$;

-- The text of a carried value, as files have it, under any settings of the session; and the values of such texts.
CREATE FUNCTION pg_sluice.kept_text(value anyelement) RETURNS text LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = postgres SET timezone = 'UTC'
SET bytea_output = hex SET extra_float_digits = 1 SET lc_monetary = 'C' SET xmloption = content AS $$
    SELECT format('%s', $1)
$$;
CREATE FUNCTION pg_sluice.of_kept_texts(texts text[], kind anyelement) RETURNS SETOF anyelement LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = postgres SET timezone = 'UTC'
SET lc_monetary = 'C' SET xmloption = content AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT (SELECT v FROM json_to_record(json_build_object(''v'', c)) AS r (v %s))'
        ' FROM unnest($1) WITH ORDINALITY AS u (c, n) ORDER BY n', format_type(pg_typeof(kind), -1)) USING texts;
END $$;

-- A domain and the domains below it.
CREATE FUNCTION pg_sluice.domains_of(type_oid oid) RETURNS SETOF oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE d AS (
        SELECT t.oid, t.typbasetype FROM pg_type t WHERE t.oid = $1 AND t.typtype = 'd' AND t.oid >= 16384
        UNION ALL SELECT t.oid, t.typbasetype FROM d JOIN pg_type t ON t.oid = d.typbasetype AND t.typtype = 'd')
    SELECT oid FROM d
$$;

-- Whether a type is a domain with constraints: its own, or those of the domains below it.
CREATE FUNCTION pg_sluice.is_constrained(type_oid oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_sluice.domains_of($1) d JOIN pg_type t ON t.oid = d
                   WHERE t.typnotnull OR EXISTS (SELECT FROM pg_constraint k WHERE k.contypid = d))
$$;

-- The default of a domain, which was copied from the one below it at creation, as an expression.
CREATE FUNCTION pg_sluice.domain_default(type_oid oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.typdefault FROM pg_type t WHERE $1 >= 16384 AND t.oid = $1 AND t.typtype = 'd'
$$;

-- A domain in the description of columns, NULL for any other type. Its rules are in PostgreSQL's order of checking
-- (load_domaintype_info in typcache.c): NOT NULL, which has no name here, then CHECKs, as node texts.
CREATE FUNCTION pg_sluice.domain(type_oid oid) RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF $1 < 16384 THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT jsonb_build_object('oid', t.oid::bigint, 'schema', n.nspname, 'name', t.typname,
        'defaulted', pg_sluice.domain_default($1) IS NOT NULL,
        'rules', (
            SELECT coalesce(jsonb_agg(jsonb_build_array(r.name, r.expression) ORDER BY r.depth DESC, r.name), '[]')
            FROM (SELECT NULL::name, NULL::text, 1000000
                  WHERE EXISTS (SELECT FROM pg_sluice.domains_of($1) d JOIN pg_type b ON b.oid = d WHERE b.typnotnull)
                  UNION ALL
                  SELECT k.conname, k.conbin::text, d.depth
                  FROM pg_sluice.domains_of($1) WITH ORDINALITY d (oid, depth) JOIN pg_constraint k ON k.contypid = d.oid
                  WHERE k.contype = 'c') r (name, expression, depth)))
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = $1 AND t.typtype = 'd');
END $$;

-- The labels of an enumeration in its order: their OIDs and texts, and whether they are usable yet (as
-- EnumValuesUncommitted of PostgreSQL's pg_enum.c has it). NULL for any other type.
CREATE FUNCTION pg_sluice.labels(type_oid oid) RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF $1 < 16384 THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT jsonb_agg(jsonb_build_array(e.oid::bigint, e.enumlabel, NOT coalesce(
                l.later AND l.made_by = pg_current_xact_id_if_assigned() AND NOT EXISTS (
                    SELECT FROM pg_sluice.enum_label o
                    WHERE o.type_oid = l.type_oid AND NOT o.later AND o.made_by = l.made_by), false))
            ORDER BY e.enumsortorder)
        FROM pg_enum e LEFT JOIN pg_sluice.enum_label l ON l.label_oid = e.oid WHERE e.enumtypid = $1);
END $$;


-- Their rows; those of types that are older than the lake, or came with an extension, may be missing.
CREATE FUNCTION pg_sluice.note_user_types(of_type oid) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO pg_sluice.user_type
        SELECT t.oid FROM pg_sluice.made_of(of_type) m JOIN pg_type t ON t.oid = m
        WHERE t.typtype IN ('d', 'e') AND t.oid >= 16384
            AND NOT EXISTS (SELECT FROM pg_sluice.user_type u WHERE u.type_oid = t.oid) ON CONFLICT DO NOTHING
$$;

-- Until COMMIT nobody renames a label or adds a constraint of the enumerations and domains that a type is made of: it
-- would not see the columns that the transaction makes.
CREATE FUNCTION pg_sluice.hold_types(of_type oid) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_sluice.note_user_types(of_type);
    SELECT FROM pg_sluice.user_type u WHERE u.type_oid IN (SELECT pg_sluice.made_of(of_type))
        ORDER BY u.type_oid FOR KEY SHARE;
$$;

-- A column of a lake table has got this type. Its labels and constraints are known since its creation, unless it is
-- older than the lake. Other sessions that create a column of the same type meanwhile do not wait.
CREATE FUNCTION pg_sluice.note_type(of_type oid) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_sluice.hold_types(of_type);
    INSERT INTO pg_sluice.enum_label
        SELECT e.oid, e.enumtypid, e.enumlabel, NULL, false FROM pg_enum e
        WHERE e.enumtypid = (SELECT k.type_oid FROM pg_sluice.kept_type(of_type, -1) k)
            AND NOT EXISTS (SELECT FROM pg_sluice.enum_label l WHERE l.label_oid = e.oid) ON CONFLICT DO NOTHING;
    INSERT INTO pg_sluice.domain_constraint
        SELECT k.oid, k.convalidated FROM pg_sluice.domains_of(of_type) d JOIN pg_constraint k ON k.contypid = d
        WHERE NOT EXISTS (SELECT FROM pg_sluice.domain_constraint c WHERE c.constraint_oid = k.oid) ON CONFLICT DO NOTHING;
$$;

-- The lake tables with a column of this type, or of a domain over it.
CREATE FUNCTION pg_sluice.tables_of_type(type_oid oid) RETURNS SETOF oid LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT r.relid FROM pg_sluice.relation r JOIN pg_attribute a ON a.attrelid = r.relid
    WHERE a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
        AND ($1 IN (SELECT pg_sluice.domains_of(a.atttypid))
             OR $1 = (SELECT k.type_oid FROM pg_sluice.kept_type(a.atttypid, -1) k))
$$;


-- The types inside a type: its elements, attributes, subtype, a domain's base type, and so on.
CREATE FUNCTION pg_sluice.made_of(type_oid oid) RETURNS SETOF oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE part (oid) AS (
        SELECT $1
        UNION SELECT u.oid FROM part p JOIN pg_type t ON t.oid = p.oid CROSS JOIN LATERAL (
            VALUES (t.typelem), (t.typbasetype)
            UNION ALL SELECT a.atttypid FROM pg_attribute a
                WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)) u (oid)
        WHERE u.oid <> 0)
    SELECT oid FROM part
$$;

-- The stored text of a type changes from now on: a label's, or the attributes of a row. Columns with values of it, also
-- within arrays, rows or domains, are to be rewritten.
CREATE FUNCTION pg_sluice.write_type_anew(of_type oid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shadow oid;
BEGIN
    PERFORM pg_sluice.hold_types(of_type);
    FOR shadow IN
        SELECT DISTINCT r.relid FROM pg_sluice.relation r JOIN pg_attribute a ON a.attrelid = r.relid
        WHERE a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384 AND of_type IN (SELECT pg_sluice.made_of(a.atttypid))
        ORDER BY 1 LOOP
        PERFORM pg_sluice.write_columns_anew(shadow, of_type);
        INSERT INTO pg_sluice.dirty VALUES (shadow, NULL);
    END LOOP;
END $$;

-- Those columns of a table get new IDs.
CREATE FUNCTION pg_sluice.write_columns_anew(shadow oid, of_type oid) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l pg_sluice.attribute; next_id bigint;
BEGIN
    -- No transaction commits rows with the old label between here and COMMIT.
    SELECT next_column_id INTO next_id FROM pg_sluice.relation WHERE relid = shadow FOR UPDATE;
    FOR l IN SELECT k.* FROM pg_sluice.attribute k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
             WHERE k.relid = shadow AND NOT a.attisdropped AND k.type_oid >= 16384
                 AND of_type IN (SELECT pg_sluice.made_of(k.type_oid)) ORDER BY k.attnum LOOP
        -- PostgreSQL would convert the texts to values again, which runs code of others.
        IF pg_sluice.has_rows(shadow) AND (pg_sluice.kept_type(l.type_oid, l.typmod)).typmod = -2 THEN
            PERFORM pg_sluice.refuse('ALTER TYPE of a type within columns of domains that have constraints');
        END IF;
        UPDATE pg_sluice.attribute SET column_id = next_id, initial_default = NULL, computed = true
            WHERE relid = shadow AND attnum = l.attnum;
        next_id := next_id + (SELECT count(*) FROM pg_sluice.fields('', l.type_oid, l.typmod, 0, NULL));
        INSERT INTO pg_sluice.column_obligation SELECT shadow, l.attnum, l.column_id WHERE pg_sluice.has_rows(shadow)
            ON CONFLICT DO NOTHING;
    END LOOP;
    UPDATE pg_sluice.relation SET next_column_id = next_id WHERE relid = shadow;
END $$;

-- Columns of arrays are to have values that their form has no room for: they are carried from now on, and existing
-- values are to be rewritten.
CREATE FUNCTION pg_sluice.carry_arrays(shadow oid, names jsonb) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l pg_sluice.attribute; next_id bigint;
BEGIN
    PERFORM pg_sluice.authorize('carry_arrays');
    -- No transaction commits rows with the old form between here and COMMIT.
    SELECT next_column_id INTO next_id FROM pg_sluice.relation WHERE relid = shadow FOR UPDATE;
    FOR l IN SELECT k.* FROM pg_sluice.attribute k JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
             WHERE k.relid = shadow AND NOT a.attisdropped AND names ? a.attname
                 AND pg_sluice.column_type(k.type_oid, k.typmod) = 'list' ORDER BY k.attnum LOOP
        IF EXISTS (SELECT FROM pg_constraint k WHERE k.contype IN ('p', 'u', 'f', 'x')
                   AND ((k.conrelid = shadow AND l.attnum = ANY (k.conkey)) OR (k.confrelid = shadow AND l.attnum = ANY (k.confkey))))
        OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = shadow AND i.indisunique AND l.attnum = ANY (i.indkey::smallint[])) THEN
            PERFORM pg_sluice.refuse('an array of several dimensions in a key that is not declared so');
        END IF;
        UPDATE pg_sluice.attribute SET column_id = next_id, typmod = -4 - typmod, initial_default = NULL, computed = true
            WHERE relid = shadow AND attnum = l.attnum;
        next_id := next_id + 1;
        INSERT INTO pg_sluice.column_obligation SELECT shadow, l.attnum, l.column_id WHERE pg_sluice.has_rows(shadow)
            ON CONFLICT DO NOTHING;
    END LOOP;
    UPDATE pg_sluice.relation SET next_column_id = next_id WHERE relid = shadow;
    PERFORM pg_sluice.note_indexes(shadow);
    INSERT INTO pg_sluice.dirty VALUES (shadow, NULL);
END $$;

-- The tables with columns whose values must be computed, for the session's gateway.
CREATE FUNCTION pg_sluice.tables_to_write_anew() RETURNS SETOF bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_sluice.authorize('tables_to_write_anew');
    RETURN QUERY SELECT DISTINCT relid::bigint FROM pg_sluice.column_obligation ORDER BY 1;
END $$;


-- A type was created or changed.
CREATE FUNCTION pg_sluice.on_type(of_type oid, command_tag text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made boolean := command_tag = 'CREATE TYPE'; added bigint;
BEGIN
    PERFORM pg_sluice.note_user_types(of_type);
    IF EXISTS (SELECT FROM pg_enum e JOIN pg_sluice.enum_label l ON l.label_oid = e.oid
               WHERE e.enumtypid = of_type AND l.label <> e.enumlabel) THEN
        -- A session that has created a column of the type, and not committed yet, holds a weaker lock since
        -- (`hold_types`).
        PERFORM FROM pg_sluice.user_type WHERE type_oid = of_type FOR UPDATE;
        PERFORM pg_sluice.write_type_anew(of_type);
        UPDATE pg_sluice.enum_label l SET label = e.enumlabel FROM pg_enum e
            WHERE e.oid = l.label_oid AND e.enumtypid = of_type;
    END IF;
    INSERT INTO pg_sluice.enum_label
        SELECT e.oid, e.enumtypid, e.enumlabel, pg_current_xact_id(), NOT made FROM pg_enum e
        WHERE e.enumtypid = of_type ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
    IF (added > 0 AND NOT made) OR command_tag = 'ALTER DOMAIN' THEN
        INSERT INTO pg_sluice.dirty SELECT t, NULL FROM pg_sluice.tables_of_type(of_type) t;
    END IF;
    IF EXISTS (SELECT FROM pg_constraint k LEFT JOIN pg_sluice.domain_constraint d ON d.constraint_oid = k.oid
               WHERE k.contypid = of_type AND (d.validated IS NULL OR d.validated <> k.convalidated)) THEN
        IF command_tag = 'ALTER DOMAIN' THEN
            PERFORM FROM pg_sluice.user_type WHERE type_oid = of_type FOR UPDATE;
        END IF;
        -- A table without rows may have got some by COMMIT.
        INSERT INTO pg_sluice.obligation
            SELECT k.oid, t FROM pg_constraint k
            LEFT JOIN pg_sluice.domain_constraint d ON d.constraint_oid = k.oid
            CROSS JOIN pg_sluice.tables_of_type(of_type) t
            WHERE k.contypid = of_type AND k.convalidated AND d.validated IS DISTINCT FROM true
                AND (pg_sluice.has_rows(t) OR EXISTS (SELECT FROM pg_sluice.published_shape s WHERE s.relid = t))
            ON CONFLICT DO NOTHING;
        INSERT INTO pg_sluice.domain_constraint
            SELECT k.oid, k.convalidated FROM pg_constraint k WHERE k.contypid = of_type
            ON CONFLICT (constraint_oid) DO UPDATE SET validated = excluded.validated;
    END IF;
END $$;
