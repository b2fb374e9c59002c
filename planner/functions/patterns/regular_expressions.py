"""PostgreSQL's advanced regular expressions, read by an allow-list and written as Java's, which Spark uses.

`parse` splits a constant pattern into the constructs whose meaning is certain: literals, `.`, `^`, `$`, bracket
expressions, `\\d \\s \\w` and their negations, `\\A \\Z \\m \\M \\y`, groups, alternation, quantifiers. All else is
refused by name. As a mere test for a match, the result means the same to a POSIX and to a backtracking engine. If the
match itself counts, `planner.functions.patterns.match_extents` must agree as well.

Source: PostgreSQL 18, src/backend/regex/{regc_lex,regcomp,regc_pg_locale}.c, documentation 9.7.3. Classes are those of
the builtin collation C.UTF-8: digits are ASCII, letters are Unicode's alphabetic characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from catalog.errors import unsupported

# --- sets of characters ---

_ASCII_ALL: Final = (1 << 128) - 1


def _mask(text: str) -> int:
    return sum(1 << ord(character) for character in set(text))


_DIGITS: Final = _mask("0123456789")
_UPPER: Final = _mask("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER: Final = _mask("abcdefghijklmnopqrstuvwxyz")
_WORD: Final = _DIGITS | _UPPER | _LOWER | _mask("_")
_SPACE: Final = _mask("\t\n\v\f\r ")


@dataclass(frozen=True, slots=True)
class Characters:
    """A set that includes at least the characters that an atom matches: exact in ASCII, beyond it a list or any, but
    those `without`.
    """

    ascii: int
    beyond: frozenset[int] | None  # None: perhaps every character outside ASCII
    without: frozenset[int] = frozenset()

    def __or__(self, other: Characters) -> Characters:
        if self.beyond is not None and other.beyond is not None:
            return Characters(self.ascii | other.ascii, self.beyond | other.beyond)
        missing = [each.without for each in (self, other) if each.beyond is None]
        found = (self.beyond or frozenset()) | (other.beyond or frozenset())
        return Characters(self.ascii | other.ascii, None, frozenset.intersection(*missing) - found)

    def meets(self, other: Characters) -> bool:
        """Whether a character may be in both."""
        if self.ascii & other.ascii:
            return True
        if self.beyond is None:
            return other.beyond is None or bool(other.beyond - self.without)
        if other.beyond is None:
            return bool(self.beyond - other.without)
        return bool(self.beyond & other.beyond)


NO_CHARACTERS: Final = Characters(0, frozenset())
_ANY: Final = Characters(_ASCII_ALL, None)

# --- the parts of a pattern ---


@dataclass(frozen=True, slots=True)
class Atom:
    """One character of a set; `java` matches it."""

    characters: Characters
    java: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place between characters. `is_end` is the end of the text."""

    java: str
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Parentheses; `number` counts the capturing ones from 1, None for `(?:…)`."""

    body: Expression
    number: int | None


@dataclass(frozen=True, slots=True)
class Repeat:
    """A quantified atom or group; `most` is None for any number."""

    body: Expression
    least: int
    most: int | None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class Sequence:
    """Expressions one after the other."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternative expressions."""

    branches: tuple[Expression, ...]


Expression = Atom | Anchor | Group | Repeat | Sequence | Choice


