"""Guesses the keys that functions look up, by the parameters of the statement that calls them.

Most functions look up what they are given: where the last execution of a statement looked up the values of its
parameters, the next one begins with the rows of these keys. Its plans tell, as ever, whether these were all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from catalog.datatypes import INT2, INT4, INT8, TEXT, VARCHAR
from planner.plans.row_filter import WantedKeys

if TYPE_CHECKING:
    from catalog.schema.triggers import KeyPattern
    from planner.spark.plan import Parameter

# As many parameters are compared.
_PARAMETERS_MAX: Final = 20
_NUMBERS: Final = frozenset({INT2, INT4, INT8})
_TEXTS: Final = frozenset({TEXT, VARCHAR})


def pattern_of(keys: WantedKeys, parameters: Sequence[Parameter]) -> KeyPattern | None:
    """The numbers of the parameters, from 0, that have the values of the columns of one key; None if others have."""
    if len(keys.values) != 1:
        return None
    numbers = []
    for value in keys.values[0]:
        kinds = _NUMBERS if type(value) is int else _TEXTS if type(value) is str else frozenset[int]()
        given = enumerate(parameters[:_PARAMETERS_MAX])
        number = next((n for n, each in given if each.type_oid in kinds and each.text == str(value)), None)
        if number is None:
            return None
        numbers.append(number)
    return keys.attnums, tuple(numbers)


def keys_by(pattern: KeyPattern, parameters: Sequence[Parameter]) -> WantedKeys | None:
    """The key that has the values of these parameters; None if one is NULL, which no key has."""
    attnums, numbers = pattern
    given = [parameters[number] for number in numbers if number < len(parameters)]
    if len(given) < len(numbers) or any(each.text is None for each in given):
        return None
    values = (int(each.text or 0) if each.type_oid in _NUMBERS else each.text for each in given)
    return WantedKeys(attnums, [tuple(values)])
