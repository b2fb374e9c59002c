"""Texts to the types whose lake form is text, and to bytea and boolean.

JSON is PostgreSQL's to judge: only the plainest values are taken here, anything else is refused, for what is valid
JSON, and jsonb's own order of keys, is decided there. Source: the types' input functions.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog import datatypes
from gateway.values.cells import (
    Integers,
    Mask,
    as_binary,
    cells,
    data_of,
    lengths_of,
    offsets_of,
    payload_of,
    valid_mask,
)
from gateway.values.converted import Converted, converted_array, refused_of

_VARHEADER: Final = 4  # typmod of varchar(n) and char(n) is n + 4
_JSON_PLAIN: Final = r'^(null|true|false|0|-?[1-9][0-9]{0,14}|"[ !#-\[\]-~]*")$'
_TRUE: Final = ("t", "true", "y", "yes", "on", "1")
_FALSE: Final = ("f", "false", "n", "no", "off", "0")
_SPELLINGS: Final = pa.array([*_FALSE, *_TRUE])


def string_in(array: pa.StringArray, type_oid: int, typmod: int) -> Converted:
    """text, varchar, bpchar, json and jsonb; and labels of an enumeration, of which others know whether it has them."""
    if type_oid in {datatypes.JSON, datatypes.JSONB}:
        plain = pc.match_substring_regex(array, _JSON_PLAIN).fill_null(True).to_numpy(zero_copy_only=False)
        return converted_array(array, plain)
    if type_oid in {datatypes.TEXT, datatypes.ANYENUM, datatypes.CARRIED} or typmod < _VARHEADER:
        return Converted(array, None)
    size = typmod - _VARHEADER
    lengths = lengths_of(array)
    if len(array) and int(lengths.max()) > size:
        # Bytes are no fewer than characters: only now the characters must be counted.
        count = pc.utf8_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        made = converted_array(array, count <= size)
    else:
        made = Converted(array, None)
    if type_oid == datatypes.BPCHAR and not (lengths == size).all():
        return Converted(pc.utf8_rpad(made.array, width=size), made.refused)
    return made


def boolean_in(array: pa.StringArray) -> Converted:
    """The spellings that PostgreSQL's documentation lists; of others (prefixes, blanks around) it is asked."""
    place = pc.index_in(pc.ascii_lower(array), _SPELLINGS)
    good = pc.is_valid(place).to_numpy(zero_copy_only=False)
    made = pc.greater_equal(place, len(_FALSE))
    return Converted(made, refused_of(valid_mask(array), good))


_UUID: Final = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"


def uuid_in(array: pa.StringArray) -> Converted:
    """The canonical form, in either case; in the lake it is in lower case."""
    good = pc.match_substring_regex(array, _UUID).fill_null(True).to_numpy(zero_copy_only=False)
    return converted_array(pc.ascii_lower(array), good)


_DIGIT: Final = np.full(256, 255, np.uint8)
_DIGIT[list(b"0123456789")] = range(10)
_DIGIT[list(b"abcdef")] = range(10, 16)
_DIGIT[list(b"ABCDEF")] = range(10, 16)
_BACKSLASH: Final = ord("\\")


def bytea_in(array: pa.StringArray) -> Converted:
    r"""`\x` and pairs of digits; or the escape format where it has nothing to escape."""
    raw = as_binary(array)
    offsets = offsets_of(raw).astype(np.int64)
    lengths = np.diff(offsets)
    data = np.concatenate((data_of(raw), np.zeros(2, np.uint8)))
    hexadecimal = (lengths >= 2) & (data[offsets[:-1]] == _BACKSLASH) & (data[offsets[:-1] + 1] == ord("x"))
    hexadecimal &= lengths % 2 == 0
    valid = valid_mask(array)
    if valid is not None:
        hexadecimal &= valid
    if hexadecimal.all():
        decoded, good = _hexadecimal_bytes(raw)
        return converted_array(decoded, good)
    payload = payload_of(raw)
    backslashes = np.concatenate((np.zeros(1, np.int64), np.cumsum(payload == _BACKSLASH)))
    bounds = offsets - offsets[0]
    plain = (backslashes[bounds[1:]] == backslashes[bounds[:-1]]) & ~hexadecimal
    if not hexadecimal.any():
        return converted_array(raw, plain if valid is None else plain | ~valid)
    # Both kinds: the hexadecimal ones are put in their places.
    places = np.flatnonzero(hexadecimal)
    decoded, good = _hexadecimal_bytes(raw.take(pa.array(places)))
    index = np.arange(len(raw), dtype=np.int32)
    index[places] = np.arange(len(raw), len(raw) + len(places), dtype=np.int32)
    taken = pa.concat_arrays([raw, decoded]).take(pa.array(index))
    plain[places] = good
    return converted_array(taken, plain if valid is None else plain | ~valid)


def _hexadecimal_bytes(raw: pa.BinaryArray) -> tuple[pa.BinaryArray, Mask]:
    r"""Cells that begin with `\x`, and which of them hold digits only after it."""
    offsets = offsets_of(raw).astype(np.int64)
    offsets = offsets - offsets[0]
    keep = np.ones(int(offsets[-1]), np.bool_)
    keep[offsets[:-1]] = False
    keep[offsets[:-1] + 1] = False
    digits = _DIGIT[payload_of(raw)[keep]]
    bounds = (offsets - 2 * np.arange(len(offsets))) // 2
    odd = (digits[::2] > 15) | (digits[1::2] > 15)
    counted = np.concatenate((np.zeros(1, np.int64), np.cumsum(odd)))
    return cells(bounds, digits[::2] << 4 | digits[1::2]), counted[bounds[1:]] == counted[bounds[:-1]]


def rounded_to_typmod(values: Integers, typmod: int) -> Integers:
    """Times in microseconds, rounded half away from zero to the fraction digits that a typmod declares.

    Source: `AdjustTimestampForTypmod`; timestamps count from 2000 there, and must here.
    """
    if not 0 <= typmod < 6:
        return values
    scale = 10 ** (6 - typmod)
    size = (np.abs(values) + scale // 2) // scale * scale
    rounded: Integers = np.where(values < 0, -size, size)
    return rounded
