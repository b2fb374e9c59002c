"""Transaction commands, recognised by their words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from planner.syntax.lexer import Kind, Token, tokens, unescaped
from planner.syntax.source_statement import known
from planner.syntax.statements import Statement

# First words of statements without a snapshot (pquery.c, PlannedStmtRequiresSnapshot), besides transaction commands.
_WITHOUT_SNAPSHOT: Final = frozenset(
    {"set", "reset", "show", "lock", "fetch", "move", "listen", "notify", "unlisten", "checkpoint"}
)
# First words of statements that are analysed with a snapshot (analyze.c, analyze_requires_snapshot), but CREATE … AS.
_ANALYSED: Final = frozenset(
    {"select", "values", "table", "with", "(", "insert", "update", "delete", "merge", "explain", "declare", "call"}
)


class TransactionCommand(StrEnum):
    """A statement that begins, ends or marks a transaction, by its effect."""

    BEGIN = "BEGIN"
    SET_TRANSACTION = "SET TRANSACTION"
    SET_ISOLATION = "SET TRANSACTION ISOLATION LEVEL"
    SET_SNAPSHOT = "SET TRANSACTION SNAPSHOT"
    SET_READ_ONLY = "SET TRANSACTION READ ONLY"
    SET_READ_WRITE = "SET TRANSACTION READ WRITE"  # or what may be that
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    COMMIT_AND_CHAIN = "COMMIT AND CHAIN"
    ROLLBACK_AND_CHAIN = "ROLLBACK AND CHAIN"
    SAVEPOINT = "SAVEPOINT"
    RELEASE_SAVEPOINT = "RELEASE SAVEPOINT"
    ROLLBACK_TO_SAVEPOINT = "ROLLBACK TO SAVEPOINT"
    PREPARE_TRANSACTION = "PREPARE TRANSACTION"

    @property
    def unchained(self) -> TransactionCommand:
        """Its effect on the transaction that it ends, without AND CHAIN."""
        return _UNCHAINED.get(self, self)


class Shown(StrEnum):
    """The settings of the client's transaction that SHOW asks for and the backend does not know, by name."""

    ISOLATION = "transaction_isolation"


_TRANSACTION_COMMANDS: Final = {
    "begin": TransactionCommand.BEGIN,
    "start": TransactionCommand.BEGIN,
    "commit": TransactionCommand.COMMIT,
    "end": TransactionCommand.COMMIT,
    "rollback": TransactionCommand.ROLLBACK,
    "abort": TransactionCommand.ROLLBACK,
    "savepoint": TransactionCommand.SAVEPOINT,
    "release": TransactionCommand.RELEASE_SAVEPOINT,
}
_UNCHAINED: Final = {
    TransactionCommand.COMMIT_AND_CHAIN: TransactionCommand.COMMIT,
    TransactionCommand.ROLLBACK_AND_CHAIN: TransactionCommand.ROLLBACK,
}
_CHAINED: Final = {command: chained for chained, command in _UNCHAINED.items()}


@known
def transaction_command(statement: Statement) -> TransactionCommand | None:
    """Return the statement's effect on the transaction; None for any other statement."""
    first = statement.first_word
    if first not in _TRANSACTION_COMMANDS and first not in {"set", "prepare"}:
        return None
    if first == "set":
        return _sets_transaction([token.text.strip('"') for token in tokens(statement.text)])
    words = [token.text for token in itertools.islice(tokens(statement.text), 5)]
    if first == "prepare":
        return TransactionCommand.PREPARE_TRANSACTION if words[1:2] == ["transaction"] else None
    if first == "rollback" and "to" in words[1:3]:
        return TransactionCommand.ROLLBACK_TO_SAVEPOINT
    if words[1:2] == ["prepared"]:
        return None
    command = _TRANSACTION_COMMANDS[first]
    return _CHAINED.get(command, command) if words[-2:] == ["and", "chain"] else command


_ABOUT_SAVEPOINTS: Final = frozenset(
    {TransactionCommand.SAVEPOINT, TransactionCommand.RELEASE_SAVEPOINT, TransactionCommand.ROLLBACK_TO_SAVEPOINT}
)


@known
def savepoint_name(statement: Statement, command: TransactionCommand) -> str | None:
    """Return the savepoint that a statement with the effect `command` names; None if it names none."""
    if command not in _ABOUT_SAVEPOINTS:
        return None
    found = list(tokens(statement.text))
    escape = "\\"
    if len(found) > 2 and found[-2].text == "uescape" and found[-1].kind is Kind.STRING:
        escape = found[-1].text.strip("'")
        del found[-2:]
    name = found[-1]
    return unescaped(name.text, escape) if name.kind is Kind.NAME and _is_unicode(statement, name) else name.text


def _is_unicode(statement: Statement, name: Token) -> bool:
    return statement.text[name.start : name.start + 2].lower() == "u&"


def _sets_transaction(words: Sequence[str]) -> TransactionCommand | None:
    """Recognise SET [LOCAL | SESSION] TRANSACTION; SESSION CHARACTERISTICS is for later transactions."""
    place = 2 if len(words) > 2 and words[1] in {"local", "session"} else 1
    match words[place : place + 1]:
        case ["transaction"] if words[place + 1 :] == ["read", "only"]:
            return TransactionCommand.SET_READ_ONLY
        case ["transaction"] if words[place + 1 : place + 2] == ["snapshot"]:
            return TransactionCommand.SET_SNAPSHOT
        case ["transaction"] if "write" not in words:
            is_level = "isolation" in words
            return TransactionCommand.SET_ISOLATION if is_level else TransactionCommand.SET_TRANSACTION
        case ["transaction"] | ["transaction_read_only"]:
            return TransactionCommand.SET_READ_WRITE
        case ["transaction_isolation"]:
            return TransactionCommand.SET_ISOLATION
        case _:
            return None


def snapshot_literal(text: str) -> str | None:
    """Return the literal in SET TRANSACTION SNAPSHOT, as it is written; None where PostgreSQL finds a syntax error."""
    found = [token for token in tokens(text) if token.text != ";"]
    place = 1 + next(place for place, token in enumerate(found) if token.text == "snapshot")
    literal = found[place:]
    strings = [token for token in literal if token.text != "uescape" or token.kind is not Kind.WORD]
    if not strings or any(token.kind is not Kind.STRING for token in strings):
        return None
    return text[literal[0].start : literal[-1].end]


@known
def shown(statement: Statement) -> Shown | None:
    """Return what the statement shows, in any spelling; None for all others."""
    if statement.first_word != "show":
        return None
    words = [token.text for token in tokens(statement.text)][1:]
    return Shown.ISOLATION if words in ([Shown.ISOLATION], ["transaction", "isolation", "level"]) else None


def takes_snapshot(statement: Statement) -> bool:
    """Whether PostgreSQL would take the transaction's snapshot for this statement, if it came first."""
    return statement.first_word not in _WITHOUT_SNAPSHOT and transaction_command(statement) is None


@known
def parses_with_snapshot(statement: Statement) -> bool:
    """Whether PostgreSQL takes a snapshot when it parses the statement, before it is executed."""
    return statement.first_word in _ANALYSED
