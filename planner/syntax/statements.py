"""The statements of a query string, and statements inside statements: their places in the text.

Pure text work over `planner.syntax.lexer`; PostgreSQL decides what a statement means.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from catalog.errors import unsupported
from planner.syntax.lexer import Kind, Token, tokens
from planner.syntax.source_statement import Statement as Statement  # noqa: PLC0414  with what is read in its text
from planner.syntax.source_statement import known
from planner.syntax.table_options import without_own_options
from planner.tree.long_text import count, find

# Statements that name no table, or none of the lake: PostgreSQL answers them, and their tree is not needed.
RELAYED_FIRST_WORDS: Final = frozenset(
    {
        "abort", "begin", "checkpoint", "close", "comment", "commit", "deallocate", "discard", "end",
        "grant", "listen", "load", "notify", "prepare", "release", "reset", "revoke", "rollback",
        "savepoint", "security", "set", "show", "start", "unlisten", "",
    }
)  # fmt: skip


def split(text: str, *, standard_strings: bool = True) -> tuple[Statement, ...]:
    """Return the statements of a query string; empty ones are left out.

    A semicolon ends a statement outside of parentheses and outside of a SQL-standard function body (BEGIN ATOMIC …
    END), the rule that psql follows too.
    """
    alone = _alone(text, standard_strings)
    if alone is not None:
        return (alone,)
    found: list[Statement] = []
    current: list[Token] = []
    nesting = 0
    for token in tokens(text, standard_strings=standard_strings):
        if token.kind is Kind.SYMBOL and token.text == ";" and token.depth == 0 and nesting == 0:
            _finish(found, text, current)
            continue
        current.append(token)
        if token.kind is Kind.WORD and current[0].text == "create":
            if (token.text == "atomic" and len(current) > 1 and current[-2].text == "begin") or (
                token.text == "case" and nesting
            ):
                nesting += 1
            elif token.text == "end" and nesting:
                nesting -= 1
    _finish(found, text, current)
    return tuple(found)


def _alone(text: str, standard_strings: bool) -> Statement | None:
    """Return the text as one statement if nothing in it could make it several; the rest of it is not read."""
    end = len(text.rstrip())
    if text.endswith(";", 0, end):
        end = len(text[: end - 1].rstrip())
    # The cut part may be the end of something open, unless all strings are plain ones, and closed.
    if end < len(text) and (
        count(text, "'") % 2
        or count(text, "(") != count(text, ")")
        or any(find(text, character) >= 0 for character in '"$\\')
    ):
        return None
    if find(text, ";", 0, end) >= 0 or find(text, "--") >= 0 or find(text, "/*") >= 0:
        return None
    start, first = -1, ""
    for token in tokens(text, standard_strings=standard_strings):
        start = token.start if start < 0 else start
        first = token.text
        if first != "(":
            break
    if not 0 <= start < end:
        return None
    return Statement(text[start:end], start, "" if first == "(" else first)


def _finish(found: list[Statement], text: str, current: list[Token]) -> None:
    if current:
        first = next((token.text for token in current if token.text != "("), "")
        start = current[0].start
        found.append(Statement(text[start : current[-1].end], start, first))
        current.clear()


def needs_no_analysis(statement: Statement, *, enlisted: bool = False) -> bool:
    """Whether the statement can be relayed without analysis: it cannot touch a relation, nor call a function that
    might.

    In a transaction with `enlisted` tables a query is always analysed: the transaction may be doomed by now.
    """
    if statement.first_word in RELAYED_FIRST_WORDS:
        return True
    if statement.first_word != "select" or enlisted:
        return False
    return all(
        token.text == "," if token.kind is Kind.SYMBOL else token.text not in {"from", "into", "table"}
        for token in tokens(statement.text)
    )


@known
def setting(statement: Statement, name: str) -> str | None:
    """Return the value that the statement plainly SETs `name` to; None for any other statement."""
    if statement.first_word != "set":
        return None
    items = list(tokens(statement.text))[1:]
    if items and items[0].text in {"local", "session"}:
        items = items[1:]
    if len(items) < 3:
        return None
    *names, sign, value = items
    if sign.text not in {"=", "to"} or "".join(item.text for item in names) != name or value.text == "default":
        return None
    if value.kind is not Kind.STRING:
        return value.text
    return value.text[1:-1].replace("''", "'") if value.text.startswith("'") else None


@dataclass(frozen=True, slots=True)
class ConstraintModes:
    """The content of SET CONSTRAINTS: (schema or None, name) of each constraint, or None for ALL."""

    sql: str
    names: tuple[tuple[str | None, str], ...] | None
    deferred: bool


@known
def constraint_modes(statement: Statement) -> ConstraintModes | None:
    """Return the parts of SET CONSTRAINTS; None for any other statement, and for one that PostgreSQL will refuse."""
    if statement.first_word != "set":
        return None
    items = list(tokens(statement.text))[1:]
    words = [item.text for item in items]
    if words[:1] != ["constraints"] or words[-1] not in {"deferred", "immediate"}:
        return None
    deferred = words[-1] == "deferred"
    if words[1:-1] == ["all"] and items[1].kind is Kind.WORD:
        return ConstraintModes(statement.text, None, deferred)
    names: list[tuple[str | None, str]] = []
    for separated, group in itertools.groupby(words[1:-1], lambda word: word == ","):
        parts = [word for word in group if word != "."]
        if not separated:
            names.append((parts[-2] if len(parts) > 1 else None, parts[-1]))
    return ConstraintModes(statement.text, tuple(names), deferred) if names else None


def explained(text: str) -> tuple[int, dict[str, str]]:
    """Return where the statement inside an EXPLAIN begins, and the options (lower case, value "true" for a bare
    one)."""
    items = list(tokens(text))
    options: dict[str, str] = {}
    place = 1
    if place < len(items) and items[place].text == "(" and items[place].kind is Kind.SYMBOL:
        place += 1
        words: list[str] = []
        while place < len(items) and not (items[place].text == ")" and items[place].depth == 0):
            if items[place].text == "," and items[place].kind is Kind.SYMBOL:
                _option(options, words)
            else:
                words.append(items[place].text)
            place += 1
        _option(options, words)
        place += 1
    else:
        while place < len(items) and items[place].text in {"analyze", "analyse", "verbose"}:
            options["analyze" if items[place].text.startswith("analy") else "verbose"] = "true"
            place += 1
    return (items[place].start if place < len(items) else len(text)), options


_CHANGED: Final = frozenset(
    {"table", "index", "view", "materialized", "sequence", "schema", "type", "domain", "policy"}
)
_MADE: Final = _CHANGED - {"materialized"}


def is_schema_change(text: str) -> bool:
    """Whether a statement is a schema change that Sluice explains: CREATE, ALTER and DROP of tables and their parts.

    PostgreSQL itself explains none of them, except statements that create a table AS a query.
    """
    words = [token.text if token.kind is Kind.WORD else "" for token in itertools.islice(tokens(text), 4)]
    if words[:1] == ["create"]:
        made = words[3:] if words[1:3] == ["or", "replace"] else words[2:] if words[1:2] == ["unique"] else words[1:]
        if made[:1] == ["table"]:
            return not any(token.text == "as" and token.kind is Kind.WORD and not token.depth for token in tokens(text))
        return made[:1] != [] and made[0] in _MADE
    return words[:1] in (["alter"], ["drop"]) and words[1:2] != [] and words[1] in _CHANGED


def drops_tables(text: str) -> bool:
    """Whether a DROP is one of tables or indexes."""
    words = [token.text for token in itertools.islice(tokens(text), 2)]
    return words in (["drop", "table"], ["drop", "index"])


def explaining(text: str) -> str | None:
    """Return a statement that PostgreSQL accepts in place of EXPLAIN of a schema change, which it does not know.

    It has the same options and result. None for any other statement.
    """
    if next((token.text for token in tokens(text)), "") != "explain":
        return None
    offset, _ = explained(text)
    return f"{text[:offset]} SELECT" if is_schema_change(text[offset:]) else None


def _option(options: dict[str, str], words: list[str]) -> None:
    if words:
        options[words[0]] = words[1].strip("'").lower() if len(words) > 1 else "true"
        words.clear()


def condition_of(text: str) -> str:
    """Return what stands between WHERE and LIMIT in a query of one table."""
    words = [token for token in tokens(text) if token.kind is Kind.WORD and token.depth == 0]
    begin = next(token.end for token in words if token.text == "where")
    end = next(token.start for token in reversed(words) if token.text == "limit")
    return text[begin:end].strip()


def parenthesised(text: str) -> tuple[int, int]:
    """Return start and end of the first pair of parentheses, as in COPY (query) TO."""
    items = list(tokens(text))
    for index, token in enumerate(items):
        if token.text == "(" and token.kind is Kind.SYMBOL and token.depth == 0:
            for close in items[index + 1 :]:
                if close.text == ")" and close.kind is Kind.SYMBOL and close.depth == 0:
                    return token.end, close.start
    raise unsupported("a COPY of this form")


@dataclass(frozen=True, slots=True)
class TableAs:
    """The parts of CREATE TABLE … AS: what is before the query, the query, and where it begins."""

    head: str
    query: str
    offset: int
    with_data: bool

    @property
    def without_data(self) -> str:
        """The same statement without data."""
        return f"{self.head}{self.query} WITH NO DATA"

    def head_for(self, name: str) -> str:
        """Return the head with another name, quoted, in place of the table's."""
        items = list(tokens(self.head))
        start = _find(items, 0, "table") + 1
        if [item.text for item in items[start : start + 3]] == ["if", "not", "exists"]:
            start += 3
        last = start
        while items[last + 1].text == ".":
            last += 2
        return f"{self.head[: items[start].start]}{name}{self.head[items[last].end :]}"


