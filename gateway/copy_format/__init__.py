"""COPY's three formats, out of Arrow batches and into them. No I/O: bytes in, batches out, and the reverse.

Source: PostgreSQL documentation, COPY, "File Formats". `CopyOptions.read` takes the options of a statement,
`CopyWriter` makes CopyData messages, `TextReader` and `BinaryReader` take their payloads in pieces cut anywhere.
"""

from __future__ import annotations

from gateway.copy_format.binary_reader import BinaryReader
from gateway.copy_format.fields import CopyBatch, Source
from gateway.copy_format.line_numbers import LineNumbers
from gateway.copy_format.options import CopyFormat, CopyOptions, Header, LogVerbosity
from gateway.copy_format.reader import TextReader
from gateway.copy_format.writer import CopyWriter, line_messages

__all__ = [
    "BinaryReader",
    "CopyBatch",
    "CopyFormat",
    "CopyOptions",
    "CopyWriter",
    "Header",
    "LineNumbers",
    "LogVerbosity",
    "Source",
    "TextReader",
    "line_messages",
]
