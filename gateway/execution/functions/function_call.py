"""The protocol's FunctionCall (PQfn): PostgreSQL calls the function, under the function guard.

Mostly drivers call PostgreSQL's own functions so, for large objects; those that run no code of users are passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from gateway.execution.constraints.constraint_validation import meet, obligations
from gateway.execution.shadow.function_guard import REFUSE_REWRITING, guarding
from gateway.wire.framing import HEADER_BYTES, Frame
from gateway.wire.messages.backend import ErrorResponse, ReadyForQuery
from planner.tree.references import RUNS_SQL

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_OID_BYTES: Final = 4
_KEPT_BYTES_MAX: Final = 2**20
# PostgreSQL's functions that read values of any type, of domains too, whose CHECKs may call functions of users.
_READERS: Final = frozenset(
    f"{kind}_{how}"
    for kind in ("array", "domain", "multirange", "range", "record")
    for how in ("in", "recv", "out", "send")
)


async def call_function(session: SessionContext, frame: Frame) -> None:
    """Send the message, and pass on its answers before ReadyForQuery. 0A000 if the function has used a lake table."""
    if session.backend.status == b"E" or not _runs_users(session, frame):
        await session.relay_query(frame.data)
        return
    await session.transaction.begin()
    async with guarding(session):
        answers = await _answers(session, frame)
    await session.backend.run(REFUSE_REWRITING)
    if wanted := await obligations(session):
        await meet(session, wanted)
    await _pass_on(session, answers)


def _runs_users(session: SessionContext, frame: Frame) -> bool:
    oid = int.from_bytes(frame.data[HEADER_BYTES : HEADER_BYTES + _OID_BYTES], "big")
    known = session.gateway.builtins.functions.get(oid)
    return oid >= FIRST_USER_OID or (known is not None and known.name in RUNS_SQL | _READERS)


async def _answers(session: SessionContext, frame: Frame) -> list[Frame]:
    """Those before ReadyForQuery. Raises the error of the function, behind its notices."""
    await session.client.settle()
    session.backend.send(frame.data)
    found, error, size = list[Frame](), None, 0
    while True:
        item = await session.next_item()
        assert isinstance(item, Frame), "a function call gives no rows"
        if item.type == ReadyForQuery.type:
            break
        if item.type == ErrorResponse.type:
            error = (await session.encoding.read(ErrorResponse, item)).to_error()
        else:
            found.append(item)
            size += len(item.data)
        if size > _KEPT_BYTES_MAX:  # many notices: they come before the function is known to have used no lake table
            await _pass_on(session, found)
    if error is not None:
        await _pass_on(session, found)
        raise error
    return found


async def _pass_on(session: SessionContext, answers: list[Frame]) -> None:
    for answer in answers:
        await session.pass_on(answer)
    answers.clear()
