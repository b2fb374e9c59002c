"""The texts of every message: found and replaced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.messages.layout import Message
from gateway.wire.messages.texts import texts_of, with_texts
from tests.gateway.test_messages import BACKEND, FRONTEND, made

_KINDS = [*FRONTEND, *BACKEND]


@given(st.one_of([made(kind) for kind in _KINDS]))
def test_texts_are_put_back_where_they_were(message: Message) -> None:
    assert with_texts(message, texts_of(message)) == message


@given(st.one_of([made(kind) for kind in _KINDS]), st.binary(min_size=1, max_size=8).filter(lambda text: 0 not in text))
def test_texts_of_any_bytes_are_written_as_they_are(message: Message, text: bytes) -> None:
    count = len(texts_of(message))
    changed = with_texts(message, [text] * count)
    assert texts_of(changed) == [text] * count
    kind = type(message)
    body = changed.encode()[5:] if kind.code is None else changed.encode()[9:]
    assert kind.decode(body, strict=False) == changed
