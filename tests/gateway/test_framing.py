"""Frames from bytes cut anywhere: none is lost or changed, and no bytes are hoarded."""

from __future__ import annotations

import struct
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import SluiceError
from gateway.wire import framing
from gateway.wire.framing import BACKEND_LIMITS, FRONTEND_LIMITS, HEADER, Frame, FrameReader, RelayScanner
from gateway.wire.messages.backend import CommandComplete, DataRow, ErrorResponse, NoticeResponse, ReadyForQuery
from gateway.wire.messages.copy import CopyData, CopyDone
from gateway.wire.messages.frontend import Query, SASLResponse, Sync
from gateway.wire.messages.layout import LARGE_LIMIT, SMALL_LIMIT
from gateway.wire.messages.startup import body_length

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
def test_arbitrary_bytes_where_sasl_is_due(pieces: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for piece in pieces:
            reader.feed(piece)
            while reader.next_sasl() is not None:
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


@pytest.mark.parametrize("length", [0, 7, 10_005, 2**32 - 1])
def test_a_startup_length_out_of_bounds(length: int) -> None:
    with pytest.raises(SluiceError, match="invalid length of startup packet"):
        body_length(struct.pack("!I", length))


@pytest.mark.parametrize("length", [8, 10_004])
def test_a_startup_length_within_bounds(length: int) -> None:
    assert body_length(struct.pack("!I", length)) == length - 4


@pytest.mark.parametrize("length", [0, 3, 1025, 2**32 - 1])
def test_a_sasl_message_out_of_bounds_is_refused_before_its_body_comes(length: int) -> None:
    reader = FrameReader()
    reader.feed(b"p" + struct.pack("!I", length))
    with pytest.raises(SluiceError, match="invalid message length"):
        reader.next_sasl()


def test_what_is_no_sasl_message_is_refused_at_its_first_byte() -> None:
    reader = FrameReader()
    reader.feed(b"Q")
    with pytest.raises(SluiceError, match="expected SASL response, got message type 81"):
        reader.next_sasl()


def test_sasl_then_frames_and_what_is_left_over() -> None:
    reader = FrameReader()
    longest = SASLResponse(b"x" * 1020).encode()
    reader.feed(longest[:100])
    assert reader.next_sasl() is None
    reader.feed(longest[100:] + Sync().encode() + b"S")
    assert reader.next_sasl() == b"x" * 1020
    assert reader.next_frame() == Frame(ord("S"), Sync().encode())
    assert reader.buffered == 1


def test_limits_cover_every_message() -> None:
    assert set(FRONTEND_LIMITS) == set(b"QPBDECHSXFpdcf")
    assert set(BACKEND_LIMITS) == set(b"RSKZTtDCIns123ENAvVGHWdc")


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
def test_a_frame_that_comes_in_many_pieces(piece: int) -> None:
    notice = NoticeResponse((("S", "LOG"), ("D", "x" * 2000))).encode()
    row = DataRow((b"a",)).encode()
    data = notice + row + notice + row
    scanner, found = RelayScanner(), bytearray()
    frames = []
    for place in range(0, len(data), piece):
        for item in scanner.feed(data[place : place + piece]):
            if isinstance(item, Frame):
                frames.append(item.data)
                found += item.data
            else:
                found += item
    assert bytes(found) == data
    assert frames == [notice, notice]


def test_a_large_frame_is_not_copied_with_each_piece() -> None:
    """64 MB in pieces of 64 KB: 1000 copies of half of it would be 32 GB."""
    size, piece = 1 << 26, b"x" * (1 << 16)
    scanner = RelayScanner()
    begin = time.perf_counter()
    assert list(scanner.feed(b"N" + struct.pack("!I", size + 4))) == []
    found = [item for _ in range(size // len(piece)) for item in scanner.feed(piece)]
    assert [len(item.data) for item in found if isinstance(item, Frame)] == [size + 5]
    assert time.perf_counter() - begin < 3


@pytest.mark.parametrize("kind", [ErrorResponse, NoticeResponse])
@pytest.mark.parametrize("piece", [1000, 70_000])
def test_long_texts_of_errors_are_cut(
    kind: type[ErrorResponse | NoticeResponse], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their beginning and end stay, and so do all other frames and longer trees."""
    for name, size in (("TEXT_MAX", 100_000), ("_TEXT_BEGINNING", 10_000), ("_TEXT_END", 2_000)):
        monkeypatch.setattr(framing, name, size)
    sizes = []
    long = kind(
        (("S", "ERROR"), ("C", "57014"), ("M", "short"), ("W", "begin" + "x" * 900_000 + "end"), ("R", "raise"))
    )
    tree = NoticeResponse((("S", "LOG"), ("C", "00000"), ("M", framing.TREE_MESSAGE), ("D", "x" * 900_000)))
    row = DataRow((b"a" * 300_000,))
    scanner, frames, rows = RelayScanner(), [], bytearray()
    data = b"".join(each.encode() for each in (row, long, row, tree, long, row))
    for place in range(0, len(data), piece):
        for item in scanner.feed(data[place : place + piece]):
            if isinstance(item, Frame):
                frames.append(item)
            else:
                rows += item
        sizes.append(len(scanner._held))
    assert bytes(rows) == row.encode() * 3
    assert frames[1].data == tree.encode()
    for frame in (frames[0], frames[2]):
        assert HEADER.unpack_from(frame.data) == (kind.type, len(frame.data) - 1)
        fields = dict(kind.decode(frame.body, strict=False).fields)
        text = fields.pop("W")
        assert fields == {"S": "ERROR", "C": "57014", "M": "short", "R": "raise"}
        assert (text.startswith("beginxxx"), text.endswith("xxxend"), len(text) < 20_000) == (True, True, True)
    assert max(sizes[: 1 + (len(row.encode()) * 2 + len(long.encode())) // piece]) < 20_000 + piece


@pytest.mark.parametrize("piece_bytes", [100_000, 2**20, 2**23])
def test_large_frames_are_given_as_they_were_collected(piece_bytes: int) -> None:
    body = bytes(range(256)) * (3 * 2**12) + b"\0"
    sent = b"".join(
        kind + (len(each) + 4).to_bytes(4) + each
        for kind, each in ((b"Q", body), (b"S", b""), (b"Q", body), (b"S", b""))
    )
    reader, found = FrameReader(), []
    for start in range(0, len(sent), piece_bytes):
        reader.feed(sent[start : start + piece_bytes])
        while (frame := reader.next_frame()) is not None:
            found.append((frame.type, frame.body))
    assert found == [(ord("Q"), body), (ord("S"), b"")] * 2
    assert reader.buffered == 0


def test_a_large_copy_data_comes_in_parts_and_what_is_left_of_it_can_be_dropped() -> None:
    body = bytes(range(256)) * 2**13
    sent = b"d" + (len(body) + 4).to_bytes(4) + body + b"d\0\0\0\6xy" + b"S\0\0\0\4"
    reader, found, most = FrameReader(), b"", 0
    for start in range(0, len(sent), 1000):
        reader.feed(sent[start : start + 1000])
        found += reader.next_copy_data()
        most = max(most, reader.buffered)
    assert found == body + b"xy"
    assert most < 1000
    assert reader.next_frame() == (ord("S"), b"S\0\0\0\4")
    reader = FrameReader()
    reader.feed(sent[:5000])
    assert reader.next_copy_data() == body[:4995]
    assert reader.next_frame() is None
    for start in range(5000, len(sent), 1000):
        reader.feed(sent[start : start + 1000])
        frame = reader.next_frame()
    assert frame == (ord("d"), b"d\0\0\0\6xy")
    assert reader.next_frame() == (ord("S"), b"S\0\0\0\4")
