"""Every message: a written one is read again, and arbitrary bytes are refused cleanly."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import SluiceError
from gateway.wire.messages import backend, frontend, startup
from gateway.wire.messages.layout import Message

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
UINT32 = st.integers(0, 2**32 - 1)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
VALUE = st.none() | st.binary(max_size=10)
LETTER = st.binary(min_size=1, max_size=1)
ERROR_FIELDS = st.lists(st.tuples(st.sampled_from("SVCMDHPpqWscdntFLR"), TEXT), max_size=6).map(tuple)
COLUMN = st.builds(backend.FieldDescription, TEXT, UINT32, INT16, UINT32, INT16, INT32, INT16)


def several(part: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(part, max_size=5).map(tuple)


NAMED: dict[str, st.SearchStrategy[Any]] = {
    "parameters": st.just(None),  # told apart below
    "version": st.integers(3 << 16, (3 << 16) + 99), "process_id": INT32, "key": st.binary(min_size=4, max_size=256),
    "query": TEXT, "statement": TEXT, "portal": TEXT, "name": TEXT, "value": TEXT, "kind": LETTER, "status": LETTER,
    "parameter_types": several(UINT32), "types": several(UINT32), "parameter_formats": several(INT16),
    "result_formats": several(INT16), "limit_rows": INT32, "function": UINT32, "argument_formats": several(INT16),
    "arguments": several(VALUE), "result_format": INT16, "data": st.binary(max_size=30), "password": TEXT,
    "mechanism": TEXT, "response": VALUE, "message": TEXT, "salt": st.binary(min_size=4, max_size=4),
    "mechanisms": several(TEXT.filter(bool)), "columns": several(COLUMN), "values": several(VALUE), "tag": TEXT,
    "fields": ERROR_FIELDS, "channel": TEXT, "payload": TEXT, "options": several(TEXT), "format": LETTER,
    "column_formats": several(INT16),
}  # fmt: skip
SPECIAL: dict[tuple[type[Message], str], st.SearchStrategy[Any]] = {
    (startup.StartupMessage, "parameters"): several(st.tuples(TEXT.filter(bool), TEXT)),
    (frontend.Bind, "parameters"): several(VALUE),
    (backend.FunctionCallResponse, "value"): VALUE,
}
STARTUP: list[type[Message]] = [startup.StartupMessage, *startup.STARTUP.values()]
FRONTEND: list[type[Message]] = list(frontend.FRONTEND.values())
BACKEND: list[type[Message]] = [*backend.BACKEND.values(), *backend.AUTHENTICATION.values()]
ANSWERS: list[type[Message]] = [frontend.PasswordMessage, frontend.SASLInitialResponse, frontend.SASLResponse]


def made(kind: type[Message]) -> st.SearchStrategy[Message]:
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return st.builds(kind, *(SPECIAL.get((kind, name), NAMED[name]) for name in names))


@given(st.one_of([made(kind) for kind in STARTUP]))
def test_startup_messages(message: Message) -> None:
    frame = message.encode()
    assert int.from_bytes(frame[:4]) == len(frame)
    assert startup.decode_startup(frame[4:]) == message


@given(st.one_of([made(kind) for kind in FRONTEND]))
def test_frontend_messages(message: Message) -> None:
    frame = message.encode()
    assert int.from_bytes(frame[1:5]) == len(frame) - 1
    assert frontend.decode_frontend(frame[0], frame[5:]) == message


@given(st.one_of([made(kind) for kind in ANSWERS]))
def test_answers_to_authentication(message: Message) -> None:
    frame = message.encode()
    raw = frontend.decode_frontend(frame[0], frame[5:])
    assert isinstance(raw, frontend.AuthenticationData)
    assert type(message).decode(raw.data) == message


@given(st.one_of([made(kind) for kind in BACKEND]))
def test_backend_messages(message: Message) -> None:
    frame = message.encode()
    assert int.from_bytes(frame[1:5]) == len(frame) - 1
    assert backend.decode_backend(frame[0], frame[5:]) == message


@given(st.integers(0, 255) | st.sampled_from(list(frontend.FRONTEND)), st.binary(max_size=60))
def test_arbitrary_frontend_bytes(type_byte: int, body: bytes) -> None:
    try:
        message = frontend.decode_frontend(type_byte, body)
    except SluiceError as error:
        assert error.sqlstate in {"08P01", "22021"}  # noqa: PT017
    else:
        assert message.encode()[5:] == body


@given(st.integers(0, 255) | st.sampled_from([*backend.BACKEND, ord("R")]), st.binary(max_size=60))
def test_arbitrary_backend_bytes(type_byte: int, body: bytes) -> None:
    try:
        message = backend.decode_backend(type_byte, body)
    except SluiceError as error:
        assert error.sqlstate == "08P01"  # noqa: PT017
    else:
        assert message.encode()[5:] == body


CODES = [3 << 16, 3 << 16 | 2, 80877102, 80877103, 80877104, 2 << 16]


@given(st.sampled_from(CODES).map(lambda code: code.to_bytes(4)) | st.just(b""), st.binary(max_size=60))
def test_arbitrary_startup_bytes(code: bytes, rest: bytes) -> None:
    try:
        message = startup.decode_startup(code + rest)
    except SluiceError as error:
        assert error.sqlstate in {"08P01", "0A000", "22021"}  # noqa: PT017
    else:
        assert message.encode()[4:] == code + rest


def test_an_error_goes_there_and_back() -> None:
    error = SluiceError("23505", "duplicate", detail="Key (a)=(1).", position=7, constraint="t_pkey", table="t")
    response = backend.ErrorResponse.from_error(error)
    again = backend.decode_backend(ord("E"), response.body())
    assert isinstance(again, backend.ErrorResponse)
    assert again.to_error().fields == error.fields
    assert (again.to_error().sqlstate, again.to_error().message) == ("23505", "duplicate")


def test_fields_without_a_name_survive() -> None:
    sent = (
        ("S", "FEHLER"),
        ("V", "ERROR"),
        ("C", "42601"),
        ("M", "x"),
        ("q", "SELECT"),
        ("F", "scan.l"),
        ("R", "yyerror"),
    )
    error = backend.ErrorResponse(sent).to_error()
    assert backend.ErrorResponse.from_error(error).fields == sent
    assert error.severity == "ERROR"


def test_texts_of_another_encoding_come_back_as_they_were() -> None:
    body = b"SERROR\0C42601\0Mgr\xfc\xdfe\0\0"
    assert backend.decode_backend(ord("E"), body).encode()[5:] == body


def test_a_bad_text_is_refused_in_the_words_of_postgres() -> None:
    with pytest.raises(SluiceError, match='invalid byte sequence for encoding "UTF8": 0xe9 0x41 0x42') as raised:
        frontend.decode_frontend(ord("Q"), b"caf\xe9AB\0")
    assert raised.value.sqlstate == "22021"


def test_a_text_with_a_nul_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="NUL"):
        backend.CommandComplete("a\0b").encode()
