"""The parameters of a Bind, read by PostgreSQL itself: it says what is wrong with them, or writes them canonically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from catalog.datatypes import BYTEA, FIRST_USER_OID
from gateway.backend import Backend, Statement
from gateway.client_encoding import ClientEncoding
from gateway.messages import frontend
from gateway.own_text import own_text
from planner.plan import Parameter

_STYLES: Final = "SELECT set_config('DateStyle', $1, true), set_config('IntervalStyle', $2, true)"


async def bind_in_utf8(
    backend: Backend, encoding: ClientEncoding, message: frontend.Bind, types: Sequence[int]
) -> frontend.Bind:
    """The message with its texts in UTF-8. Of binary values those with texts somewhere in them become text."""
    values, formats = list(message.parameters), list(message.parameter_formats)
    if len(formats) <= 1:
        formats = (formats or [0]) * len(values)
    if not encoding.converts or len(values) != len(types) or len(formats) != len(values):
        return message  # or PostgreSQL says what is wrong
    places: list[int] = []
    for place, value in enumerate(values):
        if value is None or (value.isascii() and b"\0" not in value):
            continue
        is_text = True if formats[place] == 0 else await encoding.has_texts(types[place])
        if is_text is None:
            read = Statement(f"SELECT {_text(1, types[place])}", (value,), (types[place],), (1,))
            [result] = await backend.run(read, sync=False, switching=False)
            [[values[place]]], formats[place] = result.rows, 0
        if is_text is not False:
            places.append(place)
    texts = await encoding.from_client([values[place] or b"" for place in places])
    for place, text in zip(places, texts, strict=True):
        values[place] = text
    return replace(message, parameters=tuple(values), parameter_formats=tuple(formats))


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
        f"'\\x' || encode(${number}, 'hex')" if type_oid == BYTEA else _text(number, type_oid)
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


def _text(number: int, type_oid: int) -> str:
    return f"${number}::pg_catalog.text" if type_oid < FIRST_USER_OID else own_text(f"${number}")
