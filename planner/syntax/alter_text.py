"""ALTER TABLE and ALTER SEQUENCE: what PostgreSQL's parse tree tells, and texts that must stay letter by letter.

Pure. PostgreSQL decides what a statement does; these facts are in none of its catalogs. Source: parsenodes.h;
PostgreSQL documentation, "ALTER TABLE", "ALTER SEQUENCE".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from planner.syntax.lexer import Kind, Token, tokens
from planner.tree.nodes import Node, text, walk

# ConstrType: those that a column with a constant default has: _NULL, _NOTNULL and _DEFAULT.
_OF_COLUMNS: Final = frozenset({0, 1, 2})
# The words before the expression in a clause, after the column's name.
_BEFORE: Final = {("type",): "using", ("set", "data"): "using", ("set", "expression"): "as"}


def using_expressions(statement: str) -> dict[str, str]:
    """Return the expressions for columns' new values, by the column's name.

    They stand in `ALTER [COLUMN] name [SET DATA] TYPE … USING expression` and in `ALTER [COLUMN] name SET EXPRESSION AS
    (expression)`, whatever the type.
    """
    found = {}
    for clause in _clauses(_without_end(statement)):
        words = [token.text if token.kind is Kind.WORD else "" for token in clause]
        place = 2 if words[1:2] == ["column"] and words[2:3] != ["type"] else 1
        follows = next((_BEFORE[key] for n in (1, 2) if (key := tuple(words[place + 1 :][:n])) in _BEFORE), None)
        if words[:1] != ["alter"] or follows is None:
            continue
        for token in clause[place + 2 :]:
            if token.kind is Kind.WORD and token.text == follows and token.depth == clause[0].depth:
                found[clause[place].text] = statement[token.end : clause[-1].end].strip()
                break
    return found


def past_guards(statement: str) -> str:
    """Return the statement with USER in place of ALL in `{ENABLE | DISABLE} TRIGGER ALL`."""
    items = [(token.text if token.kind is Kind.WORD else "", token) for token in tokens(statement)]
    changed, end = "", 0
    for (first, _), (second, _), (third, last) in zip(items, items[1:], items[2:], strict=False):
        if first in {"enable", "disable"} and second == "trigger" and third == "all":
            changed += statement[end : last.start] + "USER"
            end = last.end
    return changed + statement[end:]


def referenced(utility: Node) -> list[Node]:
    """The names (RangeVars) of the tables that new foreign keys of a schema change reference."""
    return [node.pktable for node in walk(utility) if isinstance(node.fields.get("pktable"), Node)]


def constrains(utility: Node) -> bool:
    """Whether a schema change makes a constraint or an index, over rows that are there."""
    kinds = (int(node.contype) for node in walk(utility) if node.type == "CONSTRAINT")
    return utility.type == "INDEXSTMT" or any(kind not in _OF_COLUMNS for kind in kinds)


def numbered_later(utility: Node) -> list[str]:
    """Return the columns that one clause of ALTER TABLE adds and another one makes an identity.

    Existing rows get no number, as the identity comes after the column's values.
    """
    added, numbered = set(), []
    for command in walk(utility):
        definition = command.fields.get("def") if command.type == "ALTERTABLECMD" else None
        if not isinstance(definition, Node):
            continue
        if definition.type == "COLUMNDEF":
            added.add(text(definition.fields.get("colname")))
        elif definition.type == "CONSTRAINT" and command.fields.get("name"):  # ADD GENERATED … AS IDENTITY
            numbered.append(str(text(command.name)))
    return [name for name in numbered if name in added]


def restarts_columns(utility: Node) -> bool:
    """Whether all that an ALTER TABLE does is `ALTER [COLUMN] name RESTART [[WITH] number]`, of one column or more."""
    commands = [node.fields.get("def") for node in walk(utility) if node.type == "ALTERTABLECMD"]
    return bool(commands) and all(map(_restarts, commands))


def restarts_sequence(utility: Node) -> bool:
    """Whether all that an ALTER SEQUENCE does is `RESTART [[WITH] number]`."""
    return _restarts(utility.fields.get("options"))


def _restarts(options: Any) -> bool:
    """Whether a list of DefElem has nothing but RESTART."""
    return isinstance(options, tuple) and {text(option.fields.get("defname")) for option in options} == {"restart"}


def _without_end(statement: str) -> list[Token]:
    return [token for token in tokens(statement) if token.text != ";" or token.kind is not Kind.SYMBOL]


def _clauses(items: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the comma-separated clauses of ALTER TABLE, the first one without what precedes it."""
    clause: list[Token] = []
    for token in items:
        if token.kind is Kind.SYMBOL and token.text == "," and token.depth == items[0].depth:
            yield clause
            clause = []
            continue
        clause.append(token)
        # The first clause begins at the first key word of a clause after the table's name.
        if len(clause) > 3 and clause[0] is items[0] and token.kind is Kind.WORD and token.text == "alter":
            clause = [token]
    yield clause
