"""WITH: common table expressions, recursive ones with UNION ALL included.

Spark puts the query in the place of each of its names, and so computes it anew for each; PostgreSQL computes it once.
If the rows might differ, the query is changed so that Spark computes it once, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlglot import exp

from catalog.datatypes import NUMERIC
from catalog.errors import SluiceError, unsupported
from planner.spark import relation_output
from planner.spark.builders import Expression, binary, call, cast, column, integer
from planner.spark.relation_output import Output, Selected, derived
from planner.spark.values import Decimal, Value, spark_type
from planner.translate import query as query_
from planner.translate.correlation.source import has_total_windows, require_repeatable
from planner.translate.scope import RTE_CTE, CommonTable, Scope
from planner.tree.nodes import Node, malformed, walk
from planner.tree.query_levels import is_correlated

_UNION = 1


def define(scope: Scope) -> list[exp.CTE]:
    """Translate the level's WITH list; its names are known to the level and below from then on."""
    result = []
    for node in scope.query.cteList or ():
        if node.search_clause is not None or node.cycle_clause is not None:
            raise unsupported("SEARCH or CYCLE in a recursive query")
        if node.ctequery.type != "QUERY" or node.ctequery.commandType != query_.CMD_SELECT:
            raise unsupported("a change of data in WITH")
        name = scope.statement.fresh("w")
        if node.cterecursive:
            result.append(_recursive(scope, node, name))
            continue
        if is_correlated(node.ctequery):
            continue  # read anew wherever it is named: planner.translate.from_clause
        inner = query_.select(scope.statement, node.ctequery, scope)
        shown: Expression = inner.query
        is_repeatable = _is_repeatable(shown, scope.statement.unrepeatable)
        is_total = has_total_windows(shown) and not _reads(shown, scope.statement.tied)
        if node.cterefcount > 1 and not (is_repeatable and is_total):
            shown = _computed_once(inner, scope.statement.fresh("r"))
        else:
            if not is_repeatable:
                scope.statement.unrepeatable.add(name)
            if not is_total:
                scope.statement.tied.add(name)
        scope.common_tables[str(node.ctename)] = CommonTable(name, inner.columns)
        result.append(exp.CTE(this=shown, alias=exp.TableAlias(this=exp.to_identifier(name))))
    return result


def _is_repeatable(query: Expression, unrepeatable: Collection[str]) -> bool:
    try:
        require_repeatable(query, unrepeatable)
    except SluiceError:
        return False
    return True


def _reads(query: Expression, names: Collection[str]) -> bool:
    return any(table.name in names for table in query.find_all(exp.Table))


def _computed_once(inner: Selected, alias: str) -> exp.Select:
    """Return the query with an always true condition that Spark takes for random.

    Spark computes such a WITH query once, for all its readers (InlineCTE, ReplaceCTERefWithRepartition).
    """
    chance = binary(">=", call("rand", integer(0)), integer(0))
    return relation_output.select([column(alias, item.name) for item in inner.outputs], inner.derived(alias), chance)


def attached(result: Selected, common: list[exp.CTE]) -> Selected:
    """Return the query with its WITH clause."""
    if not common:
        return result
    recursive = any(isinstance(item.args.get("alias"), exp.TableAlias) and item.alias_column_names for item in common)
    query = result.query
    if query.args.get("with_") is not None:
        raise malformed("two WITH clauses at one level")
    query.set("with_", exp.With(expressions=common, recursive=recursive))
    return replace(result, query=query)


def _recursive(scope: Scope, node: Node, name: str) -> exp.CTE:
    query = node.ctequery
    operation = query.setOperations
    if operation is None:
        # declared in WITH RECURSIVE, but not recursive itself
        raise malformed("a recursive query without a set operation")
    if operation.op != _UNION or not operation.all:
        raise unsupported("WITH RECURSIVE with UNION (without ALL)")
    if query.sortClause or query.limitCount or query.limitOffset or query.cteList:
        raise unsupported("ORDER BY, LIMIT or WITH in a recursive query")
    if operation.larg.type != "RANGETBLREF" or operation.rarg.type != "RANGETBLREF":
        raise unsupported("a recursive query of more than two parts")
    if is_correlated(query):
        raise unsupported("a recursive query that depends on an outer row")
    scope.statement.unrepeatable.add(name)
    inner = Scope(scope.statement, query, scope)
    first = query_.select(scope.statement, inner.entry(operation.larg.rtindex).subquery, inner)
    outputs = []
    prefix = scope.statement.fresh("q")
    for number, item in enumerate(first.outputs, 1):
        if item.type_oid != operation.colTypes[number - 1]:
            raise unsupported("a recursive query whose parts have different types")
        held = item.held
        if item.type_oid == NUMERIC:
            if item.varies or held is None or held.is_text:
                raise unsupported("a recursive query of numerics of several scales")
            held = Decimal(38, held.scale, held.scale)
        outputs.append(Output(f"{prefix}_{number}", item.type_oid, item.typmod, held, False, item.label))
    described = Selected(exp.Null(), tuple(outputs))
    scope.common_tables[str(node.ctename)] = CommonTable(name, described.columns)
    _refuse_hidden_recursion(inner.entry(operation.rarg.rtindex).subquery, str(node.ctename))
    second = query_.select(scope.statement, inner.entry(operation.rarg.rtindex).subquery, inner)
    parts = [_cast_to(scope, part, outputs) for part in (first, second)]
    union = exp.Union(this=parts[0], expression=parts[1], distinct=False)
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=[exp.to_identifier(item.name) for item in outputs])
    return exp.CTE(this=union, alias=alias)


def _refuse_hidden_recursion(query: Node, name: str) -> None:
    """Refuse recursion elsewhere: Spark takes the reference to the query itself in FROM only, once."""
    references = [
        node
        for node in walk(query)
        if node.type == "RANGETBLENTRY" and node.rtekind == RTE_CTE and node.fields.get("self_reference")
    ]
    if len(references) != 1:
        raise unsupported(f"a recursive query that refers to {name} more than once")


def _cast_to(scope: Scope, part: Selected, outputs: list[Output]) -> Expression:
    alias = scope.statement.fresh("r")
    expressions: list[Expression] = []
    for value, item in zip(part.columns(alias), outputs, strict=True):
        if item.held is not None and (value.decimal is None or value.decimal.display != item.held.scale):
            raise unsupported("a recursive query of numerics of several scales")
        spark = spark_type(item.type_oid, item.held)
        shown = value if value.decimal is None else Value(cast(value.sql, spark), NUMERIC, -1, item.held)
        expressions.append(exp.alias_(shown.sql, item.name, copy=False))
    return relation_output.select(expressions, derived(part.query, alias))
