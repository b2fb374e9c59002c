"""Reader of PostgreSQL's node text: the form of `debug_print_rewritten`, pg_node_tree columns and `nodeToString`.

Contract: `parse(text)` returns an immutable tree or raises XX000; it never hangs and never guesses. Values:

- `{TYPE :field value …}`: `Node`
- `(a b …)`: tuple; `(i 1 2)`, `(o 1 2)`: tuple of int; `(b 1 2)`: `Bitmapset`
- `<>`: None; `"text"`: str; `true`, `false`: bool; whole numbers: int; anything else: str, escapes undone
- `4 [ 1 0 0 0 0 0 0 0 ]`: bytes, of the length that stands before the bracket

Source: PostgreSQL 18, src/backend/nodes/{read,readfuncs,outfuncs,print}.c. The tree is PostgreSQL 18's; field names are
those of its headers nodes/parsenodes.h and nodes/primnodes.h.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, TypeVar

from planner.tree.compact_tree import TreeText, kept_constant
from planner.tree.large_trees import Remains
from planner.tree.long_tokens import LENGTH_MAX, read_long, unescaped
from planner.tree.tree_text import datum, unwrapped
from planner.tree.tree_text import malformed as malformed  # noqa: PLC0414  the error for a tree is the reader's to offer

_T = TypeVar("_T")

# A token ends at a blank or a bracket that is not escaped (read.c, pg_strtok).
_TOKEN: Final = re.compile(
    r"(\d+) \[ (?=[-\d\]#])"  # 1: a datum begins
    r"|:(?:[a-z]+\.)*([A-Za-z_]\w*)(?= )"  # 2: a field's name, perhaps of the node that this one begins with
    r"|(-?\d+)(?=[ \n)}]|$)"  # 3: a whole number
    r"|\{([A-Z][A-Z_0-9]*)"  # 4: a node begins
    r"|([(){}])"  # 5: brackets
    r"|(<>)"  # 6: nothing
    r'|"((?:[^"\\]|\\.|"(?![ \n)}]|$))*)"(?=[ \n)}]|$)'  # 7: a string in a list
    r"|((?:[^\s(){}\\]|\\.)+)",  # 8: a bare word
    re.DOTALL,
)
# A whole constant, by far the most frequent node of large statements. 1: the common part of similar constants, 2: its
# place, 3, 4: the length of its datum and its numbers, if they are few.
_CONST: Final = re.compile(
    r"(\{CONST :consttype \d+ :consttypmod -?\d+ :constcollid \d+ :constlen -?\d+ :constbyval (?:true|false)"
    r" :constisnull (?:true|false)) :location (-?\d+) :constvalue (?:<>\}|(\d+) \[ (?:((?:-?\d+ ){0,64})\]\})?)"
)
# What int() reads; a longer number is a word.
_DIGITS_MAX: Final = 4_000
# More than PostgreSQL's own stack has room for.
_DEPTH_MAX: Final = 100_000
# Characters of a tree whose nodes take milliseconds to free.
_LARGE: Final = 1 << 20
# Nodes of unanalysed trees (EXECUTE's arguments) that may begin with a word that belongs to no field.
_WITH_KIND: Final = frozenset({"A_CONST", "A_EXPR"})


class Bitmapset(frozenset[int]):
    """A set of whole numbers, such as attribute numbers or range table indexes."""

    __slots__ = ()


class Node:
    """A node: its type's name in capitals and its fields, read as attributes. Compared by content."""

    __slots__ = ("facts", "fields", "type")

    def __init__(self, type: str, fields: dict[str, Any]) -> None:
        self.type = type
        self.fields = fields
        self.facts: dict[Any, Any] | None = None  # of a query: see `remembered`

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise malformed(f"a {self.type} node without {name}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.type == other.type and self.fields == other.fields

    def __hash__(self) -> int:
        return hash((self.type, len(self.fields)))

    def __repr__(self) -> str:
        return f"{{{self.type} {' '.join(f':{name} {value!r}' for name, value in self.fields.items())}}}"

    def replaced(self, **fields: Any) -> Node:
        """Return the same node with some fields changed."""
        return Node(self.type, {**self.fields, **fields})


class Const(Node):
    """A constant. Its fields are read on first use."""

    __slots__ = ("_common", "_content", "_length", "_location", "_read")

    def __init__(self, common: dict[str, Any], location: str, length: str | None, content: str | bytes) -> None:
        self.type = "CONST"
        self._common = common
        self._location = location
        self._length = length
        self._content = content
        self._read: dict[str, Any] | None = None

    @property
    def fields(self) -> dict[str, Any]:  # type: ignore[override]
        if self._read is None:
            value = None if self._length is None else datum(self._length, self._content)
            self._read = {**self._common, "location": int(self._location), "constvalue": value}
            self._content = ""
        return self._read

    def __getattr__(self, name: str) -> Any:
        return self._common[name] if name in self._common else super().__getattr__(name)


def parse(tree: str | TreeText) -> Any:  # noqa: C901
    """Return the tree that its text describes, wrapped into lines or not."""
    text, kept = (tree.text, tree.kept) if isinstance(tree, TreeText) else (tree, ())
    text = unwrapped(text)
    commons: dict[str, dict[str, Any]] = {}
    nodes: list[Node] | None = [] if len(text) >= _LARGE else None
    # Each open bracket is a frame: (kind, content, name of the field awaiting its value).
    stack: list[tuple[str, Any, Any]] = []
    node: dict[str, Any] | None = None  # the fields, if the innermost bracket is a node
    items: list[Any] | None = None  # its elements, if that is a list
    name: str | None = None
    kind = ""
    result: Any = None
    done = False
    position, end = 0, len(text)
    match = _TOKEN.match
    while position < end:
        if text[position] in " \n\t":
            position += 1
            continue
        found = match(text, position, position + LENGTH_MAX)
        if found is None or done:
            raise malformed(f"at character {position}")
        value: Any
        group = found.lastindex
        begin, position = position, found.end()
        if position >= begin + LENGTH_MAX - 1 or (group == 8 and text[begin] == '"'):
            value, position, is_string = read_long(text, begin)
            value, group = value if is_string else _Word(value), None
        elif group == 2 and (name is None or node is None or name in node):
            if node is None:
                raise malformed(f"a field outside a node, at character {found.start()}")
            name = found.group(2)
            continue
        elif group == 3:
            value = int(found.group(3)) if position - begin < _DIGITS_MAX else _Word(found.group(3))
        elif group == 4:
            if found.group(4) == "CONST" and (const := _const(text, found.start(), commons, kept)) is not None:
                value, position = const
                if nodes is not None:
                    nodes.append(value)
            else:
                stack.append((kind, node if items is None else items, name))
                if len(stack) > _DEPTH_MAX:
                    raise malformed("it is nested too deeply")
                kind, node, items, name = found.group(4), {}, None, None
                continue
        elif group == 5:
            bracket = found.group(5)
            if bracket == "(":
                stack.append((kind, node if items is None else items, name))
                if len(stack) > _DEPTH_MAX:
                    raise malformed("it is nested too deeply")
                kind, node, items, name = "(", None, [], None
                continue
            if bracket == "}" and node is not None:
                if name is not None and name not in node:
                    raise malformed(f"the field {name} has no value")
                value = Node(kind, node)
                if nodes is not None:
                    nodes.append(value)
            elif bracket == ")" and items is not None:
                value = _sequence(items)
            else:
                raise malformed(f"a bracket out of place, at character {found.start()}")
            kind, content, name = stack.pop()
            if isinstance(content, list):
                node, items = None, content
            else:
                node, items = content, None
        elif group == 6:
            value = None
        elif group == 1:
            value, position = _datum(text, found.group(1), position, kept)
        elif group == 7:
            value = unescaped(found.group(7))
        else:  # a word, or a name that looks like a field's where a value must stand
            value = _word(found.group(0))
        if items is not None:
            items.append(value)
        elif node is not None:
            if name is None and not node and kind in _WITH_KIND:
                node["kind"] = value
                continue
            if name is None:
                raise malformed(f"a value without a field, at character {found.start()}")
            node[name] = value if name not in node else _more(node[name], value)
        else:
            result, done = value, True
    if stack or not done:
        raise malformed("it ends too early")
    if nodes:
        root = nodes.pop()
        root.facts = {Remains: Remains(nodes)}
    return result


def _const(
    text: str, place: int, commons: dict[str, dict[str, Any]], kept: tuple[bytes, ...]
) -> tuple[Const, int] | None:
    """Return the constant that begins there, and where it ends; None if it does not have a constant's form."""
    found = _CONST.match(text, place)
    if found is None:
        return None
    head, location, length, content = found.groups()
    end = found.end()
    if length is not None and content is None:
        close = text.find("]", end)
        if close < 0 or text[close : close + 2] != "]}":
            return None
        content, end = text[end:close], close + 2
    common = commons.get(head)
    if common is None:
        words = head.split()[1:]
        pairs = zip(words[::2], words[1::2], strict=True)
        common = commons[head] = {name[1:]: _word(word) if word[0] in "tf" else int(word) for name, word in pairs}
    return Const(common, location, length, kept_constant(content or "", kept)), end


def _datum(text: str, length: str, place: int, kept: tuple[bytes, ...]) -> tuple[bytes, int]:
    """Return the bytes of a datum up to the bracket, and where that is."""
    close = text.find("]", place)
    if close < 0 or (close > place and text[close - 1] != " "):
        raise malformed("a constant")
    return datum(length, kept_constant(text[place:close], kept)), close + 1


class Constants(tuple[Any, ...]):
    """A list of only constants and client parameters, or lists of these: rows of VALUES, the elements of IN."""

    __slots__ = ()


_CONSTANT: Final = frozenset({Const, Constants})
_PARAM_EXTERN: Final = 0


def _is_constant(item: Any) -> bool:
    kind = type(item)
    return kind in _CONSTANT or (kind is Node and item.type == "PARAM" and item.paramkind == _PARAM_EXTERN)


def _sequence(items: list[Any]) -> Any:
    if items and _is_constant(items[0]):
        alike = _CONSTANT.issuperset(map(type, items)) or all(map(_is_constant, items))
        return Constants(items) if alike else tuple(items)
    if items and isinstance(items[0], str) and items[0] in _NUMBER_LISTS and type(items[0]) is _Word:
        numbers = items[1:]
        if not all(type(number) is int for number in numbers):
            raise malformed("a list of numbers")
        return Bitmapset(numbers) if items[0] == "b" else tuple(numbers)
    return tuple(items)


class _Word(str):
    """A bare word, as opposed to a string in quotes."""

    __slots__ = ()


_NUMBER_LISTS: Final = frozenset({"i", "o", "b", "x"})


def _word(text: str) -> Any:
    if text == "true":
        return True
    if text == "false":
        return False
    return _Word(unescaped(text))


def _more(before: Any, value: Any) -> Any:
    """Append to an array without brackets (a list of columns of an expanded partition, say)."""
    return (*before, value) if isinstance(before, _Run) else _Run((before, value))


class _Run(tuple[Any, ...]):
    """Values that follow one field's name without brackets."""

    __slots__ = ()


def text(value: Any) -> str | None:
    """Return a field that holds a name: PostgreSQL writes names bare, so `true` and `false` come as bool."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def name_of(value: Any) -> str:
    """Return a field that holds the name of something that must have one."""
    found = text(value)
    if found is None:
        raise malformed("a name is missing")
    return found


def walk(tree: Any) -> Iterator[Node]:
    """Yield every node of the tree, outermost first, except those in lists of only constants and parameters."""
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, Node):
            yield item
            if type(item) is not Const:  # it contains no nodes
                pending.extend(item.fields.values())
        elif isinstance(item, tuple) and type(item) is not Constants:
            pending.extend(item)


def remembered(asked: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """Cache the result of a function that reads all nodes of a query, in the query."""

    @wraps(asked)
    def answer(tree: Any) -> _T:
        if not isinstance(tree, Node) or tree.type != "QUERY":
            return asked(tree)
        if tree.facts is None:
            tree.facts = {}
        if asked not in tree.facts:
            tree.facts[asked] = asked(tree)
        found: _T = tree.facts[asked]
        return found

    return answer


def constants(tree: Any) -> Iterator[Node]:
    """Yield every constant of the tree, and every parameter."""
    pending = [tree]
    while pending:
        item = pending.pop()
        if type(item) is Const or (isinstance(item, Node) and item.type == "PARAM"):
            yield item
        elif isinstance(item, Node):
            pending.extend(item.fields.values())
        elif isinstance(item, tuple):
            pending.extend(item)
