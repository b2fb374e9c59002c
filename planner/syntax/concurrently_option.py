"""CONCURRENTLY: an option that asks for what every index change of the lake does, to block no session.

PostgreSQL's own way takes several transactions and waits for others, over a shadow that is empty. So the shadow is
changed without the option. As in PostgreSQL, the statement must stand outside of a block. The statement without it is
made of the tree: of its text, only what follows a table's name is taken, where the tree says that it is. Pure. Source:
PostgreSQL documentation, "CREATE INDEX", "DROP INDEX", "REINDEX"; parsenodes.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.syntax.lexer import quoted
from planner.tree.nodes import Node, name_of, text, walk

_COMMANDS: Final = {"INDEXSTMT": "CREATE INDEX", "DROPSTMT": "DROP INDEX", "REINDEXSTMT": "REINDEX"}
# Messages of REINDEX that differ with CONCURRENTLY.
_NOTHING_TO_DO: Final = " has no indexes to reindex"
_NOTHING_TO_DO_CONCURRENTLY: Final = " has no indexes that can be reindexed concurrently"
_FALSE: Final = frozenset({"false", "off", "0"})
_OPTION: Final = "concurrently"
# ReindexObjectType and DropBehavior.
_REINDEXED: Final = ("INDEX", "TABLE", "SCHEMA", "SYSTEM", "DATABASE")
_CASCADE: Final = 1


def concurrent_command(utility: Node) -> str | None:
    """Return `CREATE INDEX`, `DROP INDEX` or `REINDEX` if it is to be executed CONCURRENTLY; None for all else."""
    command = _COMMANDS.get(utility.type)
    if command is None:
        return None
    if utility.type == "REINDEXSTMT":
        # PostgreSQL lets the last one decide.
        said = [option for option in utility.fields.get("params") or () if text(option.defname) == _OPTION]
        return command if said and _is_on(said[-1]) else None
    return command if utility.concurrent else None


def _is_on(option: Node) -> bool:
    value: Any = option.fields.get("arg")
    texts = [str(each.fields.get("sval") or each.fields.get("boolval")) for each in walk(value)] or [str(value)]
    return not any(text.lower() in _FALSE for text in texts)


def plainly(utility: Node, statement: str) -> str:
    """Return the statement without CONCURRENTLY."""
    match utility.type:
        case "INDEXSTMT":
            return _create_index(utility, statement)
        case "DROPSTMT":
            names = ", ".join(map(_qualified, utility.objects))
            cascade = " CASCADE" if int(utility.behavior) == _CASCADE else ""
            return f"DROP INDEX {'IF EXISTS ' if utility.missing_ok else ''}{names}{cascade}"
    options = [_as_written(option) for option in utility.params if text(option.defname) != _OPTION]
    relation = utility.fields.get("relation")
    subject = text(utility.fields.get("name")) if relation is None else None
    name = quoted(subject) if subject is not None else "" if relation is None else _relation(relation)
    listed = f" ({', '.join(options)})" if options else ""
    return f"REINDEX{listed} {_REINDEXED[int(utility.kind)]} {name}".rstrip()


def _create_index(utility: Node, statement: str) -> str:
    """Return CREATE INDEX with all that follows the table's name as it is, at its place."""
    content = statement.encode()
    before = content[: int(utility.relation.location)].decode()
    after = statement[len(before) :]
    name = text(utility.fields.get("idxname"))
    words = ["CREATE", *(["UNIQUE"] if utility.unique else []), "INDEX"]
    words += ["IF NOT EXISTS"] if utility.if_not_exists else []
    words += [] if name is None else [quoted(name)]
    words += ["ON"] if utility.relation.inh else ["ON ONLY"]
    opening = " (" if not utility.relation.inh and before.rstrip().endswith("(") else ""
    return f"{' '.join(words)}{opening} ".ljust(len(before)) + after


def _as_written(option: Node) -> str:
    """Return an option of REINDEX: a name, and a word, a string or a number."""
    value = option.fields.get("arg")
    name = quoted(name_of(option.defname))
    if value is None:
        return name
    return f"{name} {value if isinstance(value, int | float) else quoted(str(value))}"


def _qualified(names: Sequence[Any]) -> str:
    return ".".join(quoted(name_of(each)) for each in names)


def _relation(relation: Node) -> str:
    parts = (text(relation.fields.get(field)) for field in ("catalogname", "schemaname", "relname"))
    return ".".join(quoted(part) for part in parts if part is not None)


def said_concurrently(message: str) -> str:
    """Return a notice's message as it is when the statement is executed CONCURRENTLY."""
    found = message.removesuffix(_NOTHING_TO_DO)
    return message if found == message else found + _NOTHING_TO_DO_CONCURRENTLY
