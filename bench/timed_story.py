"""Run a module that talks to a server by psycopg, and write down how long each statement took.

`python -m bench.timed_story FILE MODULE ARGUMENT…`: FILE gets JSON, a list of [kind, seconds]. A kind is a statement's
first words, or COMMIT and ROLLBACK as the driver sends them.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

# Words of a kind: those before the name of a table or another object.
_WORDS: Final = 3
_OF_CHANGES: Final = frozenset({"CREATE", "ALTER", "DROP", "TRUNCATE", "COMMENT"})
_ALTERED: Final = re.compile(r"ALTER\s+TABLE\s+\S+\s+(\w+\s+\w+)", re.IGNORECASE)


def kind_of(statement: str) -> str:
    """Return the words that tell what a statement does, without names."""
    altered = _ALTERED.match(statement.lstrip())
    if altered is not None:
        return f"ALTER TABLE … {altered[1].upper()}"
    words = statement.upper().split()[:_WORDS]
    if words[:1] and words[0] in _OF_CHANGES:
        return " ".join(words[: 3 if words[1:2] == ["UNIQUE"] else 2])
    return words[0] if words else ""


def main(file: str, module: str, *arguments: str) -> None:
    """Time what psycopg is asked to send while the module runs."""
    taken: list[tuple[str, float]] = []

    def timed(of: type, name: str, kind: Callable[..., str]) -> None:
        plain = getattr(of, name)

        def execute(self: Any, *given: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return plain(self, *given, **named)
            finally:
                taken.append((kind(*given), time.perf_counter() - begin))

        setattr(of, name, execute)

    def said(query: Any, *_: object) -> str:
        return kind_of(query if isinstance(query, str) else query.decode() if isinstance(query, bytes) else str(query))

    timed(psycopg.Cursor, "execute", said)
    timed(psycopg.Cursor, "executemany", said)
    timed(psycopg.Connection, "commit", lambda *_: "COMMIT")
    timed(psycopg.Connection, "rollback", lambda *_: "ROLLBACK")
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")
    Path(file).write_text(json.dumps(taken))


main(*sys.argv[1:])
