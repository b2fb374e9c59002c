"""The messages of the PostgreSQL protocol 3.x in both directions, as data: type byte, size limit, layout.

A message is a frozen dataclass; the parts of its `layout` encode its fields one after another. Encoding, decoding and
the tables `FRONTEND` and `BACKEND` follow from that. Pure: bytes in, messages out. Decoding raises 08P01 for malformed
bytes, and 22021 for a frontend's text that is not UTF-8 (an error that leaves the connection usable). Texts of the
backend are decoded with `surrogateescape`, because a session may use another client_encoding.

`startup`, `frontend`, `backend` and `copy` (both directions) hold the messages, `layout` their parts.
"""
