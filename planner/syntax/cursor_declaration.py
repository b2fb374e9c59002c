"""What the text of DECLARE says of its cursor."""

from __future__ import annotations

import itertools

from planner.syntax.lexer import tokens
from planner.syntax.statements import Statement


def holds(statement: Statement) -> bool:
    """Whether DECLARE says WITH HOLD: the cursor outlives its transaction."""
    words = itertools.takewhile(lambda word: word != "for", (token.text for token in tokens(statement.text)))
    return ("with", "hold") in itertools.pairwise(words)
