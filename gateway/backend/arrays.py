"""Writes PostgreSQL's arrays in text form, for the gateway's own statements (PostgreSQL documentation, 8.15.2)."""

from __future__ import annotations

from collections.abc import Iterable


def number_array(numbers: Iterable[int | None]) -> str:
    """An array of an integer type or of OIDs."""
    return "{" + ",".join("NULL" if number is None else str(number) for number in numbers) + "}"


def text_array(texts: Iterable[str | None]) -> str:
    """An array of text."""
    escaped = (None if text is None else text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join("NULL" if text is None else f'"{text}"' for text in escaped) + "}"
