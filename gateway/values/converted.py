"""What becomes of a column of incoming values: an array in lake form, and which values were not taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.values.cells import Mask, valid_mask


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted column: `array` in lake form, and `refused`, true for each value that was not taken.

    A refused value is null in `array`; PostgreSQL itself must be asked about it (it may be valid in an uncommon
    spelling, or wrong). None stands for "nothing refused". Null input is null output and never refused.
    """

    array: pa.Array
    refused: pa.BooleanArray | None


def validity_buffer(valid: Mask | None) -> pa.Buffer | None:
    """Arrow's bitmap; None where all are valid."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def converted_numbers(values: npt.NDArray[Any], kind: pa.DataType, source: pa.Array, good: Mask | None) -> Converted:
    """Numbers in the bits of `kind`, of which those that are not `good` are refused (where `source` is not null)."""
    valid = valid_mask(source)
    kept = valid if good is None else good if valid is None else good & valid
    buffers = [validity_buffer(kept), pa.py_buffer(np.ascontiguousarray(values))]
    return Converted(pa.Array.from_buffers(kind, len(values), buffers), refused_of(valid, good))


def converted_array(array: pa.Array, good: Mask | None) -> Converted:
    """An array whose nulls are the source's, of which the values that are not `good` are refused."""
    if good is None or good.all():
        return Converted(array, None)
    valid = valid_mask(array)
    kept = good if valid is None else good & valid
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    buffers = [validity_buffer(kept), *array.buffers()[1:]]
    if pa.types.is_struct(array.type):
        masked = pa.StructArray.from_arrays(array.flatten(), fields=list(array.type), mask=pa.array(~kept))
    else:
        masked = pa.Array.from_buffers(array.type, len(array), buffers)
    return Converted(masked, refused_of(valid, good))


def refused_of(valid: Mask | None, good: Mask | None) -> pa.BooleanArray | None:
    """Which values are there and were not taken; None where none."""
    if good is None:
        return None
    refused = ~good if valid is None else ~good & valid
    return pa.array(refused) if refused.any() else None


def all_refused(kind: pa.DataType, source: pa.Array) -> Converted:
    """Nothing taken."""
    valid = valid_mask(source)
    refused = np.ones(len(source), np.bool_) if valid is None else valid
    return Converted(pa.nulls(len(source), kind), pa.array(refused) if refused.any() else None)