def table_as(text: str) -> TableAs:
    """Return the parts of CREATE TABLE … AS query [WITH [NO] DATA], or of SELECT … INTO table …."""
    items = list(tokens(text))
    while items[-1].kind is Kind.SYMBOL and items[-1].text == ";":
        items.pop()
    if items[0].text == "create":
        at = _find(items, 0, "as")
        end, with_data = items[-1].end, True
        if [token.text for token in items[-2:]] == ["with", "data"]:
            end = items[-2].start
        elif [token.text for token in items[-3:]] == ["with", "no", "data"]:
            end, with_data = items[-3].start, False
        offset = items[at].end
        return TableAs(without_own_options(text[:offset]), text[offset:end], offset, with_data)
    into = _find(items, 0, "into")
    last = into + 1
    while items[last].text in {"temporary", "temp", "unlogged", "local", "global", "table"}:
        last += 1
    kind = " ".join(item.text for item in items[into + 1 : last] if item.text != "table")
    name_start = items[last].start
    while last + 2 < len(items) and items[last + 1].text == ".":
        last += 2
    target = text[name_start : items[last].end]
    # Blanks in place of the INTO clause, so that positions in errors stay true.
    gap = " " * (items[last].end - items[into].start)
    query = text[: items[into].start] + gap + text[items[last].end :]
    return TableAs(f"CREATE {kind} TABLE {target} AS ", query, 0, True)


