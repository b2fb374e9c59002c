"""Arrow columns to PostgreSQL's text and binary values, and back, without a Python loop per value.

`encode_rows` makes the DataRow frames of a record batch; `decode_parameter` turns one Bind parameter into text;
`convert_text` and `convert_binary` turn whole columns of incoming values into lake form. `cells` is the common form
between a column and a row: bytes and offsets.
"""

from __future__ import annotations

from gateway.values.converted import Converted
from gateway.values.parameters import decode_parameter
from gateway.values.parse import convert_text
from gateway.values.receive import convert_binary
from gateway.values.rows import encode_rows
from gateway.values.settings import Format, OutputSettings, ResultColumn

__all__ = [
    "Converted",
    "Format",
    "OutputSettings",
    "ResultColumn",
    "convert_binary",
    "convert_text",
    "decode_parameter",
    "encode_rows",
]
