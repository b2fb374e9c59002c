"""The execution order of a statement with data-modifying queries in WITH.

As in PostgreSQL (execMain.c, nodeModifyTable.c): first the queries that the main statement reads, then the main
statement, then the queries that it does not read, the last first, each after the queries that it reads. So the order
decides which of two changes of the same row applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.errors import unsupported
from planner.syntax.statements import CommonText, WithText
from planner.tree.nodes import Node, name_of
from planner.tree.references import common_names

_CMD_SELECT: Final = 1


@dataclass(frozen=True, slots=True)
class Common:
    """One of the WITH queries: its name, its text and its tree."""

    name: str
    text: CommonText
    query: Node
    recursive: bool

    @property
    def changes(self) -> bool:
        """Whether it changes data."""
        return int(self.query.commandType) != _CMD_SELECT


@dataclass(frozen=True, slots=True)
class Order:
    """The WITH queries that are executed before the main statement, and after it."""

    before: tuple[Common, ...]
    after: tuple[Common, ...]


def order(query: Node, text: WithText) -> Order:
    """Return the order for an analysed statement and its text. Unread queries that change nothing are left out."""
    commons = _commons(query, text)
    places = {common.name: place for place, common in enumerate(commons)}
    reads = [{places[name] for name in common_names(common.query) if name in places} for common in commons]
    main = query.replaced(cteList=())
    before = _with_read({places[name] for name in common_names(main) if name in places}, reads, ())
    after: tuple[int, ...] = ()
    for place in reversed(range(len(commons))):
        if commons[place].changes and place not in before:
            after += _with_read({place}, reads, (*before, *after))
    if query.commandType == _CMD_SELECT or _target(query) not in {_target(commons[place].query) for place in after}:
        before, after = (*before, *after), ()
    return Order(tuple(commons[place] for place in before), tuple(commons[place] for place in after))


def refuse_late(query: Node) -> None:
    """Raise 0A000 if only ON CONFLICT of the main statement reads a query that changes the main statement's table.

    PostgreSQL executes that query when it meets the first conflict.
    """
    if query.fields.get("onConflict") is None:
        return
    commons = {name_of(node.ctename): node.ctequery for node in query.cteList}
    main = query.replaced(cteList=(), onConflict=None)
    late = _names_read(query.onConflict, commons) - _names_read(main, commons)
    if any(_target(commons[name]) == _target(query) for name in late):
        raise unsupported("ON CONFLICT that reads a data-modifying statement in WITH of the same table")


def _names_read(tree: Any, commons: Mapping[str, Node]) -> frozenset[str]:
    """Return the names of the WITH queries that a part of a statement reads, also through others."""
    found, names = frozenset[str](), common_names(tree) & commons.keys()
    while names - found:
        found |= names
        names = frozenset[str]().union(*(common_names(commons[name]) for name in names)) & commons.keys()
    return found


def _commons(query: Node, text: WithText) -> list[Common]:
    """Return the analysed queries with their texts. PostgreSQL has reordered those of WITH RECURSIVE."""
    texts = list(text.commons)
    if text.recursive:
        named = {each.name: each for each in texts}
        texts = [named[name_of(node.ctename)] for node in query.cteList]
    return [
        Common(name_of(node.ctename), each, node.ctequery, text.recursive)
        for node, each in zip(query.cteList, texts, strict=True)
    ]


def _with_read(wanted: Iterable[int], reads: Sequence[set[int]], done: Sequence[int]) -> tuple[int, ...]:
    """Return these and all that they read, each after the queries that it reads, without those that are done."""
    found: tuple[int, ...] = ()
    for place in sorted(wanted):
        if place not in done and place not in found:
            before = (*done, *found, place)  # a recursive one reads itself
            found += (*_with_read(reads[place], reads, before), place)
    return found


def _target(query: Node) -> int:
    """Return the OID of the relation that a statement changes; 0 if it changes none."""
    place = int(query.resultRelation)
    return int(query.rtable[place - 1].relid) if place else 0
