"""ALTER TABLE, as far as its text is needed: by which expressions columns get another type.

Pure. What a statement does is PostgreSQL's to say; the text of USING is not in any of its catalogs.
Source: PostgreSQL documentation, "ALTER TABLE".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.lexer import Kind, Token, tokens


def using_expressions(text: str) -> dict[str, str]:
    """The USING of each `ALTER [COLUMN] name [SET DATA] TYPE … USING expression`, by the column's name."""
    found = {}
    for clause in _clauses([token for token in tokens(text) if token.text != ";" or token.kind is not Kind.SYMBOL]):
        words = [token.text if token.kind is Kind.WORD else "" for token in clause]
        place = 2 if words[1:2] == ["column"] and words[2:3] != ["type"] else 1
        if words[:1] != ["alter"] or not {("type",), ("set", "data")} & {tuple(words[place + 1 :][:n]) for n in (1, 2)}:
            continue
        for token in clause[place + 2 :]:
            if token.kind is Kind.WORD and token.text == "using" and token.depth == clause[0].depth:
                found[clause[place].text] = text[token.end : clause[-1].end].strip()
                break
    return found


def refers(text: str) -> bool:
    """Whether a change of a schema may add a foreign key."""
    return any(token.kind is Kind.WORD and token.text == "references" for token in tokens(text))


def _clauses(items: Sequence[Token]) -> Iterator[list[Token]]:
    """What stands between the commas of ALTER TABLE, the first one without what precedes it."""
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
