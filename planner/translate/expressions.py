"""From an expression node to a `Value`: one method per node type, listed in the table `_TRANSLATORS`.

Functions, operators, casts and aggregates are looked up in the allow-list (`planner.functions.registry`). Node types
that are not in the table are refused by name. Source of the node types: PostgreSQL 18, nodes/primnodes.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import (
    BOOL,
    CARRIED,
    CHECKED_TEXTS,
    FIRST_USER_OID,
    INT4,
    NUMERIC,
    OID,
    element_type,
    is_enumeration,
)
from catalog.errors import unsupported
from planner.functions import casts, registry, session_values
from planner.functions.call import Call
from planner.functions.comparison import comparable
from planner.spark import constant_folding, constant_logic, numerics
from planner.spark.builders import (
    Expression,
    binary,
    boolean,
    call,
    case,
    cast,
    is_not_null,
    is_null,
    is_simple,
    lambda_,
    let,
    not_,
    raw,
    variable,
)
from planner.spark.evaluation import case_of_all
from planner.spark.literals import literal
from planner.spark.used_once import named, used_once
from planner.spark.values import MISSING, Value, null_value, spark_type
from planner.translate import array_comparison, domains, greatest_least, row_values
from planner.translate.scope import RETURNING_OLD, RTE_GROUP, RTE_JOIN, Scope
from planner.translate.system_columns import system_column
from planner.tree import datum, query_levels
from planner.tree.alternatives import alternatives
from planner.tree.nodes import Node, malformed

# The C collations, in which strings compare by bytes: default (the catalog's is C.UTF-8), C, POSIX, ucs_basic,
# pg_c_utf8 (pg_collation.dat).
_COLLATIONS: Final = frozenset({0, 100, 950, 951, 962, 811})

_PARAM_EXTERN: Final = 0
PARAM_SUBLINK: Final = 2
_PARAM_MULTIEXPR: Final = 3


class Translator:
    """Translates the expressions of one scope. `substitutes` are the values of Param nodes of a sublink."""

    def __init__(self, scope: Scope, substitutes: dict[int, Value] | None = None) -> None:
        self.scope = scope
        self.statement = scope.statement
        self.context = scope.statement.context
        self.substitutes = substitutes or {}
        self.case_test: list[Value] = []

    # --- entry points ---

    def value(self, node: Node) -> Value:
        """Return the expression's value."""
        translate = _TRANSLATORS.get(node.type)
        if translate is None:
            raise unsupported(f"the expression {node.type}")
        if node.type in _BRANCHING:
            with self.statement.branching():
                found = translate(self, node)
        else:
            found = translate(self, node)
        if found.type_oid in self.statement.types.carried:
            # An array, if a column has arrays of several dimensions: the two would be compared, or become one.
            raise unsupported(f"a value of type {self.context.builtins.type_name(found.type_oid)} here")
        return found

    def values(self, nodes: Sequence[Node] | None) -> list[Value]:
        return [self.value(node) for node in nodes or ()]

    def condition(self, node: Node) -> Expression:
        """Return a condition of a filter, where NULL counts as false: a sublink may become a semi-join."""
        if node.type == "BOOLEXPR" and node.boolop in ("and", "or"):
            with self.statement.branching():
                parts = [self.condition(part) for part in alternatives(node)]
            return constant_logic.filtered(parts, conjunction=node.boolop == "and")
        if node.type in ("SUBLINK", "SCALARARRAYOPEXPR"):
            from planner.translate import sublinks  # noqa: PLC0415

            node = sublinks.over_subquery(node)
            if node.type == "SUBLINK":
                return sublinks.in_filter(self, node)
        return self.value(node).sql

    def filter(self, node: Node) -> Expression | None:
        """Return a conjunct of WHERE, ON or HAVING; None if it has become a semi-join or an anti-join of the level."""
        from planner.translate import sublinks  # noqa: PLC0415

        negated = node.type == "BOOLEXPR" and node.boolop == "not"
        item = sublinks.over_subquery(node.args[0] if negated else node)
        return sublinks.in_conjunct(self, item, negated) if item.type == "SUBLINK" else self.condition(node)

    # --- leaves ---

    def variable_(self, node: Node) -> Value:
        if node.varattno == 0:
            raise unsupported("a whole-row reference")
        if node.vartype >= FIRST_USER_OID:
            self.base(node.vartype)
        below = self.scope.below_domain(node.varlevelsup)
        if below is not None:
            return below[0].outer_value(node.replaced(varlevelsup=below[1]))
        scope = self.scope.up(node.varlevelsup)
        entry = scope.entry(node.varno)
        if scope.grouping is not None:
            found: Value = scope.grouping.variable(node, entry)
            return found
        if entry.rtekind == RTE_GROUP:
            return self._at(scope).value(entry.groupexprs[node.varattno - 1])
        if entry.rtekind == RTE_JOIN:
            return self._at(scope).value(entry.joinaliasvars[node.varattno - 1])
        if node.varreturningtype and node.varreturningtype == scope.absent_row:
            return null_value(self.base(node.vartype), node.vartypmod)
        if node.varattno < 0:
            return system_column(scope.row_scans.get(node.varno), node.varattno)
        source = scope.old_ranges if node.varreturningtype == RETURNING_OLD else scope.ranges
        columns = source.get(node.varno)
        if columns is None:
            raise unsupported("a reference to a table that is not in FROM here")
        found_column = columns(node.varattno)
        carries = self.statement.carries and found_column.typmod != CHECKED_TEXTS
        if found_column.type_oid == CARRIED and node.vartype and not carries:
            raise unsupported(f"a value of type {self.context.builtins.type_name(node.vartype)} here")
        return found_column

    def _at(self, scope: Scope) -> Translator:
        return self if scope is self.scope else Translator(scope)

    def constant(self, node: Node) -> Value:
        if node.constisnull:
            return null_value(self.base(node.consttype), node.consttypmod)
        type_oid = self.base(node.consttype)
        if is_enumeration(type_oid):
            return self.statement.types.label(type_oid, datum.read(OID, node.constvalue))
        return literal(datum.read(type_oid, node.constvalue), type_oid, node.consttypmod)

    def base(self, type_oid: int) -> int:
        """Return the base type of a type's values; 0A000 for a user's type that no column has."""
        if type_oid >= FIRST_USER_OID:
            return self.statement.types.base(type_oid)
        found = self.context.builtins.types.get(type_oid)
        if found is not None and found.kind == "d":
            raise unsupported(f"the domain {self.context.builtins.type_name(type_oid)}")
        return type_oid

    def parameter(self, node: Node) -> Value:
        if node.paramkind == PARAM_SUBLINK:
            substitute = self.substitutes.get(node.paramid)
            if substitute is None:
                raise malformed("a sublink's parameter outside it")
            return substitute
        if node.paramkind == _PARAM_MULTIEXPR:
            raise unsupported("SET (…) = (SELECT …)")
        text = self.parameter_text(node)
        type_oid = self.base(node.paramtype)
        if text is None:
            return null_value(type_oid, node.paramtypmod)
        if is_enumeration(type_oid):
            return literal(text, type_oid)
        return literal(datum.read_text(type_oid, text), type_oid, node.paramtypmod)

    def parameter_text(self, node: Node) -> str | None:
        """Return the value of a client's parameter, as PostgreSQL writes it."""
        if node.paramkind != _PARAM_EXTERN or node.paramid > len(self.context.parameters):
            raise malformed(f"the parameter ${node.paramid}")
        text: str | None = self.context.parameters[node.paramid - 1].text
        return text

    # --- functions ---

    def function(self, node: Node) -> Value:
        if node.funcretset:
            raise unsupported("a set-returning function in an expression")
        return self._called(node, node.funcid, node.funcresulttype, node.args or (), node.inputcollid)

    def operator_(self, node: Node) -> Value:
        if node.opretset:
            raise unsupported("a set-returning operator")
        return self._called(node, node.opfuncid, node.opresulttype, node.args, node.inputcollid)

    def _called(self, node: Node, function: int, result_type: int, nodes: Sequence[Node], collation: int) -> Value:
        signature = self.context.builtins.signature(function)
        row = registry.FUNCTIONS.get(signature)
        if row is None:
            raise unsupported(f"the function {signature}")
        self.check_collation(collation)
        if node.fields.get("funcvariadic"):
            raise unsupported(f"the function {signature} with VARIADIC")
        self.statement.stable_arguments.check(signature, nodes)
        arguments = tuple(self.value(argument) for argument in nodes)
        is_strict = node.type == "OPEXPR" and self.context.builtins.functions[function].is_strict
        if is_strict and any(each.constant is None for each in arguments):
            return null_value(self.base(result_type))
        folded = constant_folding.folded(signature, arguments)
        if folded is not MISSING:
            return literal(folded, result_type)
        called = Call(signature, arguments, self.base(result_type), self.context.session, collation=collation)
        return self._once(arguments, lambda given: self.statement.types.built(row, replace(called, arguments=given)))

    def _once(self, operands: Sequence[Value], build: Callable[[tuple[Value, ...]], Value]) -> Value:
        return used_once(self.statement.fresh, operands, build)

    def check_collation(self, collation: int) -> None:
        """Refuse collations that do not compare bytes."""
        if collation not in _COLLATIONS:
            raise unsupported(f"the collation with OID {collation}")

    def apply(self, signature: str, result_type: int, *arguments: Value) -> Value:
        """Return a call of an allowed function on translated values."""
        row = registry.FUNCTIONS.get(signature)
        if row is None:
            raise unsupported(f"the function {signature}")
        return self.statement.types.built(row, Call(signature, arguments, result_type, self.context.session))

    def distinct_from(self, node: Node) -> Value:
        signature = self.context.builtins.signature(node.opfuncid)
        if signature not in registry.EQUALITIES:
            raise unsupported(f"IS DISTINCT FROM with {signature}")
        self.check_collation(node.inputcollid)
        left, right = self.values(node.args)
        equal = binary("<=>", comparable(left), comparable(right))
        return constant_logic.distinct(left, right) or Value(not_(exp.Paren(this=equal)), BOOL)

    def null_if(self, node: Node) -> Value:
        signature = self.context.builtins.signature(node.opfuncid)
        self.check_collation(node.inputcollid)
        return self._once(self.values(node.args), lambda given: self._null_if(signature, *given))

    def _null_if(self, signature: str, left: Value, right: Value) -> Value:
        equal = self.apply(signature, BOOL, left, right).sql
        branches = case((equal, null_value(left.type_oid).sql), default=left.sql)
        if left.type_oid == NUMERIC:
            return replace(left, sql=case((equal, cast(exp.Null(), left.held.spark_type)), default=left.sql),
                           constant=MISSING)  # fmt: skip
        return replace(left, sql=branches, constant=MISSING)

    def coerced_element(self, item: Value, node: Node) -> Value:
        """Return an element of an array, converted as ARRAYCOERCEEXPR does."""
        self.case_test.append(item)
        try:
            return self.value(node)
        finally:
            self.case_test.pop()

    # --- logic ---

    def boolean(self, node: Node) -> Value:
        parts = [self.value(part) for part in alternatives(node)]
        if node.boolop != "not":
            return constant_logic.connected(parts, conjunction=node.boolop == "and")
        [part] = parts
        return constant_logic.negated(part.constant) if part.is_constant else Value(not_(part.sql), BOOL)

    def null_test(self, node: Node) -> Value:
        if node.argisrow:
            return row_values.null_test(self, node)
        # Values of a type that Spark does not know are not computed with.
        known = node.arg.type != "VAR" or self.statement.types.knows(node.arg.vartype)
        argument = self.value(node.arg if known else node.arg.replaced(vartype=0))
        return Value((is_null if node.nulltesttype == 0 else is_not_null)(argument.sql), BOOL)

    def boolean_test(self, node: Node) -> Value:
        argument = self.value(node.arg).sql
        expected, negated = _BOOLEAN_TESTS[node.booltesttype]
        result = is_null(argument)
        if expected is not None:
            result = exp.Paren(this=binary("<=>", argument, boolean(expected)))
        return Value(not_(result) if negated else result, BOOL)

    def case_(self, node: Node) -> Value:
        result_type = self.base(node.casetype)
        tested = None if node.arg is None else self.value(node.arg)
        if tested is not None and not is_simple(tested.sql):
            name = self.statement.fresh("v")
            if tested.type_oid == NUMERIC and not numerics.is_static(tested):
                raise unsupported("CASE over a computed numeric")
            inner = self._case_branches(node, result_type, replace(tested, sql=variable(name)))
            if inner.decimal is not None and not isinstance(inner.decimal.display, int):
                raise unsupported("CASE over a computed value with numeric results of several scales")
            return replace(inner, sql=let(name, tested.sql, inner.sql))
        return self._case_branches(node, result_type, tested)

    def _case_branches(self, node: Node, result_type: int, tested: Value | None) -> Value:
        if tested is not None:
            self.case_test.append(tested)
        try:
            conditions = [self.value(branch.expr).sql for branch in node.args]
        finally:
            if tested is not None:
                self.case_test.pop()
        results = [self.value(branch.result) for branch in node.args]
        default = null_value(result_type) if node.defresult is None else self.value(node.defresult)
        return self._chosen(conditions, results, default, result_type)

    def _chosen(
        self, conditions: Sequence[Expression], results: Sequence[Value], default: Value, result_type: int
    ) -> Value:
        typmod = _common_typmod([*results, default])
        if result_type != NUMERIC:
            sql = case_of_all(conditions, [result.sql for result in results], default.sql)
            return Value(sql, result_type, typmod)
        values, within = self._unified([*results, default])
        held = values[-1].held
        if numerics.is_static(values[-1]) or held.is_text:
            *branches, other = (inside(value.sql) for value, inside in zip(values, within, strict=True))
            return Value(case(*zip(conditions, branches, strict=True), default=other), NUMERIC, typmod, held)
        *branches, other = (inside(numerics.packed(value)) for value, inside in zip(values, within, strict=True))
        sql, held = numerics.unpacked(case(*zip(conditions, branches, strict=True), default=other), held)
        return Value(sql, NUMERIC, typmod, held)

    def _unified(self, values: Sequence[Value]) -> tuple[list[Value], list[Callable[[Expression], Expression]]]:
        """Return the numerics held in one way, each by a name if that is shorter, and the definitions of the names."""
        by_name = [named(self.statement.fresh, value) for value in values]
        return numerics.unified([value for value, _ in by_name]), [inside for _, inside in by_name]

    def case_test_value(self, node: Node) -> Value:  # noqa: ARG002
        if not self.case_test:
            raise malformed("a CASE test outside a CASE")
        return self.case_test[-1]

    def coalesce(self, node: Node) -> Value:
        values = self.values(node.args)
        if node.coalescetype == NUMERIC:
            return self._first_numeric(values)
        sql = call("coalesce", *(value.sql for value in values))
        return Value(sql, self.base(node.coalescetype), _common_typmod(values))

    def _first_numeric(self, values: Sequence[Value]) -> Value:
        values, within = self._unified(values)
        if all(numerics.is_static(value) or value.held.is_text for value in values):
            given = (inside(value.sql) for value, inside in zip(values, within, strict=True))
            return Value(call("coalesce", *given), NUMERIC, -1, values[0].decimal)
        pairs = (
            inside(case((is_not_null(value.sql), numerics.packed(value))))
            for value, inside in zip(values, within, strict=True)
        )
        sql, held = numerics.unpacked(call("coalesce", *pairs), values[-1].held)
        return Value(sql, NUMERIC, -1, held)

    # --- types ---

    def relabel(self, node: Node) -> Value:
        result_type = self.base(node.resulttype)
        return self._once(
            [self.value(node.arg)], lambda given: casts.relabelled(given[0], result_type, node.resulttypmod)
        )

    def through_text(self, node: Node) -> Value:
        result_type = self.base(node.resulttype)
        return self._once(
            [self.value(node.arg)], lambda given: casts.through_text(given[0], result_type, self.context.session)
        )

    def array_coercion(self, node: Node) -> Value:
        array = self.value(node.arg)
        element = element_type(array.type_oid)
        target = element_type(node.resulttype)
        if element is None or target is None or NUMERIC in (element.oid, target.oid):
            raise unsupported("a cast between these arrays")
        inner = self.coerced_element(Value(variable("a"), element.oid), node.elemexpr)
        return Value(call("transform", array.sql, lambda_("a", inner.sql)), node.resulttype)

    def array(self, node: Node) -> Value:
        if node.multidims:
            raise unsupported("an array of several dimensions")
        element = element_type(node.array_typeid)
        if element is None:
            raise unsupported(f"the type {self.context.builtins.type_name(node.array_typeid)}")
        if element.oid == NUMERIC:
            raise unsupported("an array of numeric")
        items = [item.sql for item in self.values(node.elements)]
        return Value(cast(call("array", *items), spark_type(node.array_typeid)), node.array_typeid)

    def subscript(self, node: Node) -> Value:
        if node.refassgnexpr is not None or node.reflowerindexpr:
            raise unsupported("a slice of an array")
        container = element_type(node.refcontainertype)
        if container is None or len(node.refupperindexpr) != 1 or container.oid == NUMERIC:
            raise unsupported("this subscript")
        array = self.value(node.refexpr)
        index = self.value(node.refupperindexpr[0])
        if index.type_oid != INT4:
            raise unsupported("a subscript that is not an integer")
        # Beside a subscript that is NULL, Spark would not compute the array, nor raise its errors.
        place = case((binary(">", index.sql, raw("0")), binary("-", index.sql, raw("1"))), default=raw("-1"))
        return Value(call("get", array.sql, place), container.oid)

    def collate(self, node: Node) -> Value:
        self.check_collation(node.collOid)
        return self.value(node.arg)

    def sql_value_function(self, node: Node) -> Value:
        return session_values.sql_value_function(node.op, node.fields["type"], node.typmod, self.context.session)

    def sublink(self, node: Node) -> Value:
        from planner.translate import sublinks  # noqa: PLC0415

        return sublinks.as_value(self, node)

    def aggregate(self, node: Node) -> Value:
        self.statement.is_eager |= self.statement.branches > 0
        if node.agglevelsup:
            return self._of_outer_query(node)
        if self.scope.grouping is None:
            raise malformed("an aggregate where there is no grouping")
        found: Value = self.scope.grouping.aggregate(node)
        return found

    def _of_outer_query(self, node: Node) -> Value:
        up = int(node.agglevelsup)
        below = self.scope.below_domain(up)
        if below is not None:
            return below[0].outer_value(query_levels.shifted(node, below[1] - up))
        return Translator(self.scope.up(up)).value(query_levels.shifted(node, -up))

    def grouping(self, node: Node) -> Value:
        if node.agglevelsup:
            return self._of_outer_query(node)
        if self.scope.grouping is None:
            raise malformed("GROUPING where there is no grouping")
        found: Value = self.scope.grouping.grouping_function(node)
        return found

    def window_function(self, node: Node) -> Value:
        from planner.translate import window_functions  # noqa: PLC0415

        return window_functions.window_function(self, node)


