"""A statement of the gateway's own, as its backend is to carry it out; a client's, where the gateway executes it so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Statement:
    """A statement of the gateway: its text with $n, and parameters in text format (None for NULL).

    With `bodies_only`, `take` gets parts of the rows as they come, including all before an error; the result has the
    last part. A `lasting` statement has an effect that must last until the transaction ends
    (gateway/transaction/transactional_ddl.py).

    A statement `of_client` keeps the context of its errors. With `prepared`, that prepared statement of the client is
    executed, in place of the text. A COPY … FROM STDIN has few rows with it: the CopyData messages `copied`.
    """

    sql: str
    parameters: Sequence[str | bytes | None] = ()
    parameter_types: Sequence[int] = ()
    parameter_formats: Sequence[int] = ()
    result_format: int = 0
    bodies_only: bool = False
    take: Callable[[list[bytes]], Awaitable[None]] | None = None
    lasting: bool = False
    of_client: bool = False
    prepared: str | None = None
    copied: bytes = b""
