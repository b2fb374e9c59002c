"""Has PostgreSQL read the parameters of a Bind: it reports errors in them, or writes them canonically."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from catalog.datatypes import BYTEA, FIRST_USER_OID, INT2, INT4, INT8, TEXT, VARCHAR
from gateway.backend.connection import Backend
from gateway.backend.own_statement import Statement
from gateway.backend.own_text import own_text
from gateway.client.encoding import ClientEncoding
from gateway.client.message_thread import aside
from gateway.wire.framing import LARGE_BYTES
from gateway.wire.messages import frontend
from planner.spark.plan import Parameter

# Longer texts, or more parameters, are read off the event loop.
_PLAIN_MAX: Final = 200
_PLAIN_BYTES_MAX: Final = 65_536
# Values of so many bytes together are looked at here.
_SURE_MAX: Final = 4_096
_INTEGER_BYTES: Final = {INT2: 2, INT4: 4, INT8: 8}
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]*")
# Entries of a target list (MaxTupleAttributeNumber is 1664); a statement may have 65,535 parameters.
_ENTRIES_MAX: Final = 1600
_STYLES: Final = "SELECT pg_catalog.set_config('DateStyle', $1, true), pg_catalog.set_config('IntervalStyle', $2, true)"


async def bind_in_utf8(
    backend: Backend, encoding: ClientEncoding, message: frontend.Bind, types: Sequence[int]
) -> frontend.Bind:
    """The message with its texts in UTF-8. Binary values of types that contain texts are given as text."""
    values, formats = list(message.parameters), list(message.parameter_formats)
    if len(formats) <= 1:
        formats = (formats or [0]) * len(values)
    if not encoding.converts or len(values) != len(types) or len(formats) != len(values):
        return message  # or PostgreSQL reports what is wrong
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

    Without `sync` the implicit transaction stays open. Raises PostgreSQL's error for an invalid value.
    """
    if not types:
        return ()
    plain = plain_parameters(types, values, formats)
    if plain is not None:
        return plain
    questions: list[Statement] = []
    for start in range(0, len(types), _ENTRIES_MAX):
        part = slice(start, start + _ENTRIES_MAX)
        questions.append(_question(types[part], values[part], formats[part]))
        await asyncio.sleep(0)
    dates, intervals = backend.parameters.get("DateStyle", ""), backend.parameters.get("IntervalStyle", "")
    if dates.startswith("ISO") and intervals == "postgres":
        results = await backend.run(*questions, sync=sync)
    else:
        canonical, back = Statement(_STYLES, ("ISO", "postgres")), Statement(_STYLES, (dates, intervals))
        _, *results, _ = await backend.run(canonical, *questions, back, sync=sync)
    texts = list(chain.from_iterable(result.rows[0] for result in results))
    many = len(texts) > _ENTRIES_MAX or sum(len(text or b"") for text in texts) > LARGE_BYTES
    return await aside(partial(_parameters, types), texts, is_large=many)


def are_valid(types: Sequence[int], values: Sequence[bytes | None], formats: Sequence[int]) -> bool:
    """Whether PostgreSQL is known to accept these values, few and short, for parameters of these types."""
    if len(types) != len(values) or len(types) > _PLAIN_MAX or sum(len(value or b"") for value in values) > _SURE_MAX:
        return False
    if len(formats) not in (0, 1, len(values)) or not all(each in (0, 1) for each in formats):
        return False
    given = formats if len(formats) > 1 else (*formats, 0)[:1] * len(types)
    return all(map(_is_valid, types, values, given))


def _is_valid(type_oid: int, value: bytes | None, binary: int) -> bool:
    if type_oid in (TEXT, VARCHAR):
        return value is None or (value.isascii() and b"\0" not in value)
    if (size := _INTEGER_BYTES.get(type_oid)) is None:
        return False
    if value is None or binary:
        return value is None or len(value) == size
    bound = 1 << (8 * size - 1)
    return _INTEGER.fullmatch(value) is not None and -bound <= int(value) < bound


def plain_parameters(
    types: Sequence[int], values: Sequence[bytes | None], formats: Sequence[int]
) -> tuple[Parameter, ...] | None:
    """The parameters in canonical form; None unless they are few, short, and canonical without their types' own code.

    The backend has accepted them, so they are valid; texts are in UTF-8.
    """
    if len(types) > _PLAIN_MAX or sum(len(value or b"") for value in values) > _PLAIN_BYTES_MAX:
        return None
    found = []
    given = formats if len(formats) > 1 else (*formats, 0)[:1] * len(types)
    for type_oid, value, binary in zip(types, values, given, strict=True):
        text = None if value is None else _plain_text(type_oid, value, binary=bool(binary))
        if text is None and value is not None:
            return None
        found.append(Parameter(type_oid, text))
    return tuple(found)


def _plain_text(type_oid: int, value: bytes, *, binary: bool) -> str | None:
    if type_oid in (TEXT, VARCHAR):
        return value.decode()
    if type_oid not in (INT2, INT4, INT8):
        return None
    if binary:
        return str(int.from_bytes(value, signed=True))
    return value.decode() if _INTEGER.fullmatch(value) else None


def _parameters(types: Sequence[int], texts: Sequence[bytes | None]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(type_oid, None if text is None else text.decode())
        for type_oid, text in zip(types, texts, strict=True)
    )


def _question(types: Sequence[int], values: Sequence[bytes | None], formats: Sequence[int]) -> Statement:
    """The statement that asks for the texts of some of the parameters."""
    expressions = ", ".join(
        f"'\\x' OPERATOR(pg_catalog.||) pg_catalog.encode(${number}, 'hex')"
        if type_oid == BYTEA
        else _text(number, type_oid)
        for number, type_oid in enumerate(types, 1)
    )
    return Statement(f"SELECT {expressions}", values, types, formats)


def _text(number: int, type_oid: int) -> str:
    return f"${number}::pg_catalog.text" if type_oid < FIRST_USER_OID else own_text(f"${number}")
