"""SQL of the gateway's that reaches a client's backend means the same whatever the client's search path is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from planner.syntax.fixed_names import loose_name

_ROOT: Final = Path(__file__).parents[2]
# These ask over the gateway's own connections, whose path is set at login (catalog/postgres/own_settings.py).
_OWN_CONNECTIONS: Final = frozenset({"schema_changes.py", "check.py"})
_QUERY: Final = re.compile(r"\s*(?:SELECT|WITH|DELETE FROM|UPDATE|FROM ROWS)\s")
# Parts that are not known here stand for names; what is SQL of Spark's, or has its names filled in, is left out.
_LEFT_OUT: Final = re.compile(r"FROM (?:sampled|clustered)|\{\}")


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text())
    parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in parts or id(node) in docs:
            continue
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "$1" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_statements_at_clients_backends() -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{line}: {loose}"
        for path in sorted((_ROOT / "gateway").rglob("*.py"))
        if path.name not in _OWN_CONNECTIONS
        for line, text in _texts(path)
        if _QUERY.match(text) and not _LEFT_OUT.search(text) and (loose := loose_name(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_sluice.stage($1::jsonb)",
        "SELECT pg_sluice.lock_tables($1::oid[], $2, $3)",
        'SELECT $1::"char"',
        "SELECT now()",
        "SELECT coalesce(bool_and(true), false)",
        "SELECT 1 + 1",
        "SELECT FROM pg_catalog.pg_class WHERE oid = $1",
        "SELECT FROM pg_catalog.pg_class WHERE relkind IN ('r')",
        "SELECT FROM pg_catalog.pg_class WHERE relname LIKE 'a'",
        "SELECT 1 BETWEEN 0 AND 2",
        "SELECT nullif($1, '')",
        "SELECT CASE $1 WHEN 'a' THEN 1 END",
        "SELECT $1 IS DISTINCT FROM $2",
        "SELECT FROM pg_class",
        "SELECT FROM pg_catalog.pg_class JOIN pg_catalog.pg_index USING (oid)",
        "DELETE FROM shadow",
        'DELETE FROM "only"',
        """SELECT CASE 'when' WHEN 'a' THEN 1 END""",
    ],
)
def test_what_the_path_resolves_is_found(sql: str) -> None:
    assert loose_name(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pg_sluice.stage($1::pg_catalog.jsonb)",
        "SELECT * FROM pg_sluice.noted_updates()",
        "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) ANY ($1::bigint[])",
        "SELECT (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000)::bigint",
        "WITH RECURSIVE a (oid) AS (SELECT 1 UNION SELECT 2 FROM a) SELECT oid FROM a AS b (oid)",
        'SELECT (kept)."from", (kept)."case" FROM pg_sluice.shadow_7',
        """SELECT 'update' AS "into", 'case' AS "join" FROM pg_sluice.shadow_7""",
    ],
)
def test_what_the_path_does_not_resolve_is_not(sql: str) -> None:
    assert loose_name(sql) is None
