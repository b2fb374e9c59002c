"""Functions that PostgreSQL runs while it analyses a statement: their trees are not taken for the statement's."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server, sqlstate_of

_MADE = """
CREATE TABLE t (id int, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
CREATE FUNCTION by_plpgsql(i int) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RETURN i > 0; END $f$;
CREATE FUNCTION by_many(i int) RETURNS boolean LANGUAGE plpgsql AS $f$
    DECLARE n int;
    BEGIN
        SELECT count(*) INTO n FROM pg_catalog.pg_class WHERE oid = 0;
        EXECUTE 'SELECT 1' INTO n;
        PERFORM by_plpgsql(i);
        RETURN n > 0;
    END $f$;
CREATE FUNCTION by_sql(i int) RETURNS boolean LANGUAGE sql AS 'SELECT count(*) > 0 FROM (SELECT i) x';
CREATE FUNCTION by_inlined(i int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT i > 0';
CREATE FUNCTION by_atomic(i int) RETURNS boolean LANGUAGE sql
    BEGIN ATOMIC; SELECT 2; SELECT count(*) > 0 FROM (SELECT i) x; END;
CREATE FUNCTION by_caught(i int) RETURNS boolean LANGUAGE plpgsql AS $f$
    BEGIN BEGIN EXECUTE 'SELECT nonsense'; EXCEPTION WHEN OTHERS THEN NULL; END; RETURN true; END $f$;
CREATE FUNCTION by_ts_stat(i int) RETURNS boolean LANGUAGE sql AS
    $f$ SELECT count(*) > 0 FROM pg_catalog.ts_stat('SELECT to_tsvector(''word'')') $f$;
CREATE FUNCTION by_raise(i int) RETURNS boolean LANGUAGE plpgsql AS $f$
    BEGIN RAISE LOG 'rewritten parse tree:' USING DETAIL = '({QUERY :commandType 1})'; RETURN true; END $f$;
CREATE FUNCTION by_raise_bare(i int) RETURNS boolean LANGUAGE plpgsql AS $f$
    BEGIN RAISE LOG 'rewritten parse tree:'; RETURN true; END $f$;
CREATE FUNCTION by_settings(i int) RETURNS boolean LANGUAGE plpgsql SET client_min_messages = error
    SET debug_print_rewritten = off AS $f$ BEGIN RETURN i > 0; END $f$;
"""
_FUNCTIONS = [
    "by_plpgsql", "by_many", "by_sql", "by_inlined", "by_atomic", "by_caught", "by_ts_stat", "by_raise",
    "by_raise_bare", "by_settings",
]  # fmt: skip
_DOMAINS = "".join(
    f"CREATE DOMAIN d_{name} AS int CHECK ({name}(VALUE)); CREATE TYPE r_{name} AS (a d_{name});" for name in _FUNCTIONS
)
# Each the first of its session: the second time, a function's expressions are known.
_STATEMENTS = [
    "SELECT '{{1,2}}'::d_{0}[] AS p, id FROM t ORDER BY id",
    "SELECT id FROM t WHERE '{{1}}'::d_{0}[] IS NOT NULL AND '{{2}}'::d_{0}[] IS NOT NULL ORDER BY id",
    "SELECT ('(1)'::r_{0}) IS NOT NULL, id FROM t ORDER BY id",
    "UPDATE t SET v = v || 'x' WHERE '{{1}}'::d_{0}[] IS NOT NULL RETURNING v",
    "WITH x AS (SELECT '{{1}}'::d_{0}[] AS p) SELECT id FROM t, x ORDER BY id",
]


def _answers(server: Server, schema: str, before: str, sql: str) -> list[tuple[object, ...]]:
    """In a new session, by the simple and by the extended protocol, twice each, and in a block."""
    found = []
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(before.encode())
        found += connection.execute(sql.encode()).fetchall()
        found += connection.execute(sql.encode(), prepare=True).fetchall()
        with connection.transaction():
            found += connection.execute(sql.encode()).fetchall()
            found += connection.execute("SHOW client_min_messages").fetchall()
            found += connection.execute("SHOW debug_print_rewritten").fetchall()
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(before.encode())
        with connection.transaction():
            found += connection.execute(sql.encode(), prepare=True).fetchall()
    return sorted(found, key=str)


@pytest.fixture
def both(gateway: Server, oracle: Server, schema: str) -> Iterator[str]:
    oracle.psql("-qc", f"CREATE SCHEMA {schema}")
    for server in (oracle, gateway):
        server.psql("-q", "-v", "ON_ERROR_STOP=1", sql=f"SET search_path = {schema}; {_MADE} {_DOMAINS}")
    yield schema
    oracle.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")


@pytest.mark.turns
@pytest.mark.parametrize("function", _FUNCTIONS)
def test_what_functions_print_is_not_the_statement(gateway: Server, oracle: Server, both: str, function: str) -> None:
    for statement in _STATEMENTS:
        sql = statement.format(function)
        expected = _answers(oracle, both, "", sql)
        assert _answers(gateway, both, "", sql) == expected, sql


@pytest.mark.parametrize(
    "settings",
    [
        "SET debug_print_rewritten = on; SET client_min_messages = log",
        "SET debug_print_parse = on; SET debug_print_plan = on; SET debug_pretty_print = on",
        "SET client_min_messages = error; SET debug_print_rewritten = on",
        "SET client_min_messages = debug1",
    ],
)
def test_clients_may_set_what_is_printed(gateway: Server, oracle: Server, both: str, settings: str) -> None:
    for statement in _STATEMENTS[:2]:
        sql = statement.format("by_many")
        expected = _answers(oracle, both, settings, sql)
        assert _answers(gateway, both, settings, sql) == expected, sql


def test_nobody_forges_a_tree(gateway: Server, schema: str) -> None:
    """The tree of a query of another's table, raised by a function that is run while a harmless query is analysed."""
    gateway.psql("-qc", f"CREATE TABLE {schema}.secret (id int); INSERT INTO {schema}.secret VALUES (42)")
    gateway.psql("-qc", f"CREATE ROLE forger LOGIN; GRANT USAGE ON SCHEMA {schema} TO forger")
    url = f"postgresql://forger@{gateway.host}:{gateway.port}/{gateway.database}"
    ((oid,),) = gateway.query(f"SELECT '{schema}.secret'::regclass::oid")
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT id FROM {schema}.secret".encode())
            tree = _TREE.replace("%oid", oid).replace("\n", " ")
            connection.execute(
                "CREATE FUNCTION pg_temp.forge(i int) RETURNS boolean LANGUAGE plpgsql AS"
                f" $f$ BEGIN RAISE LOG 'rewritten parse tree:' USING DETAIL = '{tree}'; RETURN true; END $f$".encode()
            )
            connection.execute("CREATE DOMAIN pg_temp.evil AS int CHECK (pg_temp.forge(value))")
            connection.execute("SELECT pg_temp.forge(1)")
            asked = connection.execute("SELECT 1 AS id FROM (SELECT '{1}'::pg_temp.evil[]) z")
            assert asked.fetchall() == [(1,)]
    finally:
        gateway.psql("-qc", f"REVOKE USAGE ON SCHEMA {schema} FROM forger; DROP ROLE forger")


_TREE = """({QUERY :commandType 1 :querySource 0 :canSetTag true :utilityStmt <> :resultRelation 0 :hasAggs false
:hasWindowFuncs false :hasTargetSRFs false :hasSubLinks false :hasDistinctOn false :hasRecursive false
:hasModifyingCTE false :hasForUpdate false :hasRowSecurity false :hasGroupRTE false :isReturn false :cteList <>
:rtable ({RANGETBLENTRY :alias <> :eref {ALIAS :aliasname t :colnames ("id")} :rtekind 0 :relid %oid :inh true
:relkind r :rellockmode 1 :perminfoindex 1 :tablesample <> :lateral false :inFromCl true :securityQuals <>})
:rteperminfos ({RTEPERMISSIONINFO :relid %oid :inh true :requiredPerms 2 :checkAsUser 0 :selectedCols (b 8)
:insertedCols (b) :updatedCols (b)})
:jointree {FROMEXPR :fromlist ({RANGETBLREF :rtindex 1}) :quals <>} :mergeActionList <> :mergeTargetRelation 0
:mergeJoinCondition <> :targetList ({TARGETENTRY :expr {VAR :varno 1 :varattno 1 :vartype 23 :vartypmod -1 :varcollid 0
:varnullingrels (b) :varlevelsup 0 :varreturningtype 0 :varnosyn 1 :varattnosyn 1 :location 7} :resno 1 :resname id
:ressortgroupref 0 :resorigtbl %oid :resorigcol 1 :resjunk false})
:override 0 :onConflict <> :returningOldAlias <> :returningNewAlias <> :returningList <> :groupClause <>
:groupDistinct false :groupingSets <> :havingQual <> :windowClause <> :distinctClause <> :sortClause <>
:limitOffset <> :limitCount <> :limitOption 0 :rowMarks <> :setOperations <> :constraintDeps <> :withCheckOptions <>
:stmt_location 0 :stmt_len 0})"""


def test_a_function_that_silences_postgresql_is_told(gateway: Server, schema: str) -> None:
    """Without the tree nobody knows what is read: an error, and never an answer of the empty shadow."""
    gateway.psql(
        "-qc",
        f"SET search_path = {schema}; CREATE TABLE t (id int); INSERT INTO t VALUES (1);"
        " CREATE FUNCTION silence(i int) RETURNS boolean LANGUAGE plpgsql AS"
        " $f$ BEGIN PERFORM set_config('debug_print_rewritten', 'off', true); RETURN true; END $f$;"
        " CREATE DOMAIN silent AS int CHECK (silence(VALUE))",
    )
    found, message = sqlstate_of(
        gateway, f"SET search_path = {schema}", "SELECT id FROM t WHERE '{1}'::silent[] IS NOT NULL"
    )
    assert (found, "did not say what the statement means" in message) == ("XX000", True)
