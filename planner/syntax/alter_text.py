"""ALTER TABLE and ALTER SEQUENCE: what PostgreSQL's parse tree tells, and texts that must stay letter by letter.

Pure. The tree has every command with its names and kinds, but not where an expression ends. So the lexer is asked for
one thing: the commas between commands, as many as the tree has. Source: parsenodes.h; PostgreSQL documentation, "ALTER
TABLE", "ALTER SEQUENCE".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.errors import unsupported
from planner.syntax.lexer import Kind, tokens
from planner.tree.nodes import Node, name_of, text, walk

# ConstrType: those that a column with a constant default has: _NULL, _NOTNULL and _DEFAULT.
_OF_COLUMNS: Final = frozenset({0, 1, 2})
# Those that give a column values: _DEFAULT, _IDENTITY and _GENERATED; and types that do.
_OF_VALUES: Final = frozenset({2, 3, 4})
_SERIAL: Final = frozenset({"serial", "serial2", "serial4", "serial8", "smallserial", "bigserial"})
# AlterTableType: AT_ColumnDefault; AT_SetExpression; AT_EnableTrigAll and AT_DisableTrigAll.
_SET_DEFAULT: Final = 2
_SET_EXPRESSION: Final = 6
_ALL_TRIGGERS: Final = frozenset({41, 42})
# Reserved words: outside of brackets, each stands only before a command's expression.
_BEFORE_EXPRESSIONS: Final = frozenset({"using", "as"})


@dataclass(frozen=True, slots=True)
class CommandText:
    """One command of ALTER TABLE: what follows USING or AS in it, and where its last word is."""

    expression: str | None
    last: tuple[int, int]


def command_texts(statement: str, *, standard_strings: bool = True) -> list[CommandText]:
    """Return the commands between commas; the first one with what precedes it."""
    found, expression_at = list[CommandText](), -1
    level, last = 0, (0, 0)
    for token in tokens(statement, standard_strings=standard_strings):
        symbol = token.text if token.kind is Kind.SYMBOL else ""
        level += (symbol in {"(", "["}) - (symbol in {")", "]"})
        if symbol == ";" and not level:
            break
        if symbol == "," and not level:
            found.append(_command(statement, expression_at, last))
            expression_at = -1
            continue
        if not level and expression_at < 0 and token.kind is Kind.WORD and token.text in _BEFORE_EXPRESSIONS:
            expression_at = token.end
        last = (token.start, token.end)
    return [*found, _command(statement, expression_at, last)]


def escaped_command_texts(statement: str) -> list[CommandText]:
    """`command_texts` where `standard_conforming_strings` is off."""
    return command_texts(statement, standard_strings=False)


def _command(statement: str, expression_at: int, last: tuple[int, int]) -> CommandText:
    return CommandText(None if expression_at < 0 else statement[expression_at : last[1]].strip(), last)


def gives_values(utility: Node) -> bool:
    """Whether an ALTER TABLE has an expression for a column's new values."""
    return utility.type == "ALTERTABLESTMT" and any(map(_gives_values, utility.cmds))


def _gives_values(command: Node) -> bool:
    """Whether it is `ALTER [COLUMN] name [SET DATA] TYPE … USING expression`, or `… SET EXPRESSION AS (expression)`."""
    definition = command.fields.get("def")
    if int(command.subtype) == _SET_EXPRESSION:
        return True
    has_values = isinstance(definition, Node) and definition.fields.get("raw_default") is not None
    return has_values and command.fields.get("name") is not None


def using_expressions(utility: Node, texts: Callable[[], Sequence[CommandText]]) -> dict[str, str]:
    """Return the expressions for columns' new values, by the column's name; `texts` are those of the commands."""
    if not gives_values(utility):
        return {}
    found = {}
    for command, said in _with_texts(utility, texts()):
        if _gives_values(command):
            if said.expression is None:
                raise _unread()
            found[name_of(command.name)] = said.expression
    return found


def _with_texts(utility: Node, texts: Sequence[CommandText]) -> list[tuple[Node, CommandText]]:
    if len(texts) != len(utility.cmds):
        raise _unread()
    return list(zip(utility.cmds, texts, strict=True))


def _unread() -> Exception:
    return unsupported("an ALTER TABLE of this form")


def past_guards(utility: Node, statement: str, texts: Callable[[str], Sequence[CommandText]] = command_texts) -> str:
    """Return the statement with USER in place of ALL in `{ENABLE | DISABLE} TRIGGER ALL`."""
    if utility.type != "ALTERTABLESTMT" or all(int(each.subtype) not in _ALL_TRIGGERS for each in utility.cmds):
        return statement
    changed, end = "", 0
    for command, said in _with_texts(utility, texts(statement)):
        if int(command.subtype) in _ALL_TRIGGERS:
            changed += statement[end : said.last[0]] + "USER"
            end = said.last[1]
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


def collates(utility: Node) -> bool:
    """Whether a clause of ALTER TABLE gives a column a collation."""
    return any(node.type == "COLUMNDEF" and node.fields.get("collClause") is not None for node in walk(utility))


def defaulted_later(utility: Node) -> dict[str, bool]:
    """Return the columns that one clause of ALTER TABLE adds and another one gives a default, which existing rows do
    not get; with them, whether they are added with a default.
    """
    added, defaulted = dict[str, bool](), set[str]()
    for command in utility.cmds if utility.type == "ALTERTABLESTMT" else ():
        definition = command.fields.get("def")
        if isinstance(definition, Node) and definition.type == "COLUMNDEF" and command.fields.get("name") is None:
            kinds = {int(each.contype) for each in definition.fields.get("constraints") or ()}
            is_serial = name_of(definition.typeName.names[-1]) in _SERIAL
            added[name_of(definition.colname)] = is_serial or not _OF_VALUES.isdisjoint(kinds)
        elif int(command.subtype) == _SET_DEFAULT and definition is not None:
            defaulted.add(name_of(command.name))
    return {name: came_with_one for name, came_with_one in added.items() if name in defaulted}


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