@dataclass(frozen=True, slots=True)
class Upsert:
    """The parts of INSERT … ON CONFLICT: `INSERT INTO name [AS alias]`, its source, and `ON CONFLICT …`."""

    head: str
    source: str
    conflict: str


def upsert(text: str) -> Upsert:
    """Return the parts of an INSERT … ON CONFLICT; the head leaves out what stands before INSERT (WITH)."""
    items = list(tokens(text))
    start = _find(items, 0, "insert")
    last = start + 2
    while items[last + 1].text == ".":
        last += 2
    if items[last + 1].text == "as" and items[last + 1].kind is Kind.WORD:
        last += 2
    at = (
        max(
            index
            for index, token in enumerate(items)
            if token.kind is Kind.WORD
            and token.text == "conflict"
            and token.depth == 0
            and items[index - 1].text == "on"
            and items[index + 1].text in {"do", "(", "on"}
        )
        - 1
    )
    end = items[at].start
    return Upsert(text[items[start].start : items[last].end], text[:end], text[end:])


@dataclass(frozen=True, slots=True)
class Merge:
    """The parts of MERGE. `common` is the WITH before it; `alias` is the source's name, None if it has no single one.

    `by_source`: rows of the target matter that no row of the source matches.
    """

    common: str
    target: str
    source: str
    alias: str | None
    condition: str
    actions: str
    by_source: bool


def merge(text: str) -> Merge:
    """Return the parts of MERGE INTO target USING source ON condition WHEN …."""
    items = [token for token in tokens(text) if token.depth == 0]
    start = _find(items, 0, "merge")
    using = _find(items, start, "using")
    when = _outside_of_case(items, using, "when")
    on = max(index for index in range(using, when) if items[index].text == "on" and items[index].kind is Kind.WORD)
    words = [token.text for token in items[when:]]
    by_source = any(words[index : index + 4] == ["not", "matched", "by", "source"] for index in range(len(words)))
    return Merge(
        common=text[: items[start].start],
        target=text[items[start + 2].start : items[using].start],
        source=text[items[using].end : items[on].start],
        alias=_alias(text, items[using + 1 : on]),
        condition=text[items[on].end : items[when].start],
        actions=text[items[when].start :],
        by_source=by_source,
    )


