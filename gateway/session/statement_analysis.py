"""Analyses a client's statement, unless its transaction is doomed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from catalog.errors import SluiceError
from gateway.backend.analysis import NOTHING, Analysis, Following, analyse
from gateway.backend.connection import BackendLostError
from gateway.session.cancel_listener import check
from gateway.session.offload import offloaded
from planner.syntax.statements import explaining

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


async def analysed(
    session: SessionContext,
    sql: str,
    *,
    name: str = "",
    parameter_types: tuple[int, ...] = (),
    sync: bool,
    following: Following = NOTHING,
) -> Analysis:
    """The analysis of a client's statement; raises if its transaction is doomed."""
    enlistment, begun = session.transaction.enlistment, asyncio.get_running_loop().time()
    try:
        asked = await offloaded(session, len(sql), explaining, sql) or sql
        analysis = await analyse(
            session.backend, asked, name=name, parameter_types=parameter_types, sync=sync, following=following
        )
        analysis.sql = sql
    except BackendLostError:
        raise
    except SluiceError as error:
        raise await enlistment.cause(error) from error
    if session.deadline is None and analysis.timeout is not None:
        session.deadline = begun + analysis.timeout
    check(session)
    await enlistment.judge(analysis.mark)
    return analysis
