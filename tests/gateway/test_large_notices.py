"""Of large notices during an analysis, what nobody gets is not read."""

from __future__ import annotations

import pytest

from gateway.backend.analysis import _large_notice
from gateway.backend.messages_aside import PRINTED_BY
from gateway.wire.framing import TREE_MESSAGE
from gateway.wire.messages.backend import NoticeResponse

_FILE, _ROUTINE = PRINTED_BY
_TREE = "({QUERY :commandType 1 :args ({CONST :consttype 23})})"
_CONTEXT = ("W", "PL/pgSQL function f(integer) line 1 at RAISE")


def _detail(level: str, message: str, *others: tuple[str, str]) -> str:
    fields = (("S", level), ("V", level), ("C", "00000"), ("M", message), ("D", _TREE), *others)
    notice, tree = _large_notice(NoticeResponse(fields).encode())
    return tree.text if tree else dict(notice.fields)["D"]


def test_the_statements_own_tree_is_read() -> None:
    assert _detail("LOG", TREE_MESSAGE, ("F", _FILE), ("L", "72"), ("R", _ROUTINE)) == _TREE


@pytest.mark.parametrize(
    "others",
    [
        [_CONTEXT, ("F", _FILE), ("L", "72"), ("R", _ROUTINE)],
        [_CONTEXT, ("F", "pl_exec.c"), ("L", "3917"), ("R", "exec_stmt_raise")],
        [("F", "pl_exec.c"), ("L", "3917"), ("R", "exec_stmt_raise")],
    ],
    ids=["of a function's statement", "forged", "forged, without a context"],
)
def test_other_trees_are_not_read(others: list[tuple[str, str]]) -> None:
    assert _detail("LOG", TREE_MESSAGE, *others) == ""


def test_what_the_client_gets_is_read() -> None:
    assert _detail("NOTICE", "a message", _CONTEXT) == _TREE