def _common_typmod(values: Sequence[Value]) -> int:
    typmods = {value.typmod for value in values if value.constant is not None}
    return typmods.pop() if len(typmods) == 1 else -1


# BoolTestType: IS TRUE, IS NOT TRUE, IS FALSE, IS NOT FALSE, IS UNKNOWN, IS NOT UNKNOWN
_BOOLEAN_TESTS: Final[dict[int, tuple[bool | None, bool]]] = {
    0: (True, False), 1: (True, True), 2: (False, False), 3: (False, True), 4: (None, False), 5: (None, True),
}  # fmt: skip

_BRANCHING: Final = frozenset({"BOOLEXPR", "CASEEXPR", "COALESCEEXPR"})
_TRANSLATORS: Final[dict[str, Callable[[Translator, Node], Value]]] = {
    "VAR": Translator.variable_,
    "CONST": Translator.constant,
    "PARAM": Translator.parameter,
    "FUNCEXPR": Translator.function,
    "OPEXPR": Translator.operator_,
    "DISTINCTEXPR": Translator.distinct_from,
    "NULLIFEXPR": Translator.null_if,
    "SCALARARRAYOPEXPR": array_comparison.array_operator,
    "BOOLEXPR": Translator.boolean,
    "NULLTEST": Translator.null_test,
    "BOOLEANTEST": Translator.boolean_test,
    "CASEEXPR": Translator.case_,
    "CASETESTEXPR": Translator.case_test_value,
    "COALESCEEXPR": Translator.coalesce,
    "MINMAXEXPR": greatest_least.min_max,
    "RELABELTYPE": Translator.relabel,
    "COERCEVIAIO": Translator.through_text,
    "COERCETODOMAIN": domains.coerced,
    "COERCETODOMAINVALUE": domains.constrained,
    "ARRAYCOERCEEXPR": Translator.array_coercion,
    "ARRAYEXPR": Translator.array,
    "SUBSCRIPTINGREF": Translator.subscript,
    "COLLATEEXPR": Translator.collate,
    "SQLVALUEFUNCTION": Translator.sql_value_function,
    "ROWEXPR": row_values.row,
    "ROWCOMPAREEXPR": row_values.row_compare,
    "SUBLINK": Translator.sublink,
    "AGGREF": Translator.aggregate,
    "GROUPINGFUNC": Translator.grouping,
    "WINDOWFUNC": Translator.window_function,
}
