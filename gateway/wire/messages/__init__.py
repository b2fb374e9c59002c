"""The messages of the PostgreSQL protocol 3.x, both directions, as data: type byte, size limit, layout.

A message is a frozen dataclass whose fields are encoded one after another by the parts of its `layout`; encoding,
decoding and the tables `FRONTEND` and `BACKEND` follow from that. Pure: bytes in, messages out. Decoding raises
08P01 for bytes that are no such message, and 22021 for a frontend's text that is not UTF-8 (an error that leaves the
connection usable). Texts of the backend are decoded with `surrogateescape`, for a session may have asked for another
client_encoding.

`startup`, `frontend`, `backend` and `copy` (both directions) hold the messages, `layout` what they are made of.
"""
