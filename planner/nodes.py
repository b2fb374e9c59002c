"""Reads PostgreSQL's node text: the form of `debug_print_rewritten`, pg_node_tree columns and `nodeToString`.

Contract: `parse(text)` gives an immutable tree or raises XX000; it never hangs and never guesses. Values:

- `{TYPE :field value …}`: `Node`
- `(a b …)`: tuple; `(i 1 2)`, `(o 1 2)`: tuple of int; `(b 1 2)`: `Bitmapset`
- `<>`: None; `"text"`: str; `true`, `false`: bool; whole numbers: int; anything else: str, escapes undone
- `4 [ 1 0 0 0 0 0 0 0 ]`: bytes, of the length that stands before the bracket

Source: PostgreSQL 18, src/backend/nodes/{read,readfuncs,outfuncs,print}.c. The tree of PostgreSQL 18 is meant; field
names are those of its headers nodes/parsenodes.h and nodes/primnodes.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from catalog.errors import SluiceError, SqlState

# print.c, format_node_dump: a line ends at a blank, which is lost, or, where it has none, after this many bytes.
_LINE_LENGTH: Final = 78

# A token ends at a blank or a bracket that is not escaped (read.c, pg_strtok).
_TOKEN: Final = re.compile(
    r"(\d+) \[ ((?:-?\d+ )*)\]"  # 1, 2: a datum
    r"|:(?:base\.)?([A-Za-z_]\w*)(?= )"  # 3: a field's name, perhaps of the node that this one begins with
    r"|(-?\d+)(?=[ \n)}]|$)"  # 4: a whole number
    r"|\{([A-Z][A-Z_0-9]*)"  # 5: a node begins
    r"|([(){}])"  # 6: brackets
    r"|(<>)"  # 7: nothing
    r'|"((?:[^"\\]|\\.)*)"(?=[ \n)}]|$)'  # 8: a string in a list
    r"|((?:[^\s(){}\\]|\\.)+)",  # 9: a bare word
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
# Strings in quotes that go on, and those that are whole, whatever brackets follow.
_BEGUN: Final = re.compile(r'"(?:[^"\\]|\\.)*', re.DOTALL)
_ENDED: Final = re.compile(r'"(?:[^"\\]|\\.)*"[(){}]*', re.DOTALL)
_DEPTH_MAX: Final = 5000
# Nodes of what is not analysed yet (EXECUTE's arguments) that may begin with a word that belongs to no field.
_WITH_KIND: Final = frozenset({"A_CONST", "A_EXPR"})


class Bitmapset(frozenset[int]):
    """A set of whole numbers, such as attribute numbers or range table indexes."""

    __slots__ = ()


class Node:
    """A node: its type's name in capitals and its fields, read as attributes. Compared by content."""

    __slots__ = ("fields", "type")

    def __init__(self, type: str, fields: dict[str, Any]) -> None:
        self.type = type
        self.fields = fields

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
        """The same node with some fields changed."""
        return Node(self.type, {**self.fields, **fields})


def malformed(what: str) -> SluiceError:
    """The error for a tree that is not what PostgreSQL 18 writes."""
    return SluiceError(SqlState.INTERNAL_ERROR, f"cannot read PostgreSQL's parse tree: {what}")


def parse(text: str) -> Any:  # noqa: C901
    """The tree that `text` describes, be it wrapped into lines or not."""
    text = _unwrapped(text)
    # Each open bracket is a frame: (kind, content, name of the field awaiting its value).
    stack: list[tuple[str, Any, Any]] = []
    node: dict[str, Any] | None = None  # the fields of the innermost bracket where that is a node
    items: list[Any] | None = None  # its elements where that is a list
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
        found = match(text, position)
        if found is None or done:
            raise malformed(f"at character {position}")
        position = found.end()
        value: Any
        group = found.lastindex
        if group == 3 and (name is None or node is None or name in node):
            if node is None:
                raise malformed(f"a field outside a node, at character {found.start()}")
            name = found.group(3)
            continue
        if group == 4:
            value = int(found.group(4))
        elif group == 5:
            stack.append((kind, node if items is None else items, name))
            if len(stack) > _DEPTH_MAX:
                raise malformed("it is nested too deeply")
            kind, node, items, name = found.group(5), {}, None, None
            continue
        elif group == 6:
            bracket = found.group(6)
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
            elif bracket == ")" and items is not None:
                value = _sequence(items)
            else:
                raise malformed(f"a bracket out of place, at character {found.start()}")
            kind, content, name = stack.pop()
            if isinstance(content, list):
                node, items = None, content
            else:
                node, items = content, None
        elif group == 7:
            value = None
        elif group == 2:
            value = _datum(found.group(1), found.group(2))
        elif group == 8:
            value = _ESCAPE.sub(r"\1", found.group(8))
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
    return result


def _unwrapped(text: str) -> str:
    if "\n" not in text:
        return text
    lines = text.strip("\n").split("\n")
    parts: list[str] = []
    begun = ""  # a string in quotes, as far as lines without a blank have it
    for line in lines[:-1]:
        parts.append(line)
        if " " in line[1:] or len(line.encode()) < _LINE_LENGTH:
            begun = ""
        else:
            begun += line.lstrip("( ")
            if _BEGUN.fullmatch(begun):
                continue
            # Neither of a word nor behind an escape is it known whether there was a blank.
            if not _ENDED.fullmatch(begun):
                raise malformed("a name in it is too long to tell where the line was broken")
            begun = ""
        parts.append(" ")
    return "".join([*parts, lines[-1]])


def _datum(length: str, content: str) -> bytes:
    try:
        data = bytes(number & 0xFF for number in map(int, content.split()) if -128 <= number <= 255)
    except ValueError:
        raise malformed("a constant") from None
    size = int(length)
    # A value passed by value is written as the eight bytes of a Datum, whatever its length is.
    if size > len(data):
        raise malformed("a constant shorter than its length")
    return data[:size] if size else data


def _sequence(items: list[Any]) -> Any:
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
    return _Word(_ESCAPE.sub(r"\1", text) if "\\" in text else text)


def _more(before: Any, value: Any) -> Any:
    """Some arrays are written without brackets (a list of columns of an expanded partition, say)."""
    return (*before, value) if isinstance(before, _Run) else _Run((before, value))


class _Run(tuple[Any, ...]):
    """Values that follow one field's name without brackets."""

    __slots__ = ()


def text(value: Any) -> str | None:
    """A field that holds a name: PostgreSQL writes names bare, so `true` and `false` come as bool."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def name_of(value: Any) -> str:
    """A field that holds the name of something that must have one."""
    found = text(value)
    if found is None:
        raise malformed("a name is missing")
    return found


def walk(tree: Any) -> Iterator[Node]:
    """Every node of the tree, outermost first."""
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, Node):
            yield item
            pending.extend(item.fields.values())
        elif isinstance(item, tuple):
            pending.extend(item)
