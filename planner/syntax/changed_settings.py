"""The settings of PostgreSQL that a statement plainly changes: SET, RESET, SELECT set_config(…).

Names are as PostgreSQL compares them, in lower case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.datatypes import TEXT
from planner.syntax.lexer import Kind, Token, tokens
from planner.syntax.source_statement import known
from planner.syntax.statements import Statement
from planner.tree import datum
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk
from planner.tree.references import relations

_NOTHING: Final = frozenset[str]()
# SET and RESET in words of their own, and the setting that is meant.
_SPELLED: Final = {
    ("time", "zone"): frozenset({"timezone"}),
    ("names",): frozenset({"client_encoding"}),
    ("schema",): frozenset({"search_path"}),
    ("xml", "option"): frozenset({"xmloption"}),
    ("role",): frozenset({"role"}),
    ("session", "characteristics"): _NOTHING,  # for later transactions
    ("seed",): _NOTHING,
}
# They can be set and not read, are no settings, or belong to another statement.
_OTHERS: Final = frozenset({
    "all", "constraints", "seed", "session_authorization", "transaction", "transaction_deferrable",
    "transaction_isolation", "transaction_read_only", "transaction_snapshot",
})  # fmt: skip
_OF_SESSION: Final = (["authorization"], ["characteristics"])
_FUNCTION: Final = "set_config"


@known
def resets_all(statement: Statement) -> bool:
    """Whether the statement is RESET ALL."""
    if statement.first_word != "reset":
        return False
    items = list(tokens(statement.text))[1:]
    return len(items) == 1 and items[0].kind is Kind.WORD and items[0].text == "all"


@known
def changed_settings(statement: Statement) -> frozenset[str] | None:
    """Return what SET or RESET changes. None for other statements, and if a name does not tell the effect."""
    if statement.first_word not in {"set", "reset"}:
        return None
    items = list(tokens(statement.text))[1:]
    words = [item.text for item in items]
    if words[:1] == ["local"] or (words[:1] == ["session"] and words[1:2] not in _OF_SESSION):
        items, words = items[1:], words[1:]
    for spelled, names in _SPELLED.items():
        if tuple(words[: len(spelled)]) == spelled:
            return names
    name = _name(items)
    return frozenset({name}) if name is not None and _can_be_read(name) else None


def _can_be_read(name: str) -> bool:
    return name not in _OTHERS


def _name(items: Sequence[Token]) -> str | None:
    """Return the setting's name, which begins there: up to the sign, or for RESET, to the end."""
    parts: list[str] = []
    for place, item in enumerate(items):
        is_point = item.kind is Kind.SYMBOL and item.text == "."
        if is_point != bool(place % 2):
            return "".join(parts) if item.text in {"=", "to"} and parts else None
        parts.append(item.text.lower())
    return "".join(parts) or None


def configured_settings(query: Node, builtins: Builtins) -> frozenset[str] | None:
    """Return the settings that an analysed SELECT changes by set_config, if it reads no relation.

    None for other statements, and if a name is not a constant.
    """
    if relations(query):
        return None
    names = set()
    for node in walk(query):
        if node.type != "FUNCEXPR":
            continue
        known = builtins.functions.get(int(node.funcid))
        if known is None or known.name != _FUNCTION:
            continue
        name = node.args[0]
        if name.type != "CONST" or name.constisnull:
            return None
        names.add(str(datum.read(TEXT, name.constvalue)).lower())
    return frozenset(names) if names and all(map(_can_be_read, names)) else None
