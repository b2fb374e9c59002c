"""A transaction of the gateway's that is one message to PostgreSQL, from BEGIN to COMMIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SluiceError
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.transaction.transaction import BEGIN, COMMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gateway.backend.connection import Backend, Result
    from gateway.transaction.transaction import Transaction


async def run_at_once(
    transaction: Transaction, backend: Backend, statements: Sequence[Statement], given_up: Collection[str]
) -> list[Result] | None:
    """Run statements that stage nothing and read no lake table in a transaction of their own, in one round trip.

    Raises their error, or that of COMMIT. None if they fail with one of the SQLSTATEs `given_up`.
    """
    assert not transaction.open
    try:
        _, *answers, _ = await backend.run(BEGIN, *statements, COMMIT)
    except BackendLostError:
        raise
    except SluiceError as error:
        was_undone = backend.status == b"E"
        await transaction.roll_back()
        if was_undone and error.sqlstate in given_up:
            return None
        raise
    await transaction.ended(committed=True)
    return answers
