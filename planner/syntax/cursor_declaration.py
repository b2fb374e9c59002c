"""What the text of DECLARE says of its cursor."""

from __future__ import annotations

import itertools

from planner.syntax.lexer import Kind, tokens
from planner.syntax.statements import Statement


def holds(statement: Statement) -> bool:
    """Whether DECLARE says WITH HOLD: the cursor outlives its transaction."""
    words = (token.text if token.kind is Kind.WORD else "" for token in tokens(statement.text))
    return ("with", "hold") in itertools.pairwise(itertools.takewhile(lambda word: word != "for", words))
