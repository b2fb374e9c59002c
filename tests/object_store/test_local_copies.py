"""Local copies of an object store's files: what stays, what goes, and what is fetched anew."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from storage.parquet.local_copies import LocalCopies


class Source:
    """What is fetched from, and how often."""

    def __init__(self) -> None:
        self.fetched: list[str] = []

    def of(self, name: str, size: int = 10) -> Callable[[Path], None]:
        def fetch(place: Path) -> None:
            self.fetched.append(name)
            place.write_bytes(name.encode()[:1] * size)

        return fetch


def read(copies: LocalCopies, source: Source, name: str) -> bytes:
    with copies.held(name, 10, source.of(name)) as place:
        return place.read_bytes()


@pytest.fixture
def copies(tmp_path: Path) -> LocalCopies:
    return LocalCopies(tmp_path / "copies", 25)


def test_a_copy_is_fetched_once(copies: LocalCopies) -> None:
    source = Source()
    assert read(copies, source, "t/a") == read(copies, source, "/t/a") == b"t" * 10
    assert source.fetched == ["t/a"]


def test_the_least_recently_used_goes(copies: LocalCopies) -> None:
    source = Source()
    for name in ("a", "b", "a", "c"):
        read(copies, source, name)
    assert (copies.has("a"), copies.has("b"), copies.has("c")) == (True, False, True)
    assert not copies.place("b").exists()
    assert sum(place.stat().st_size for place in copies.folder.rglob("*") if place.is_file()) == 20
    assert read(copies, source, "b") == b"b" * 10


def test_what_is_held_stays_beyond_the_limit(copies: LocalCopies) -> None:
    source = Source()
    with ExitStack() as held:
        places = [held.enter_context(copies.held(name, 10, source.of(name))) for name in "abcd"]
        assert all(place.exists() for place in places)
    assert sum(place.exists() for place in places) == 2


def test_a_new_file_stays_until_it_is_stored(copies: LocalCopies) -> None:
    source = Source()
    copies.begin("new").write_bytes(b"n" * 10)
    for name in "abc":
        read(copies, source, name)
    assert copies.place("new").exists()
    copies.stored("new", 10)
    assert read(copies, source, "new") == b"n" * 10
    assert "new" not in source.fetched
    for name in "def":
        read(copies, source, name)
    assert not copies.place("new").exists()


@pytest.mark.parametrize("damage", [Path.unlink, lambda place: place.write_bytes(b"")])
def test_a_copy_that_was_changed_is_fetched_anew(copies: LocalCopies, damage: Callable[[Path], object]) -> None:
    source = Source()
    read(copies, source, "a")
    damage(copies.place("a"))
    assert read(copies, source, "a") == b"a" * 10
    assert source.fetched == ["a", "a"]


def test_many_readers_wait_for_one_fetch(copies: LocalCopies) -> None:
    source, go = Source(), Event()

    def slow(place: Path) -> None:
        go.wait(10)
        source.of("a")(place)

    def hold(_: int) -> bytes:
        with copies.held("a", 10, slow) as place:
            return place.read_bytes()

    with ThreadPoolExecutor(8) as threads:
        reads = [threads.submit(hold, number) for number in range(8)]
        go.set()
        assert {each.result() for each in reads} == {b"a" * 10}
    assert source.fetched == ["a"]


def test_all_who_wait_learn_that_a_fetch_failed_and_the_next_tries_again(copies: LocalCopies) -> None:
    source, go = Source(), Event()

    def failing(place: Path) -> None:
        place.write_bytes(b"a")
        go.wait(10)
        raise OSError(5, "a fault of the test's")

    def hold(_: int) -> str:
        try:
            with copies.held("a", 10, failing):
                return "held"
        except OSError as error:
            return str(error)

    with ThreadPoolExecutor(4) as threads:
        held = [threads.submit(hold, number) for number in range(4)]
        go.set()
        assert {each.result() for each in held} == {"[Errno 5] a fault of the test's"}
    assert not list(copies.folder.rglob("*.fetching"))
    assert read(copies, source, "a") == b"a" * 10


def test_removed_while_it_is_fetched(copies: LocalCopies) -> None:
    source = Source()

    def fetch(place: Path) -> None:
        copies.remove("a")
        source.of("a")(place)

    with copies.held("a", 10, fetch):
        pass
    for name in "bcd":
        read(copies, source, name)
    assert [copies.has(name) for name in "bcd"] == [False, True, True], "the limit holds still"


def test_begins_empty(copies: LocalCopies) -> None:
    read(copies, Source(), "t/a")
    assert not LocalCopies(copies.folder, 25).has("t/a")
    assert not list(copies.folder.iterdir())
