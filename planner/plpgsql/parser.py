"""Reads the control flow of a PL/pgSQL body. Expressions and SQL statements stay text, which PostgreSQL reads.

PostgreSQL has accepted the body, or will refuse it: what is not read here is an `UnreadableError`, and nothing is
guessed. Source: PostgreSQL's grammar of PL/pgSQL (pl_gram.y), which also reads up to the next word THEN or LOOP.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from planner.plpgsql.nodes import (
    Argument,
    Block,
    Body,
    Branch,
    Calling,
    Characteristics,
    Choice,
    Diagnosing,
    Ending,
    Iteration,
    Jump,
    Kind,
    Leaving,
    Loop,
    Plain,
    Span,
    Statement,
    Variable,
)
from planner.syntax.lexer import Kind as TokenKind
from planner.syntax.lexer import Token, tokens

# Blocks, loops and branches within others.
_DEPTH_MAX: Final = 40
_JUMPS: Final = {"exit": Jump.EXIT, "continue": Jump.CONTINUE, "return": Jump.RETURN}
_CHANGES: Final = frozenset({"insert", "update", "delete", "merge"})


class UnreadableError(Exception):
    """A body that cannot be read."""


def read_body(text: str, *, standard_strings: bool = True) -> Body:
    """Read a whole body. Raises `UnreadableError`."""
    return _Parser(text, list(tokens(text, standard_strings=standard_strings))).body()


class _Parser:
    def __init__(self, text: str, found: list[Token]) -> None:
        self._text = text
        self._tokens = found
        self._place = 0
        self._depth = 0

    def body(self) -> Body:
        start = 0
        while self._is_symbol("#"):
            line = self._text.find("\n", self._now.start)
            start = len(self._text) if line < 0 else line + 1
            while self._place < len(self._tokens) and self._tokens[self._place].start < start:
                self._place += 1
        block = self._block(self._label())
        if self._place < len(self._tokens):
            raise UnreadableError
        return Body(self._text, self._text[:start], block)

    # The tokens.

    @property
    def _now(self) -> Token:
        if self._place >= len(self._tokens):
            raise UnreadableError
        return self._tokens[self._place]

    def _is_word(self, *words: str, ahead: int = 0) -> bool:
        place = self._place + ahead
        if place >= len(self._tokens):
            return False
        token = self._tokens[place]
        return token.kind is TokenKind.WORD and token.text in words

    def _is_symbol(self, symbol: str, ahead: int = 0) -> bool:
        place = self._place + ahead
        if place >= len(self._tokens):
            return False
        token = self._tokens[place]
        return token.kind is TokenKind.SYMBOL and token.text == symbol

    def _next(self) -> Token:
        token = self._now
        self._place += 1
        return token

    def _expect(self, *words: str) -> Token:
        if not self._is_word(*words):
            raise UnreadableError
        return self._next()

    def _semicolon(self) -> int:
        if not self._is_symbol(";"):
            raise UnreadableError
        return self._next().end

    def _name(self) -> str:
        token = self._next()
        if token.kind not in (TokenKind.WORD, TokenKind.NAME):
            raise UnreadableError
        return token.text

    def _until(self, *words: str) -> Span:
        """The text up to one of these words outside of parentheses, which is the next token then."""
        start = end = self._now.start
        while not (self._now.depth == 0 and self._is_word(*words)):
            if self._is_symbol(";") and self._now.depth == 0:
                raise UnreadableError
            end = self._next().end
        return Span(start, end)

    def _rest(self) -> int:
        """Skip the rest of a statement; return where it ends, with its semicolon."""
        while not (self._is_symbol(";") and self._now.depth == 0):
            self._next()
        return self._semicolon()

    def _label(self) -> str | None:
        if not (self._is_symbol("<") and self._is_symbol("<", 1)):
            return None
        self._place += 2
        name = self._name()
        if not (self._is_symbol(">") and self._is_symbol(">", 1)):
            raise UnreadableError
        self._place += 2
        return name

    def _end_label(self) -> None:
        if not self._is_symbol(";") and self._place < len(self._tokens):
            self._name()

    # Blocks.

    def _block(self, label: str | None, start: int | None = None) -> Block:
        start = self._now.start if start is None else start
        variables = self._declarations() if self._is_word("declare") else []
        begin = self._expect("begin").start
        body = self._statements("exception", "end")
        handlers = list[Branch]()
        if self._is_word("exception"):
            self._next()
            while self._is_word("when"):
                self._next()
                self._until("then")
                handlers.append(self._branch(self._next().end, "when", "end"))
        end = self._expect("end").end
        self._end_label()
        if self._place < len(self._tokens):
            end = self._semicolon()
        return Block(start, end, label, variables, begin, body, handlers)

    def _branch(self, start: int, *ends: str) -> Branch:
        """The statements that begin at `start`, up to one of these words."""
        statements = self._statements(*ends)
        return Branch(Span(start, self._now.start), statements)

    def _declarations(self) -> list[Variable]:
        found = list[Variable]()
        while not self._is_word("begin"):
            if self._is_word("declare"):
                self._next()
                continue
            found.append(self._declaration())
        return found

    def _declaration(self) -> Variable:
        first = self._place
        name = self._name()
        if self._is_word("alias"):
            self._rest()
            return Variable(name, Kind.ALIAS, self._on_one_line(first, self._place - 1))
        if any(self._is_word("cursor", ahead=n) for n in range(3)):
            self._rest()
            return Variable(name, Kind.CURSOR, self._on_one_line(first, self._place - 1))
        given: int | None = None
        while not (self._is_symbol(";") and self._now.depth == 0):
            token = self._next()
            if given is None and token.depth == 0 and self._gives(token):
                given = self._place - 1
        end = self._place
        self._semicolon()
        words = [each.text for each in self._tokens[first + 1 : given or end]]
        is_fixed = words[:1] == ["constant"] or words[-2:] == ["not", "null"]
        kind = Kind.RECORD if words == ["record"] else Kind.VALUE
        value = "" if given is None else self._on_one_line(given, end)
        return Variable(name, kind, self._on_one_line(first, given or end), value, is_fixed)

    def _on_one_line(self, first: int, end: int) -> str:
        """The text of these tokens without comments and line ends, except those within strings."""
        parts, place = list[str](), self._tokens[first].start
        for token in self._tokens[first:end]:
            parts += [" " if token.start > place else "", self._text[token.start : token.end]]
            place = token.end
        return "".join(parts)

    def _gives(self, token: Token) -> bool:
        """Whether the value of a declared variable follows the token, with which its giving begins."""
        if token.kind is TokenKind.WORD:
            return token.text == "default"
        return token.kind is TokenKind.SYMBOL and (token.text == "=" or (token.text == ":" and self._is_symbol("=")))

    # Statements.

    def _statements(self, *ends: str) -> list[Statement]:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise UnreadableError
        found = list[Statement]()
        while not self._is_word(*ends) or self._assigns():
            found.append(self._statement())
        self._depth -= 1
        return found

    def _assigns(self) -> bool:
        """Whether the next word is a variable that gets a value."""
        return (self._is_symbol(":", 1) and self._is_symbol("=", 2)) or any(self._is_symbol(each, 1) for each in "=.[")

    def _statement(self) -> Statement:
        start = self._now.start
        label = self._label()
        if self._is_word("declare", "begin"):
            return self._block(label, start)
        if self._is_word("loop", "while", "for", "foreach"):
            return self._loop(label, start)
        if label is not None:
            raise UnreadableError
        token = self._now
        word = token.text if token.kind is TokenKind.WORD and not self._assigns() else ""
        return self._simple(word) or Plain(start, self._rest(), word)

    def _simple(self, word: str) -> Statement | None:
        """A statement that begins with this word; None if it is not read further."""
        match word:
            case "if":
                return self._if()
            case "case":
                return self._case()
            case "exit" | "continue" | "return":
                return self._leaving()
            case "commit" | "rollback":
                return self._ending()
            case "call":
                return self._calling()
            case "raise" if self._is_symbol(";", 1):
                return Leaving(self._next().start, self._semicolon(), Jump.RAISE)
            case "get" if self._is_word("stacked", ahead=1):
                return self._diagnosing()
            case "set" if self._is_word("transaction", ahead=1):
                return Characteristics(self._now.start, self._rest())
        return None

    def _if(self) -> Choice:
        start, branches = self._next().start, list[Branch]()
        while True:
            self._until("then")
            branches.append(self._branch(self._next().end, "elsif", "elseif", "else", "end"))
            if not self._is_word("elsif", "elseif"):
                break
            self._next()
        self._else(branches)
        self._expect("end")
        self._expect("if")
        return Choice(start, self._semicolon(), branches)

    def _case(self) -> Choice:
        start, branches = self._next().start, list[Branch]()
        self._until("when")
        while self._is_word("when"):
            self._next()
            self._until("then")
            branches.append(self._branch(self._next().end, "when", "else", "end"))
        self._else(branches)
        self._expect("end")
        self._expect("case")
        return Choice(start, self._semicolon(), branches)

    def _else(self, branches: list[Branch]) -> None:
        if self._is_word("else"):
            branches.append(self._branch(self._next().end, "end"))

    def _leaving(self) -> Leaving:
        start = self._now.start
        jump = _JUMPS[self._next().text]
        if jump is Jump.RETURN:
            return Leaving(start, self._rest(), jump)
        label = None if self._is_symbol(";") or self._is_word("when") else self._name()
        condition: Span | None = None
        if self._is_word("when"):
            first = self._tokens[self._place + 1].start if self._place + 1 < len(self._tokens) else start
            end = self._rest()
            condition = Span(first, self._tokens[self._place - 2].end)
        else:
            end = self._semicolon()
        return Leaving(start, end, jump, label, condition)

    def _ending(self) -> Ending:
        start, commits, chains = self._now.start, self._next().text == "commit", False
        if self._is_word("and"):
            self._next()
            chains = not self._is_word("no")
            if not chains:
                self._next()
            self._expect("chain")
        return Ending(start, self._semicolon(), commits, chains)

    def _diagnosing(self) -> Diagnosing:
        start, items = self._next().start, list[tuple[Span, str]]()
        self._next()
        self._expect("diagnostics")
        while True:
            first = end = self._now.start
            while not (self._is_symbol("=") or self._is_symbol(":")):
                end = self._next().end
            while self._is_symbol("=") or self._is_symbol(":"):
                self._next()
            items.append((Span(first, end), self._name()))
            if not self._is_symbol(","):
                return Diagnosing(start, self._semicolon(), items)
            self._next()

    def _calling(self) -> Calling:
        start, first = self._next().start, self._now.start
        name = self._name()
        while self._is_symbol("."):
            self._next()
            name = self._name()
        procedure = Span(first, self._tokens[self._place - 1].end)
        if not self._is_symbol("("):
            raise UnreadableError
        self._next()
        arguments = list[Argument]()
        while not self._is_symbol(")"):
            arguments.append(self._argument())
        self._next()
        return Calling(start, self._semicolon(), procedure, name, arguments)

    def _argument(self) -> Argument:
        """An argument, up to its comma, which is skipped, or the closing parenthesis."""
        is_variadic = self._is_word("variadic")
        if is_variadic:
            self._next()
        name: str | None = None
        if (self._is_symbol("=", 1) and self._is_symbol(">", 2)) or (
            self._is_symbol(":", 1) and self._is_symbol("=", 2)
        ):
            name = self._name()
            self._place += 2
        first, depth, brackets = self._place, self._now.depth, 0
        start = end = self._now.start
        while not (self._now.depth == depth and not brackets and self._is_symbol(",")) and not (
            self._now.depth == depth - 1 and self._is_symbol(")")
        ):
            brackets += self._is_symbol("[") - self._is_symbol("]")
            end = self._next().end
        found = self._tokens[first : self._place]
        is_bare = len(found) == 1 and (
            found[0].kind is TokenKind.STRING or (found[0].kind is TokenKind.WORD and found[0].text == "null")
        )
        if not found:
            raise UnreadableError
        if self._is_symbol(","):
            self._next()
        return Argument(start, end, name, is_bare, is_variadic)

    # Loops.

    def _loop(self, label: str | None, start: int) -> Loop:
        word = self._next().text
        if word == "loop":
            header = Span(self._tokens[self._place - 1].start, self._tokens[self._place - 1].start)
            return self._looping(Loop(start, start, label, Iteration.ENDLESS, header, _no_branch()), is_begun=True)
        if word == "while":
            return self._looping(Loop(start, start, label, Iteration.WHILE, self._until("loop"), _no_branch()))
        target = self._until("in", "slice") if word == "foreach" else self._until("in")
        slices = self._is_word("slice")
        if slices:
            self._until("in")
        self._next()
        if word == "foreach":
            self._expect("array")
            header, kind = self._until("loop"), Iteration.ARRAY
            loop = Loop(start, start, label, kind, header, _no_branch(), target, slices=slices)
            return self._looping(loop)
        return self._for(label, start, target)

    def _for(self, label: str | None, start: int, target: Span) -> Loop:
        reverse = self._is_word("reverse")
        if reverse:
            self._next()
        first = self._place
        header = self._until("loop")
        found = self._tokens[first : self._place]
        dots = [
            n
            for n, (each, after) in enumerate(pairwise(found))
            if not each.depth and each.text == "." and after.text.startswith(".") and each.end == after.start
        ]
        loop = Loop(start, start, label, Iteration.QUERY, header, _no_branch(), target, reverse=reverse)
        if dots:
            loop.kind, loop.bounds = Iteration.INTEGER, _bounds(found, dots[0])
            loop.name = _one_name(self._text, target)
        elif found[0].text == "execute" and found[0].kind is TokenKind.WORD:
            loop.kind = Iteration.DYNAMIC
        elif _is_cursor(found):
            loop.kind, loop.name = Iteration.CURSOR, _one_name(self._text, target)
        return self._looping(loop)

    def _looping(self, loop: Loop, *, is_begun: bool = False) -> Loop:
        """Read the statements of a loop, and its end."""
        body = self._tokens[self._place - 1].end if is_begun else self._expect("loop").end
        loop.branch = self._branch(body, "end")
        self._expect("end")
        self._expect("loop")
        self._end_label()
        loop.end = self._semicolon()
        return loop


def _no_branch() -> Branch:
    return Branch(Span(0, 0), [])


def _bounds(found: list[Token], dots: int) -> list[Span]:
    """The bounds of an integer loop, and its step, if it has one. The second dot may begin a number, as the lexer
    sees it.
    """
    words = (n for n, each in enumerate(found) if each.kind is TokenKind.WORD and each.text == "by" and not each.depth)
    by = next((n for n in words if n > dots), len(found))
    upper = found[dots].end + 1
    spans = [Span(found[0].start, found[dots].start), Span(upper, found[by - 1].end)]
    if by < len(found) - 1:
        spans.append(Span(found[by + 1].start, found[-1].end))
    if any(each.end <= each.start for each in spans):
        raise UnreadableError
    return spans


def _one_name(text: str, target: Span) -> str:
    found = list(tokens(target.of(text)))
    if len(found) != 1 or found[0].kind not in (TokenKind.WORD, TokenKind.NAME):
        raise UnreadableError
    return found[0].text


def _is_cursor(found: list[Token]) -> bool:
    """Whether a loop goes over a cursor variable, maybe with arguments."""
    if found[0].kind not in (TokenKind.WORD, TokenKind.NAME):
        return False
    return len(found) == 1 or (
        found[1].text == "(" and found[0].depth == 0 and found[-1].text == ")" and _closes(found)
    )


def _closes(found: list[Token]) -> bool:
    """Whether the parenthesis behind the first token is closed by the last one."""
    return all(each.depth > 0 for each in found[2:-1])


def changes_rows(loop: Loop, text: str) -> bool:
    """Whether the loop's query changes rows: PostgreSQL ends no transaction within such a loop."""
    words = [each.text for each in tokens(loop.header.of(text)) if each.kind is TokenKind.WORD]
    if words[:1] != ["with"]:
        return words[0] in _CHANGES if words else False
    return any(each in _CHANGES and before not in ("for", "key") for before, each in pairwise(words))


def is_variable(text: str) -> bool:
    """Whether an argument of CALL is a variable, or a field of one."""
    found = list(tokens(text))
    names = all(each.kind in (TokenKind.WORD, TokenKind.NAME) for each in found[::2])
    return len(found) % 2 == 1 and names and all(each.text == "." for each in found[1::2]) and text.lower() != "null"
