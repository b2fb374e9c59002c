"""In which order the parts of a statement are carried out that has data-modifying queries in WITH.

As PostgreSQL does it (execMain.c, nodeModifyTable.c): the main statement, and before it the queries that it reads; then
those that it does not read, the last first, each after what it reads itself. So it is known which of two changes a row
gets that both are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.nodes import Node, name_of
from planner.references import common_names

_CMD_SELECT: Final = 1


@dataclass(frozen=True, slots=True)
class Order:
    """Places in the list of WITH queries: those carried out before the main statement, and after it."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def order(query: Node) -> Order:
    """The order for an analysed statement. What changes nothing and is never read is left out."""
    commons: Sequence[Node] = query.cteList
    places = {name_of(node.ctename): place for place, node in enumerate(commons)}
    reads = [{places[name] for name in common_names(node.ctequery) if name in places} for node in commons]
    main = query.replaced(cteList=())
    before = _with_read({places[name] for name in common_names(main) if name in places}, reads, ())
    after: tuple[int, ...] = ()
    for place in reversed(range(len(commons))):
        if int(commons[place].ctequery.commandType) != _CMD_SELECT and place not in before:
            after += _with_read({place}, reads, (*before, *after))
    if query.commandType == _CMD_SELECT or _target(query) not in {_target(commons[place].ctequery) for place in after}:
        return Order((*before, *after), ())
    return Order(before, after)


def _with_read(wanted: set[int], reads: Sequence[set[int]], done: Sequence[int]) -> tuple[int, ...]:
    """These and all that they read, which stands before them, without what is done."""
    every: set[int] = set()
    while wanted:
        every |= wanted
        wanted = set().union(*(reads[place] for place in wanted)) - every
    return tuple(sorted(every.difference(done)))


def _target(query: Node) -> int:
    """The OID of the relation that a statement changes; 0 where it changes none."""
    place = int(query.resultRelation)
    return int(query.rtable[place - 1].relid) if place else 0