class Slow(NamedTuple):
    """Texts of at least that length in which Java finds a match of `java`."""

    length: int
    java: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern. `knows_letters`: whether it depends on which characters are letters. `start`: what Java looks
    for at each place first. `slow`: the texts over which Java takes too many steps.
    """

    source: str
    insensitive: bool
    body: Expression
    groups: int
    knows_letters: bool
    start: str = ""
    slow: Slow | None = None

    def java(self, capturing: bool = False) -> str:
        """Return the pattern for Java. Capturing groups are named g1, g2, …; without `capturing`, groups do not
        capture."""
        body = java_of(self.body, capturing)
        return f"{self.flags}{self.start}(?:{body})" if self.start else self.flags + body

    @property
    def flags(self) -> str:
        return "(?si)" if self.insensitive else "(?s)"


def parse(pattern: str, insensitive: bool = False) -> Pattern:
    """Return the parsed pattern; 0A000 for one with an unsupported construct."""
    reader = _Reader(pattern, insensitive)
    body = reader.choice() if pattern else Sequence(())
    if reader.position != len(pattern):
        raise refused(pattern)
    return Pattern(pattern, insensitive, body, reader.groups, reader.knows_letters)


def refused(pattern: str) -> Exception:
    return unsupported(f"the regular expression {pattern!r}")


# Alphabetic in Unicode 16, and those of them that older versions did not call so.
_LETTER: Final = r"\p{IsAlphabetic}\x{363}-\x{36f}\x{c04}\x{f82}\x{f83}\x{1dd3}-\x{1de6}\x{11080}\x{11081}"
_WORD_JAVA: Final = rf"{_LETTER}0-9_"
# Unicode's White_Space.
_SPACE_JAVA: Final = r"\t\n\x{b}\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_SPACES_BEYOND: Final = frozenset({0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(0x2000, 0x200B)})

# By name: its form in a Java bracket, its characters, and those of its negation.
_CLASSES: Final = {
    "digit": ("0-9", Characters(_DIGITS, frozenset()), Characters(_ASCII_ALL & ~_DIGITS, None)),
    "space": (_SPACE_JAVA, Characters(_SPACE, _SPACES_BEYOND), Characters(_ASCII_ALL & ~_SPACE, None, _SPACES_BEYOND)),
    "word": (_WORD_JAVA, Characters(_WORD, None, _SPACES_BEYOND), Characters(_ASCII_ALL & ~_WORD, None)),
    "alpha": (_LETTER, Characters(_UPPER | _LOWER, None, _SPACES_BEYOND), _ANY),
    "alnum": (_LETTER + "0-9", Characters(_UPPER | _LOWER | _DIGITS, None, _SPACES_BEYOND), _ANY),
    "upper": (r"\p{IsUppercase}", Characters(_UPPER, None, _SPACES_BEYOND), _ANY),
    "lower": (r"\p{IsLowercase}\x{10fc}\x{ab69}", Characters(_LOWER, None, _SPACES_BEYOND), _ANY),
    "xdigit": ("0-9A-Fa-f", Characters(_mask("0123456789ABCDEFabcdef"), frozenset()), _ANY),
}
_OF_LETTERS: Final = frozenset({"word", "alpha", "alnum", "upper", "lower"})
_CASES: Final = frozenset({"upper", "lower"})
_SHORTHANDS: Final = {"d": "digit", "s": "space", "w": "word"}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
# With a letter outside the BMP, one of them: otherwise Java looks only one unit of UTF-16 behind.
_INSIDE: Final = f"[{_WORD_JAVA}\U00010000]"
_WORD_START: Final = f"(?<!{_INSIDE})(?={_INSIDE})"
_WORD_END: Final = f"(?<={_INSIDE})(?!{_INSIDE})"
_ANCHOR_ESCAPES: Final = {
    "A": Anchor(r"\A"),
    "Z": Anchor(r"\z", True),
    "m": Anchor(_WORD_START),
    "M": Anchor(_WORD_END),
    "y": Anchor(f"(?:{_WORD_START}|{_WORD_END})"),
}
_REPEAT_MAX: Final = 255  # DUPMAX
# Groups within groups: what looks at each group looks into it, too.
_DEPTH_MAX: Final = 50


class _Reader:
    """A recursive descent over the pattern."""

    def __init__(self, pattern: str, insensitive: bool) -> None:
        self.pattern = pattern
        self.insensitive = insensitive
        self.position = 0
        self.groups = self.depth = 0
        self.knows_letters = False
        if pattern.startswith("***"):
            raise refused(pattern)

    def _peek(self, length: int = 1) -> str:
        return self.pattern[self.position : self.position + length]

    def _next(self) -> str:
        found = self._peek()
        if not found:
            raise refused(self.pattern)
        self.position += 1
        return found

    def choice(self) -> Expression:
        branches = [self._branch()]
        while self._peek() == "|":
            self.position += 1
            branches.append(self._branch())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _branch(self) -> Expression:
        parts: list[Expression] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._quantified())
        if not parts:  # an empty branch or group
            raise refused(self.pattern)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quantified(self) -> Expression:
        body = self._atom()
        mark = self._peek()
        if not mark or mark not in "*+?{":
            return body
        self.position += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark) or self._bounds()
        greedy = self._peek() != "?"
        if not greedy:
            self.position += 1
        # A quantified anchor, a second quantifier.
        if isinstance(body, Anchor) or (self._peek() and self._peek() in "*+?{") or (least == most and not greedy):
            raise refused(self.pattern)
        if most != 1 and can_be_empty(body):  # Java does not try each way to repeat nothing
            raise refused(self.pattern)
        return Repeat(body, least, most, greedy)

    def _bounds(self) -> tuple[int, int | None]:
        text = ""
        while self._peek() != "}":
            text += self._next()
        self.position += 1
        low, comma, high = text.partition(",")
        if not all(part.isascii() and part.isdigit() for part in (low, *([high] if high else []))):
            raise refused(self.pattern)
        least = int(low)
        most = (int(high) if high else None) if comma else least
        # {m,m} counts as greedy where {m} does not; {0} makes a thing of nothing.
        if max(least, most or 0) > _REPEAT_MAX or most == 0 or (most is not None and comma and most <= least):
            raise refused(self.pattern)
        return least, most

    def _atom(self) -> Expression:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._bracket()
        if character == ".":
            return Atom(_ANY, ".")
        if character == "^":
            return Anchor(r"\A")
        if character == "$":
            return Anchor(r"\z", True)
        if character == "\\":
            return self._escape()
        if character in "*+?{})]":
            raise refused(self.pattern)
        return self._literal(character)

    def _group(self) -> Expression:
        number = None
        if self._peek(2) == "?:":
            self.position += 2
        elif self._peek() == "?":
            raise refused(self.pattern)
        else:
            self.groups += 1
            number = self.groups
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise refused(self.pattern)
        body = self.choice()
        self.depth -= 1
        if self._next() != ")":
            raise refused(self.pattern)
        return Group(body, number)

    def _escape(self) -> Expression:
        character = self._next()
        anchor = _ANCHOR_ESCAPES.get(character)
        if anchor is not None:
            self.knows_letters |= character in "mMy"
            return anchor
        name = _SHORTHANDS.get(character.lower())
        if name is not None:
            java, inside, outside = self._class(name)
            return Atom(inside, f"[{java}]") if character.islower() else Atom(outside, f"[^{java}]")
        return self._literal(self._escaped(character))

    def _escaped(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and not character.isalnum():
            return character
        raise refused(self.pattern)

    def _class(self, name: str) -> tuple[str, Characters, Characters]:
        if name not in _CLASSES or (self.insensitive and name in _CASES):
            raise refused(self.pattern)
        self.knows_letters |= name in _OF_LETTERS
        return _CLASSES[name]

    def _literal(self, character: str) -> Atom:
        self._check_case(character)
        return Atom(self._both_cases(_single(character)), literal(character))

    def _check_case(self, character: str) -> None:
        """Refuse characters outside ASCII with case: Java and PostgreSQL disagree about their other case."""
        if self.insensitive and not character.isascii():
            raise refused(self.pattern)

    def _both_cases(self, characters: Characters) -> Characters:
        if not self.insensitive:
            return characters
        letters = characters.ascii
        both = letters | (letters & _UPPER) << 32 | (letters & _LOWER) >> 32
        return Characters(both, characters.beyond, characters.without)

    def _bracket(self) -> Expression:
        negated = self._peek() == "^"
        if negated:
            self.position += 1
        java, found, is_first = "", NO_CHARACTERS, True
        while is_first or self._peek() != "]":
            if self._peek(2) == "[:":
                end = self.pattern.find(":]", self.position)
                if end < 0:
                    raise refused(self.pattern)
                item, characters, _ = self._class(self.pattern[self.position + 2 : end])
                self.position = end + 2
                self._refuse_range()
            elif self._peek() == "\\" and _SHORTHANDS.get(self._peek(2)[1:]):
                item, characters, _ = self._class(_SHORTHANDS[self._peek(2)[1]])
                self.position += 2
                self._refuse_range()
            else:
                item, characters = self._range(is_first)
            java, found, is_first = java + item, found | characters, False
        self.position += 1
        if not negated:
            return Atom(self._both_cases(found), f"[{java}]")
        return Atom(Characters(_ASCII_ALL & ~self._both_cases(found).ascii, None), f"[^{java}]")

    def _refuse_range(self) -> None:
        if self._peek() == "-" and self._peek(2) != "-]":
            raise refused(self.pattern)

    def _range(self, is_first: bool) -> tuple[str, Characters]:
        first = self._member(is_first)
        if self._peek() != "-" or self._peek(2) == "-]":
            return literal(first), _single(first)
        self.position += 1
        last = self._member(False)
        if last < first or (self._peek() == "-" and self._peek(2) != "-]"):
            raise refused(self.pattern)
        low, high = ord(first), ord(last)
        characters = Characters(sum(1 << code for code in range(low, min(high, 127) + 1)),
                                frozenset() if high < 128 else None)  # fmt: skip
        return f"{literal(first)}-{literal(last)}", characters

    def _member(self, is_first: bool) -> str:
        character = self._next()
        if character == "\\":
            character = self._escaped(self._next())
        elif (character == "[" and self._peek() in (".", "=", ":")) or (character == "-" and not is_first
                                                                          and self._peek() != "]"):  # fmt: skip
            raise refused(self.pattern)
        self._check_case(character)
        return character


def _single(character: str) -> Characters:
    code = ord(character)
    return Characters(1 << code, frozenset()) if code < 128 else Characters(0, frozenset({code}))


def literal(character: str) -> str:
    """Return the character itself, inside or outside of Java's brackets."""
    if not character.isascii() or character.isalnum() or character == " ":
        return character
    return "\\" + character if character.isprintable() else f"\\x{{{ord(character):x}}}"