_NAME_BYTES_MAX: Final = 63  # NAMEDATALEN


@dataclass(frozen=True, slots=True)
class CommonText:
    """One query of a WITH: its name, `name [(columns)]`, the statement in parentheses, and SEARCH and CYCLE after
    it."""

    name: str
    head: str
    body: str
    tail: str = ""


@dataclass(frozen=True, slots=True)
class WithText:
    """A statement that begins with WITH: its queries, and what follows them."""

    recursive: bool
    commons: tuple[CommonText, ...]
    main: str


def begins_with_with(text: str) -> bool:
    """Whether a statement begins with WITH."""
    return next((token.text for token in tokens(text)), "") == "with"


def with_text(text: str) -> WithText:
    """Return the parts of a statement that begins with WITH."""
    items = [token for token in tokens(text) if token.depth == 0]
    recursive = items[1].text == "recursive" and items[1].kind is Kind.WORD
    found: list[CommonText] = []
    place = 1 + recursive
    while True:
        start = place
        place = _find(items, place + 1, "as")
        head = text[items[start].start : items[place - 1].end]
        opening = next(index for index in range(place, len(items)) if items[index].text == "(")
        place = _after_search_and_cycle(items, opening + 2)
        body = text[items[opening].end : items[opening + 1].start]
        name = items[start].text.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")
        found.append(CommonText(name, head, body, text[items[opening + 1].end : items[place - 1].end]))
        if items[place].text != ",":
            return WithText(recursive, tuple(found), text[items[place].start :])
        place += 1


def _after_search_and_cycle(items: Sequence[Token], place: int) -> int:
    """Skip SEARCH … SET column, CYCLE … SET column [TO value DEFAULT value] USING column."""
    while items[place].kind is Kind.WORD and items[place].text in {"search", "cycle"}:
        place = _find(items, place, "set") + 2
        if items[place].text == "to":
            place = _find(items, place, "default") + 2
        if items[place].text == "using":
            place += 2
    return place


def _outside_of_case(items: Sequence[Token], start: int, word: str) -> int:
    """Return the place of a word that is not a part of CASE … END."""
    nesting = 0
    for index in range(start, len(items)):
        if items[index].kind is not Kind.WORD:
            continue
        if items[index].text == word and not nesting:
            return index
        nesting += {"case": 1, "end": -1}.get(items[index].text, 0)
    raise unsupported("a statement of this form")


def _alias(text: str, items: Sequence[Token]) -> str | None:
    """Return the name of a table, a subquery or a function in FROM; None for a join or anything else without a
    single name."""
    place = 1
    if items[0].text == "(" and items[0].kind is Kind.SYMBOL:
        place = 2  # the subquery's closing parenthesis
    else:
        while place + 1 < len(items) and items[place].text == ".":
            place += 2
    name = items[place - 1]
    if place < len(items) and items[place].text == "(" and name.text != ")":
        place += 2  # the function's arguments
        if place < len(items) and items[place].text == "with":
            place += 2  # WITH ORDINALITY
    if place < len(items) and items[place].text == "as":
        place += 1
    if place < len(items) and items[place].kind is not Kind.SYMBOL:
        name = items[place]
        place += 1
    rest = [token.text for token in items[place:]]
    return text[name.start : name.end] if name.kind is not Kind.SYMBOL and rest in ([], ["(", ")"]) else None


def prepared(text: str) -> int:
    """Return where the statement inside PREPARE name [(types)] AS … begins."""
    items = list(tokens(text))
    return items[_find(items, 0, "as")].end


def declared(text: str) -> int:
    """Return where the query inside DECLARE name … CURSOR … FOR query begins."""
    items = list(tokens(text))
    return items[_find(items, 0, "for")].end


def executed(text: str) -> tuple[int, int]:
    """Return start and end of the arguments of EXECUTE name [(…)], with their parentheses; an empty range for none."""
    items = list(tokens(text))
    if len(items) > 2 and items[2].text == "(" and items[2].kind is Kind.SYMBOL:
        return items[2].start, items[-1].end
    return items[-1].end, items[-1].end


def _find(items: Sequence[Token], start: int, word: str) -> int:
    for index in range(start, len(items)):
        token = items[index]
        if token.kind is Kind.WORD and token.text == word and token.depth == 0:
            return index
    raise unsupported(f"this statement without {word.upper()}")
