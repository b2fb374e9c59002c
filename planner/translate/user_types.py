"""Users' types in the columns of a statement's tables: enumerations, and domains.

A domain's values are those of its base type (planner/translate/domains.py). An enumeration's values are held as the
texts of their labels: equal texts are equal values, but their order is that of the labels. So sorting and comparing use
their ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from catalog.datatypes import CARRIED, FIRST_USER_OID, INT8, is_enumeration
from catalog.errors import unsupported
from catalog.model import Domain, Table
from planner.functions.call import Call, Row
from planner.spark.builders import Expression, binary, call, cast, raw, string
from planner.spark.literals import literal
from planner.spark.values import Value

# Functions of enumerations that use their order: comparisons, and the aggregates that choose a value.
_COMPARISONS: Final = frozenset(f"enum_{name}(anyenum,anyenum)" for name in ("lt", "le", "gt", "ge"))
_EXTREMES: Final = frozenset({"min(anyenum)", "max(anyenum)"})


@dataclass(frozen=True, slots=True)
class UserTypes:
    """The users' types of a statement's tables.

    `labels` are those of each enumeration, in its order; `texts` each label's by its OID; `bases` each domain's base
    type, for `domains`; `carried` the types whose values are texts to all but PostgreSQL.
    """

    labels: Mapping[int, tuple[str, ...]]
    texts: Mapping[int, str]
    bases: Mapping[int, int]
    domains: Mapping[int, Domain]
    carried: frozenset[int] = frozenset()

    @classmethod
    def of(cls, tables: Iterable[Table]) -> UserTypes:
        """Return the types of the tables' columns."""
        columns = [
            column for table in tables for column in table.columns if column.labels or column.domain or column.carried
        ]
        return cls(
            {each.type_oid: tuple(label.text for label in each.labels) for each in columns if each.labels},
            {label.oid: label.text for each in columns for label in each.labels},
            {each.domain.oid: each.type_oid for each in columns if each.domain is not None},
            {each.domain.oid: each.domain for each in columns if each.domain is not None},
            frozenset(each.carried.oid for each in columns if each.carried is not None),
        )

    def knows(self, type_oid: int) -> bool:
        """Whether Spark can compute with values of the type: it is one of the lake's own, or one of these."""
        if type_oid < FIRST_USER_OID:
            return type_oid not in self.carried
        return self.bases.get(type_oid, CARRIED) != CARRIED or type_oid in self.labels

    def base(self, type_oid: int) -> int:
        """Return the type in which a user's type is held: an enumeration itself, a domain's base type; 0A000 for any
        other."""
        found = self.bases.get(type_oid, type_oid)
        if is_enumeration(found) and found not in self.labels:
            raise unsupported(f"the type with OID {type_oid}")
        return found

    def label(self, type_oid: int, label_oid: int) -> Value:
        """Return a constant of an enumeration; 0A000 for a label that was added since."""
        text = self.texts.get(label_oid)
        if text is None:
            raise unsupported(f"the label with OID {label_oid} of an enumeration")
        return literal(text, type_oid)

    def rank(self, value: Value) -> Value:
        """Return the rank of a value's label in its enumeration, from 1; NULL for NULL."""
        labels = self._labels(value.type_oid)
        if isinstance(value.constant, str):
            return literal(labels.index(value.constant) + 1, INT8)
        return Value(call("array_position", _array(labels), value.sql), INT8)

    def built(self, row: Row, given: Call) -> Value:
        """Build a call of the allow-list, by the ranks of its arguments if it uses the order of an enumeration."""
        counted = given.signature == "count(any)" and given.aggregate is not None and not given.aggregate.distinct
        if any(each.type_oid == CARRIED for each in given.arguments) and not counted:
            raise unsupported(f"the function {given.signature} of this type")
        if given.signature in _COMPARISONS:
            return row.build(replace(given, arguments=tuple(self.rank(each) for each in given.arguments)))
        if given.signature in _EXTREMES:
            (value,) = given.arguments
            found = row.build(replace(given, arguments=(self.rank(value),), result_type=INT8))
            return Value(call("get", _array(self._labels(value.type_oid)), _place(found.sql)), value.type_oid)
        return row.build(given)

    def _labels(self, type_oid: int) -> tuple[str, ...]:
        labels = self.labels.get(type_oid)
        if labels is None:
            raise unsupported(f"the order of the type with OID {type_oid}")
        return labels


def _array(labels: Iterable[str]) -> Expression:
    return call("array", *map(string, labels))


def _place(rank: Expression) -> Expression:
    """Return a rank as an array's index."""
    return cast(binary("-", rank, raw("1L")), "INT")