def can_be_empty(expression: Expression) -> bool:
    """Whether the expression may match nothing."""
    match expression:
        case Atom():
            return False
        case Anchor():
            return True
        case Group(body=body):
            return can_be_empty(body)
        case Repeat(body=body, least=least):
            return least == 0 or can_be_empty(body)
        case Sequence(parts=parts):
            return all(can_be_empty(part) for part in parts)
        case Choice(branches=branches):
            return any(can_be_empty(branch) for branch in branches)


def java_of(expression: Expression, capturing: bool = False) -> str:
    """Return the expression for Java."""
    match expression:
        case Atom(java=java) | Anchor(java=java):
            return java
        case Group(body=body, number=number):
            opening = f"(?<g{number}>" if capturing and number is not None else "(?:"
            return f"{opening}{java_of(body, capturing)})"
        case Repeat(body=body, least=least, most=most, greedy=greedy):
            marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
            bounds = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
            # Possessive: see match_extents, which must allow it.
            manner = "?" if not greedy else "+" if most is None and isinstance(body, Group) else ""
            return java_of(body, capturing) + marks.get((least, most), bounds) + manner
        case Sequence(parts=parts):
            return "".join(java_of(part, capturing) for part in parts)
        case Choice(branches=branches):
            return "|".join(java_of(branch, capturing) for branch in branches)
