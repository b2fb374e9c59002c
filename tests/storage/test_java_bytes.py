"""Bytes that Py4J returns are those of Java, however many."""

from __future__ import annotations

from base64 import standard_b64encode

import pytest

from storage.spark.java_bytes import decoded


@pytest.mark.parametrize("length", [0, 1, 2, 3, 786_431, 786_432, 786_433, 2_000_000])
def test_pieces_are_joined(length: int) -> None:
    data = bytes(number % 251 for number in range(length))
    assert decoded(standard_b64encode(data).decode()) == data
