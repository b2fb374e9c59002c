"""The messages that begin a connection; they have no type byte.

Source: PostgreSQL 18 documentation, "Message Formats": CancelRequest, GSSENCRequest, SSLRequest, StartupMessage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.wire.messages.layout import INT32, PAIR, REST, UINT32, UINT32_FORM, Message, until_nul, violation

HEADER_BYTES: Final = 4
STARTUP_LIMIT: Final = 10_000  # MAX_STARTUP_PACKET_LENGTH: without the length itself


class UnansweredError(SluiceError):
    """The connection ends without a message, as in PostgreSQL, which only logs such an error (COMMERROR)."""

    def __init__(self, message: str) -> None:
        super().__init__(SqlState.PROTOCOL_VIOLATION, message, severity="FATAL")


@dataclass(frozen=True, slots=True)
class StartupMessage(Message):
    """`version` is major << 16 | minor; only 3.x is a StartupMessage."""

    version: int
    parameters: tuple[tuple[str, str], ...]
    layout = (UINT32, until_nul(PAIR))


@dataclass(frozen=True, slots=True)
class SSLRequest(Message):
    code = 80877103


@dataclass(frozen=True, slots=True)
class GSSENCRequest(Message):
    code = 80877104


@dataclass(frozen=True, slots=True)
class CancelRequest(Message):
    """`key` has 4 bytes in protocol 3.0, up to 256 from 3.2 on."""

    process_id: int
    key: bytes
    code = 80877102
    layout = (INT32, REST)


STARTUP: Final[dict[int, type[Message]]] = {
    80877103: SSLRequest,
    80877104: GSSENCRequest,
    80877102: CancelRequest,
}
assert all(message.code == code for code, message in STARTUP.items())
PROTOCOL_3_0: Final = 3 << 16
PROTOCOL_3_2: Final = 3 << 16 | 2
CANCEL_KEY_LENGTH_MAX: Final = 256


def body_length(header: bytes) -> int:
    """The length of the body of a packet with this header. 08P01 for an invalid one."""
    (length,) = UINT32_FORM.unpack(header)
    if not UINT32_FORM.size <= length - HEADER_BYTES <= STARTUP_LIMIT:
        raise UnansweredError("invalid length of startup packet")
    return int(length) - HEADER_BYTES


def decode_startup(body: bytes) -> Message:
    """A message of the startup phase, from its body. Raises 0A000 for a protocol other than 3.x, as PostgreSQL does."""
    if len(body) < 4:
        raise UnansweredError("invalid length of startup packet")
    code = UINT32_FORM.unpack_from(body)[0]
    special = STARTUP.get(code)
    if special is not None:
        if special is CancelRequest and not 4 <= len(body) - 8 <= CANCEL_KEY_LENGTH_MAX:
            raise UnansweredError("invalid length of cancel request packet")
        return special.decode(body[4:])
    if code >> 16 != 3:
        raise SluiceError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}: server supports 3.0 to 3.2",
            severity="FATAL",
        )
    try:
        return StartupMessage.decode(body)
    except SluiceError as error:
        if error.sqlstate != SqlState.PROTOCOL_VIOLATION:
            raise
        raise violation("invalid startup packet layout: expected terminator as last byte") from None
