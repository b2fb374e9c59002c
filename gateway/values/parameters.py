"""Bind parameters as text: what a client sends with a statement, one value at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from catalog import datatypes
from catalog.errors import SluiceError, SqlState, unsupported
from gateway.values.receive import convert_binary
from gateway.values.settings import Format, OutputSettings
from gateway.values.text import text_cells
from gateway.wire.messages.layout import text_from

_SETTINGS: Final = OutputSettings()


def _number(form: str) -> Callable[[bytes], str]:
    return lambda data: str(struct.unpack(form, data)[0])


def _text(data: bytes) -> str:
    text = text_from(data)
    if "\0" in text:
        raise SluiceError(SqlState.CHARACTER_NOT_IN_REPERTOIRE, 'invalid byte sequence for encoding "UTF8": 0x00')
    return text


# The types of nearly all parameters need no column to be read.
_SHORT_WAYS: Final[Mapping[int, Callable[[bytes], str]]] = {
    datatypes.BOOL: lambda data: "t" if struct.unpack("!B", data)[0] else "f",
    datatypes.INT2: _number("!h"),
    datatypes.INT4: _number("!i"),
    datatypes.INT8: _number("!q"),
    datatypes.OID: _number("!I"),
    datatypes.TEXT: _text,
    datatypes.VARCHAR: _text,
    datatypes.BPCHAR: _text,
    datatypes.UNKNOWN: _text,
    datatypes.JSON: _text,
}


def decode_parameter(type_oid: int, format: int, data: bytes | None) -> str | None:
    """A Bind parameter as PostgreSQL's canonical text; None for NULL.

    Text is passed on as it is: the type's input function judges it. Of binary, so do json and jsonb. Raises 22P03 for
    malformed binary, 22021 for bytes that are not UTF-8, 0A000 for a binary type that Sluice does not know.
    """
    if data is None:
        return None
    if format == Format.TEXT:
        return _text(data)
    if format != Format.BINARY:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"unsupported format code: {format}")
    try:
        short_way = _SHORT_WAYS.get(type_oid)
        if short_way is not None:
            return short_way(data)
    except struct.error:
        raise _malformed() from None
    if type_oid == datatypes.JSONB:
        if data[:1] != b"\x01":
            raise SluiceError(SqlState.INTERNAL_ERROR, f"unsupported jsonb version number {data[0] if data else 0}")
        return _text(data[1:])
    element = datatypes.element_type(type_oid)
    if type_oid not in datatypes.BY_OID and element is None:
        raise unsupported(f"a binary parameter of the type with OID {type_oid}")
    trusted = element is not None and element.oid in {datatypes.JSON, datatypes.JSONB}
    made = convert_binary(pa.array([data], pa.binary()), type_oid, -1, from_postgres=trusted)
    if made.refused is not None:
        raise _malformed()
    cell = text_cells(made.array, type_oid, _SETTINGS)[0].as_py()
    return _text(cell)


def _malformed() -> SluiceError:
    return SluiceError(SqlState.INVALID_BINARY_REPRESENTATION, "incorrect binary data format in bind parameter")
