"""Values of domains: a value converted to a domain satisfies its constraints, or Spark raises PostgreSQL's error.

Source: ExecEvalConstraintNotNull and ExecEvalConstraintCheck in PostgreSQL's execExprInterp.c.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog.datatypes import NUMERIC
from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Domain
from planner.functions import casts
from planner.spark import numerics
from planner.spark.builders import Expression, case, cast, is_null, is_simple, let, not_, raise_whole, variable
from planner.spark.values import MISSING, Value, spark_type
from planner.tree import nodes

if TYPE_CHECKING:
    from planner.translate.expressions import Translator
    from planner.tree.nodes import Node

# The key for VALUE in a translator's substitutes, whose parameters have numbers from 0 on.
_VALUE: Final = -1


def coerced(translator: Translator, node: Node) -> Value:
    """Translate the node of a value that is converted to a domain."""
    return into_domain(translator, translator.value(node.arg), node.resulttype)


def constrained(translator: Translator, node: Node) -> Value:
    """Translate VALUE in a domain's CHECK."""
    value = translator.substitutes.get(_VALUE)
    if value is None:
        raise nodes.malformed(f"{node.type} outside of a domain's constraint")
    return value


def into_domain(translator: Translator, value: Value, type_oid: int) -> Value:
    """Return a value as one of a domain: 0A000 for an unknown one, which no column of the statement's tables has."""
    types = translator.statement.types
    domain = types.domains.get(type_oid)
    if domain is None:
        raise unsupported(f"the domain with OID {type_oid}")
    found = casts.relabelled(value, types.bases[type_oid], -1)
    if not domain.rules:
        return found
    if found.type_oid == NUMERIC and not numerics.is_static(found):
        raise unsupported(f"a computed numeric in the domain {domain.name}")
    if is_simple(found.sql) or found.is_constant:
        return replace(found, sql=_kept(translator, domain, found), constant=MISSING)
    name = translator.statement.fresh("v")
    bound = replace(found, sql=variable(name))
    return replace(found, sql=let(name, found.sql, _kept(translator, domain, bound)), constant=MISSING)


def _kept(translator: Translator, domain: Domain, value: Value) -> Expression:
    name = translator.context.domain_names.get(domain.oid)
    if name is None:
        raise unsupported(f"a value of the domain {domain.name} here")
    broken = []
    before = translator.substitutes
    translator.substitutes = {**before, _VALUE: value}
    try:
        for constraint, expression in domain.rules:
            if expression is None:
                condition = is_null(value.sql)
            else:
                condition = not_(translator.value(nodes.parse(expression)).sql)
            broken.append((condition, raise_whole(_violation(domain, name, constraint))))
    finally:
        translator.substitutes = before
    return cast(case(*broken, default=value.sql), spark_type(value.type_oid, value.decimal))


def _violation(domain: Domain, name: str, constraint: str | None) -> SluiceError:
    if constraint is None:
        message = f"domain {name} does not allow null values"
        return SluiceError(SqlState.NOT_NULL_VIOLATION, message, schema=domain.schema, datatype=domain.name)
    message = f'value for domain {name} violates check constraint "{constraint}"'
    return SluiceError(
        SqlState.CHECK_VIOLATION, message, schema=domain.schema, datatype=domain.name, constraint=constraint
    )
