"""Index matching: conditions on an index's expressions, and conditions that imply its predicate.

An expression of a query matches an index's if the two trees differ only in their place in the text. A partial index
serves if each conjunct of its predicate is among the query's, or says that a column is not NULL that the query
compares. An unrecognised condition is left out: it only costs reading. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any, Final

from catalog.indexes import Index
from planner.spark.plan import Comparison
from planner.translate.scope import RTE_RELATION, ScanBuilder, Scope
from planner.tree.nodes import Node, parse, walk

# Fields for the place of an expression in a text, or its spelling: no part of its meaning.
_ASIDE: Final = frozenset({
    "location", "varnosyn", "varattnosyn", "varno", "opfuncid", "funcformat", "relabelformat", "coerceformat",
    "list_start", "list_end", "rexpr_list_start", "rexpr_list_end",
})  # fmt: skip
_IS_NOT_NULL: Final = 1


def matched(scope: Scope, node: Node) -> Iterator[tuple[ScanBuilder, Index, int]]:
    """Yield the indexes over this expression, each with its scan and the place of the key, from 1."""
    found = _scan_of(scope, node)
    if found is None:
        return
    wanted = _bare(node)
    for index in found.table.indexes:
        expressions = iter(_trees(index.form.expressions))
        for place, key in enumerate(index.form.keys, 1):
            if not key.attnum and next(expressions) == wanted:
                yield found, index, place


def note(scope: Scope, conjunct: Node) -> None:
    """Record a condition on every row, if a partial index may need it."""
    found = _scan_of(scope, conjunct)
    if found is not None and any(index.form.predicate is not None for index in found.table.indexes):
        found.conjuncts.append(_bare(conjunct))


def implied(
    indexes: Collection[Index], conjuncts: Collection[Node], predicate: Collection[Comparison]
) -> Iterator[int]:
    """Return the OIDs of the partial indexes that have all rows which meet these conditions."""
    compared = {each.attnum for each in predicate if each.operator != "is null"}
    for index in indexes:
        parts = _trees(index.form.predicate)
        if parts and all(part in conjuncts or _is_compared(part, compared) for part in parts):
            yield index.oid


def _is_compared(part: Node, compared: Collection[int]) -> bool:
    return bool(
        part.type == "NULLTEST"
        and part.nulltesttype == _IS_NOT_NULL
        and part.arg.type == "VAR"
        and part.arg.varattno in compared
    )


def _scan_of(scope: Scope, node: Node) -> ScanBuilder | None:
    """Return the one scan of this level that all columns in the expression are of."""
    levels = [each for each in walk(node) if each.type in ("VAR", "SUBLINK", "AGGREF", "WINDOWFUNC", "PARAM")]
    places = {each.varno for each in levels if each.type == "VAR" and not each.varlevelsup and each.varattno > 0}
    if len(places) != 1 or any(each.type != "VAR" or each.varlevelsup for each in levels):
        return None
    [place] = places
    found = scope.scan_ranges.get(place)
    return found if found is not None and scope.entry(place).rtekind == RTE_RELATION else None


@lru_cache(maxsize=1024)
def _trees(text: str | None) -> tuple[Node, ...]:
    """Return the expressions of an index, or the conjuncts of its predicate, bare."""
    if text is None:
        return ()
    found = parse(text)
    return tuple(_flat(found if isinstance(found, tuple) else (found,)))


def _flat(trees: tuple[Node, ...]) -> Iterator[Node]:
    for tree in trees:
        if tree.type == "BOOLEXPR" and tree.boolop == "and":
            yield from _flat(tree.args)
        else:
            yield _bare(tree)


def _bare(value: Any) -> Any:
    if isinstance(value, Node):
        return Node(value.type, {name: _bare(each) for name, each in value.fields.items() if name not in _ASIDE})
    if isinstance(value, tuple):
        return tuple(_bare(each) for each in value)
    return value
