"""The numbers of a sequence that does not exist at the moment."""

from __future__ import annotations

import pytest

from catalog.errors import SluiceError
from gateway.transaction.ddl_sequences import OwnedSequence


def _sequence(
    *, increment: int = 1, minimum: int = 1, maximum: int = 2**63 - 1, cycles: bool = False, last: int = 1
) -> OwnedSequence:
    return OwnedSequence(
        owner=(1, 2, "i"),
        oid=3,
        file=4,
        name="s",
        qualified="public.s",
        increment=increment,
        minimum=minimum,
        maximum=maximum,
        cycles=cycles,
        last=last,
        is_called=False,
    )


def test_they_go_on() -> None:
    sequence = _sequence(increment=10, last=5)
    assert sequence.take(0).tolist() == []
    assert not sequence.is_called
    assert sequence.take(3).tolist() == [5, 15, 25]
    assert (sequence.last, sequence.is_called) == (25, True)
    assert sequence.take(1).tolist() == [35]


@pytest.mark.parametrize(
    ("increment", "bounds", "last", "said"),
    [
        (1, (1, 2), 1, 'nextval: reached maximum value of sequence "s" (2)'),
        (-2, (-4, -1), -1, 'nextval: reached minimum value of sequence "s" (-4)'),
        (2**62, (1, 2**63 - 1), 1, f'nextval: reached maximum value of sequence "s" ({2**63 - 1})'),
    ],
)
def test_they_end(increment: int, bounds: tuple[int, int], last: int, said: str) -> None:
    sequence = _sequence(increment=increment, minimum=bounds[0], maximum=bounds[1], last=last)
    assert sequence.take(2).tolist() == [last, last + increment]
    with pytest.raises(SluiceError) as refused:
        sequence.take(1)
    assert (refused.value.sqlstate, refused.value.message) == ("2200H", said)
    assert sequence.last == last + increment


@pytest.mark.parametrize(
    ("increment", "bounds", "last", "expected"),
    [
        (1, (1, 3), 2, [2, 3, 1, 2, 3, 1, 2, 3]),
        (2, (1, 4), 4, [4, 1, 3, 1, 3, 1, 3, 1]),
        (-3, (-7, -1), -4, [-4, -7, -1, -4, -7, -1, -4, -7]),
    ],
)
def test_they_begin_again(increment: int, bounds: tuple[int, int], last: int, expected: list[int]) -> None:
    sequence = _sequence(increment=increment, minimum=bounds[0], maximum=bounds[1], cycles=True, last=last)
    assert sequence.take(5).tolist() + sequence.take(3).tolist() == expected
