"""Frames out of bytes cut anywhere: none lost, none changed, nothing hoarded."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import SluiceError
from gateway.framing import BACKEND_LIMITS, FRONTEND_LIMITS, Frame, FrameReader, RelayScanner
from gateway.messages.backend import CommandComplete, DataRow, NoticeResponse, ReadyForQuery
from gateway.messages.copy import CopyData, CopyDone
from gateway.messages.frontend import Query, Sync
from gateway.messages.layout import LARGE_LIMIT, SMALL_LIMIT
from gateway.messages.startup import SSLRequest, StartupMessage

FRONT = st.sampled_from(
    [Query("SELECT 1").encode(), Sync().encode(), CopyData(b"a\tb\n").encode(), CopyData(b"").encode()]
)
BACK = st.sampled_from([
    DataRow((b"1", None)).encode(), DataRow((b"x" * 50,)).encode(), CopyData(b"row\n").encode(), CopyDone().encode(),
    CommandComplete("SELECT 1").encode(), ReadyForQuery(b"I").encode(),
    NoticeResponse.of("NOTICE", "00000", "x").encode(),
])  # fmt: skip


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(place, len(data)) for place in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


CUTS = st.lists(st.integers(0, 300), max_size=20)


@given(st.lists(FRONT, max_size=20), CUTS)
def test_frames_come_out_as_they_went_in(frames: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader()
    found: list[bytes] = []
    for piece in cut(b"".join(frames), cuts):
        reader.feed(piece)
        found += [frame.data for frame in reader.frames()]
    assert found == frames
    assert reader.buffered == 0


@given(st.lists(FRONT, max_size=20), CUTS)
def test_copy_data_comes_out_joined(frames: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader()
    payload, others = b"", []
    for piece in cut(b"".join(frames), cuts):
        reader.feed(piece)
        while True:
            payload += reader.next_copy_data()
            frame = reader.next_frame()
            if frame is None:
                break
            # Nothing is left of a run, but for an empty one.
            assert frame.type != CopyData.type or frame.body == b""
            if frame.type != CopyData.type:
                others.append(frame.data)
    assert payload == b"".join(frame[5:] for frame in frames if frame[0] == CopyData.type)
    assert others == [frame for frame in frames if frame[0] != CopyData.type]


@given(st.lists(BACK, max_size=20), CUTS)
def test_a_relay_loses_nothing(frames: list[bytes], cuts: list[int]) -> None:
    scanner = RelayScanner()
    data = b"".join(frames)
    found = b""
    looked_at = []
    for piece in cut(data, cuts):
        for part in scanner.feed(piece):
            if isinstance(part, Frame):
                looked_at.append(part.data)
                found += part.data
            else:
                found += bytes(part)
    assert found == data
    passing = {DataRow.type, CopyData.type}
    assert looked_at == [frame for frame in frames if frame[0] not in passing]


def test_a_run_of_rows_is_one_slice() -> None:
    row = DataRow((b"1", b"two")).encode()
    parts = list(RelayScanner().feed(row * 1000 + CommandComplete("SELECT 1000").encode() + row * 10))
    assert [len(part) if isinstance(part, memoryview) else part.type for part in parts] == [
        len(row) * 1000,
        ord("C"),
        len(row) * 10,
    ]


def test_a_huge_row_streams_through() -> None:
    scanner = RelayScanner()
    row = DataRow((bytes(1 << 20),)).encode()
    for start in range(0, len(row), 1 << 16):
        piece = row[start : start + (1 << 16)]
        assert sum(len(part) for part in scanner.feed(piece)) == len(piece)
    assert list(scanner.feed(ReadyForQuery(b"I").encode())) == [Frame(ord("Z"), ReadyForQuery(b"I").encode())]


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_arbitrary_bytes_from_a_client(pieces: list[bytes]) -> None:
    reader = FrameReader()
    fed = taken = 0
    try:
        for piece in pieces:
            reader.feed(piece)
            fed += len(piece)
            taken += sum(len(frame.data) for frame in reader.frames())
            assert reader.buffered == fed - taken
    except SluiceError as error:
        assert error.sqlstate == "08P01"  # noqa: PT017


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_arbitrary_bytes_from_a_server(pieces: list[bytes]) -> None:
    scanner = RelayScanner()
    found = b""
    try:
        for piece in pieces:
            for part in scanner.feed(piece):
                found += part.data if isinstance(part, Frame) else bytes(part)
    except SluiceError as error:
        assert error.sqlstate == "08P01"  # noqa: PT017
    assert b"".join(pieces).startswith(found)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_arbitrary_bytes_at_startup(pieces: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for piece in pieces:
            reader.feed(piece)
            while reader.next_startup() is not None:
                pass
    except SluiceError as error:
        assert error.sqlstate == "08P01"  # noqa: PT017


@pytest.mark.parametrize(
    ("letter", "length"), [("Q", 3), ("Q", LARGE_LIMIT + 5), ("S", SMALL_LIMIT + 5), ("Q", 2**32 - 1)]
)
def test_a_length_out_of_bounds_is_refused_before_the_body_comes(letter: str, length: int) -> None:
    reader = FrameReader()
    reader.feed(letter.encode() + struct.pack("!I", length))
    with pytest.raises(SluiceError, match="invalid message length"):
        reader.next_frame()


def test_an_unknown_type_is_refused_at_its_first_byte() -> None:
    reader = FrameReader()
    reader.feed(b"G")
    with pytest.raises(SluiceError, match="invalid frontend message type 71"):
        reader.next_frame()


@pytest.mark.parametrize("length", [0, 7, 10_001, 2**32 - 1])
def test_a_startup_length_out_of_bounds(length: int) -> None:
    reader = FrameReader()
    reader.feed(struct.pack("!I", length))
    with pytest.raises(SluiceError, match="invalid length of startup packet"):
        reader.next_startup()


def test_startup_then_frames_and_what_is_left_over() -> None:
    reader = FrameReader()
    first = StartupMessage(3 << 16, (("user", "a"),)).encode()
    reader.feed(SSLRequest().encode() + first + Sync().encode())
    assert reader.next_startup() == SSLRequest().encode()[4:]
    assert reader.buffered == len(first) + 5
    assert reader.next_startup() == first[4:]
    assert reader.next_frame() == Frame(ord("S"), Sync().encode())
    assert reader.buffered == 0


def test_limits_cover_every_message() -> None:
    assert set(FRONTEND_LIMITS) == set(b"QPBDECHSXFpdcf")
    assert set(BACKEND_LIMITS) == set(b"RSKZTtDCIns123ENAvVGHWdc")
