"""The elements that change state in a schema change, as the catalog has them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.schema.states import Element, State


@dataclass(slots=True)
class ChangingElement:
    """An element that changes state. `definition` creates it; `other_relid` is the table a foreign key refers to."""

    relid: int
    other_relid: int
    kind: Element
    name: str
    of_column: str | None
    definition: str
    origin: State
    state: State
    element_id: int = 0


def passing_elements(elements: Sequence[ChangingElement], indexes: Collection[str]) -> list[ChangingElement]:
    """Return the elements that pass their states before the statement is executed; `indexes` are the names of those of
    the table that are there.

    An existing index that becomes a constraint has its name already, and a foreign key to a key of the same statement
    needs that key: for these, the statement itself checks the rows. Pure.
    """
    added = [each for each in elements if each.kind is Element.INDEX and each.name not in indexes]
    return [
        each
        for each in elements
        if (each in added if each.kind is Element.INDEX else not (added and each.other_relid == each.relid))
    ]


def element_from_json(element: Mapping[str, Any]) -> ChangingElement:
    """Read an element of `pg_sluice.elements`, or a row of the table `element`."""
    return ChangingElement(
        relid=element["relid"],
        other_relid=element["other_relid"],
        kind=Element(element["kind"]),
        name=element["name"],
        of_column=element["of_column"],
        definition=element["definition"],
        origin=State(element["origin"]),
        state=State(element.get("state", element["origin"])),
        element_id=element.get("element_id", 0),
    )
