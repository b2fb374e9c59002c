"""The parameters of a Bind, read by PostgreSQL itself: it says what is wrong with them, or writes them canonically."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.datatypes import BYTEA
from gateway.backend import Backend, Statement
from planner.plan import Parameter

_STYLES: Final = "SELECT set_config('DateStyle', $1, true), set_config('IntervalStyle', $2, true)"


async def canonical_parameters(
    backend: Backend,
    types: Sequence[int],
    values: Sequence[bytes | None],
    formats: Sequence[int],
    *,
    sync: bool = False,
) -> tuple[Parameter, ...]:
    """Each value as text in DateStyle ISO, IntervalStyle postgres and bytea hex.

    Without `sync` the implicit transaction stays open. Raises PostgreSQL's own error for what is no value of its type.
    """
    if not types:
        return ()
    expressions = ", ".join(
        f"'\\x' || encode(${number}, 'hex')" if type_oid == BYTEA else f"${number}::text"
        for number, type_oid in enumerate(types, 1)
    )
    read = Statement(f"SELECT {expressions}", values, types, formats)
    dates, intervals = backend.parameters.get("DateStyle", ""), backend.parameters.get("IntervalStyle", "")
    if dates.startswith("ISO") and intervals == "postgres":
        [result] = await backend.run(read, sync=sync)
    else:
        canonical = Statement(_STYLES, ("ISO", "postgres"))
        _, result, _ = await backend.run(canonical, read, Statement(_STYLES, (dates, intervals)), sync=sync)
    return tuple(
        Parameter(type_oid, None if text is None else text.decode())
        for type_oid, text in zip(types, result.rows[0], strict=True)
    )
