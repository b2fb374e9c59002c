"""Sequences of messages, made from a seed: mostly well-formed ones, with clients' errors among them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.wire.messages import frontend
from gateway.wire.messages.copy import CopyData, CopyDone, CopyFail
from gateway.wire.messages.layout import Message
from tests.in_step.vocabulary import INT4, KINDS, LINES, REPEATED, TEXT, Worded

_STATEMENTS: Final = ("", "a", "b")
_PORTALS: Final = ("", "p", "c")
_NAMES: Final = {"P": _PORTALS, "S": _STATEMENTS}
_LIMITS: Final = (0, 0, 0, 1, 2)
_INT4PL: Final = 177
ASLEEP: Final = "asleep"


@dataclass(frozen=True)
class Unknown(Message):
    """A message of a type that there is none of."""

    type = ord("y")


@dataclass(frozen=True)
class Cancel:
    """A CancelRequest, once the server says that it is in a statement that sleeps."""


Step = Message | Cancel


class Maker:
    """Makes one sequence."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def sequence(self) -> list[Step]:
        """Some steps; what ends the connection comes last."""
        draw = self._random
        steps: list[Step] = []
        for _ in range(draw.randrange(2, 9)):
            [make] = draw.choices(*zip(*_PARTS, strict=True))
            steps.extend(make(self))
        if draw.random() < 0.05:
            steps.append(draw.choice((frontend.Terminate(), Unknown())))
        return steps

    def worded(self) -> Worded:
        draw = self._random
        [(_, statements)] = draw.choices(list(KINDS.values()), [weight for weight, _ in KINDS.values()])
        return draw.choice(statements)

    def simple(self) -> Iterator[Step]:
        draw = self._random
        count = draw.choice((1, 1, 1, 2, 3))
        texts = [self.worded() for _ in range(count)]
        yield frontend.Query("; ".join(_literal(each) for each in texts))
        if any(each.sql.endswith("STDIN") for each in texts) and draw.random() < 0.9:
            yield from self.copied()

    def copied(self) -> Iterator[Step]:
        draw = self._random
        for _ in range(draw.randrange(3)):
            yield CopyData(draw.choice(LINES))
            if draw.random() < 0.1:
                yield draw.choice((frontend.Flush(), frontend.Sync()))
        if draw.random() < 0.95:
            yield draw.choice((CopyDone(), CopyDone(), CopyFail("changed my mind")))

    def whole(self) -> Iterator[Step]:
        """Parse to Execute, as drivers send them; Sync behind, mostly."""
        draw = self._random
        each = self.worded()
        statement, portal = draw.choice(("", "", "", "a", "b")), draw.choice(("", "", "", "p", "c"))
        if statement and draw.random() < 0.7:
            yield frontend.Close(b"S", statement)
        yield frontend.Parse(statement, each.sql, self.types(each))
        if draw.random() < 0.3:
            yield frontend.Describe(b"S", statement)
        if draw.random() < 0.1:
            yield frontend.Flush()
        yield self.bound(portal, statement, each)
        if draw.random() < 0.5:
            yield frontend.Describe(b"P", portal)
        for _ in range(draw.choice((1, 1, 1, 2))):
            yield frontend.Execute(portal, draw.choice(_LIMITS))
        ahead = draw.random() < 0.3
        if ahead:
            yield frontend.Sync()
        if each.sql.endswith("STDIN"):
            yield from self.copied()
        if portal and draw.random() < 0.3:
            yield frontend.Close(b"P", portal)
        if not ahead and draw.random() < 0.7:
            yield frontend.Sync()

    def repeated(self) -> Iterator[Step]:
        """One INSERT again and again with other values, as drivers send batches; some of them are wrong."""
        draw = self._random
        statement = draw.choice(("", "a"))
        if statement:
            yield frontend.Close(b"S", statement)
        yield frontend.Parse(statement, draw.choice(REPEATED))
        limit = draw.choice((0, 0, 0, 0, 1))
        describes = draw.random() < 0.5
        for _ in range(draw.randrange(2, 8)):
            number = draw.choice((b"1", b"5", b"x", None)) if draw.random() < 0.08 else b"%d" % draw.randrange(30, 90)
            yield frontend.Bind("", statement, (), (number, b"again"), ())
            if describes:
                yield frontend.Describe(b"P", "")
            yield frontend.Execute("", limit)
            if draw.random() < 0.04:
                yield frontend.Sync()
        if draw.random() < 0.9:
            yield frontend.Sync()

    def types(self, each: Worded) -> tuple[int, ...]:
        draw = self._random
        if draw.random() < 0.85:
            return ()
        return draw.choice(((0,) * len(each.values), (INT4,), (TEXT, TEXT), (INT4,) * 5, (999999,)))

    def bound(self, portal: str, statement: str, each: Worded) -> frontend.Bind:
        draw = self._random
        values: tuple[bytes | None, ...] = each.values
        formats: tuple[int, ...] = ()
        results: tuple[int, ...] = draw.choice(((), (), (0,), (1,)))
        chance = draw.random()
        if chance < 0.06:
            values = (*values, b"1")
        elif chance < 0.12 and values:
            values = values[:-1]
        elif chance < 0.16 and values:
            values = (b"not a number", *values[1:])
        elif chance < 0.20 and values:
            values = (None, *values[1:])
        elif chance < 0.24 and each.values and each.values[0].isdigit():
            values = (struct.pack("!i", int(each.values[0])), *values[1:])
            formats = (1, *(0,) * (len(values) - 1))
        elif chance < 0.26:
            formats = (0, 1, 0)
        elif chance < 0.28:
            results = (0, 1, 0, 1)
        elif chance < 0.29:
            results = (7,)
        return frontend.Bind(portal, statement, formats, values, results)

    def single(self) -> Iterator[Step]:
        """A message of the extended protocol by itself, of whatever there is or is not."""
        draw = self._random
        kind = draw.choice("PS")
        name = draw.choice(_NAMES[kind])
        each = self.worded()
        yield draw.choice(
            (
                frontend.Parse(draw.choice(_STATEMENTS), each.sql),
                self.bound(draw.choice(_PORTALS), draw.choice(_STATEMENTS), each),
                frontend.Describe(kind.encode(), name),
                frontend.Execute(draw.choice(_PORTALS), draw.choice(_LIMITS)),
                frontend.Close(kind.encode(), name),
                frontend.Describe(b"X", name),
                frontend.Close(b"X", name),
            )
        )

    def end(self) -> Iterator[Step]:
        yield self._random.choice((frontend.Sync(), frontend.Sync(), frontend.Flush()))

    def out_of_place(self) -> Iterator[Step]:
        yield self._random.choice((CopyData(b"1\tx\n"), CopyDone(), CopyFail("no")))

    def call(self) -> Iterator[Step]:
        yield self._random.choice(
            (
                frontend.FunctionCall(_INT4PL, (0,), (b"1", b"2"), 0),
                frontend.FunctionCall(_INT4PL, (1,), (struct.pack("!i", 3), struct.pack("!i", 4)), 1),
                frontend.FunctionCall(_INT4PL, (), (b"1",), 0),
                frontend.FunctionCall(0, (), (), 0),
            )
        )

    def cancelled(self) -> Iterator[Step]:
        yield frontend.Sync()
        yield frontend.Query(f"DO $$BEGIN RAISE WARNING '{ASLEEP}'; PERFORM pg_sleep(20); END$$")
        yield Cancel()


def _literal(each: Worded) -> str:
    """The statement with its values in place of the parameters."""
    text = each.sql
    for number, value in enumerate(each.values, 1):
        text = text.replace(f"${number}", f"'{value.decode()}'")
    return text


_PARTS: Final = (
    (Maker.simple, 30),
    (Maker.whole, 50),
    (Maker.repeated, 8),
    (Maker.single, 12),
    (Maker.end, 8),
    (Maker.out_of_place, 3),
    (Maker.call, 2),
    (Maker.cancelled, 1),
)
