"""Patterns of LIKE and SIMILAR TO, rewritten for Spark: as its LIKE and as regular expressions."""

from __future__ import annotations

from catalog.errors import unsupported


def like_pattern(pattern: str) -> str | None:
    """Return the pattern with escapes only where Spark allows them; None if it ends in a lone escape."""
    result = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            following = next(characters, None)
            if following is None:
                return None
            result.append("\\" + following if following in "\\%_" else following)
        else:
            result.append(character)
    return "".join(result)


def regular_expression(pattern: str) -> str | None:
    """Return a regular expression of Java's for a `like_pattern` with several %, None for another.

    Spark makes `.*` of each %, so a text that does not match takes as many steps as its length to the power of their
    number. Here each part between two % is looked for once, from the left: what follows it matches behind its first
    place, if behind any. So its group is atomic.
    """
    parts, characters = [""], iter(pattern)
    for character in characters:
        if character == "%":
            parts.append("")
        else:
            parts[-1] += "." if character == "_" else _literal(next(characters) if character == "\\" else character)
    if len(parts) == 1:
        return None
    first, *middle, last = parts
    middle = [part for part in middle if part]
    if not middle or (len(middle) == 1 and not (first or last) and "_" not in pattern):
        return None  # Spark compares the ends, or looks for the one part
    inner = "".join(f"(?>.*?{part})" for part in middle)
    return rf"(?s)\A{first}{inner}" + (rf".*{last}\z" if last else "")


def _literal(character: str) -> str:
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"


def similar_pattern(pattern: str, escape: str) -> str:
    """Return the regular expression that `similar_to_escape` makes of the pattern; an empty `escape` is none."""
    if len(escape) > 1:
        raise unsupported("SIMILAR TO with an escape of several characters")
    result, position = "^(?:", 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if escape and character == escape:
            following = pattern[position : position + 1]
            # A quote would divide the pattern into three; a letter would mean what it means after a backslash.
            if not following or following == '"' or following.isalnum():
                raise unsupported(f"the pattern {pattern!r} of SIMILAR TO")
            result += "\\" + following
            position += 1
        elif character == "[":
            end = pattern.find("]", position + 1)
            inside = pattern[position:end]
            if end < 0 or "\\" in inside or "[" in inside or (escape and escape in inside):
                raise unsupported(f"the pattern {pattern!r} of SIMILAR TO")
            result += f"[{inside}]"
            position = end + 1
        else:
            result += _SIMILAR.get(character, character)
    return result + ")$"


_SIMILAR = {"%": ".*", "_": ".", "(": "(?:", "\\": "\\\\", ".": r"\.", "^": r"\^", "$": r"\$"}
