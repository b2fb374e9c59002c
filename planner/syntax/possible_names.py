"""The words of functions' texts that may be names. Nothing is parsed.

Words stand as they are and in lower case; quoted ones in their quotes, too; a name behind that of its schema as
`schema.name`; the schemas that functions search as `schema.*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

# Characters of a text that are searched: finding the words of a longer one blocks the interpreter.
LENGTH_MAX: Final = 65_536
_WORDS: Final = re.compile(r"[^\W\d][\w$]*+")
# From the beginning of each word: else a long one takes as many steps as the square of its length.
_QUALIFIED: Final = re.compile(r'(?<![\w$])([^\W\d][\w$]*+)(?="?\s{0,9}\.\s{0,9}"?([^\W\d][\w$]*+))')
_QUOTED: Final = re.compile(r'"[^\W\d][\w$]*+"')
_PATH: Final = re.compile(r"search_path=(.*)")
# Words that are no names of tables unless they are quoted: else a table of anybody's that has such a name would count
# as named by everybody's functions.
_NO_NAMES: Final = frozenset(
    """
    all analyse analyze and any array as asc asymmetric begin both by call case cast check close collate column
    commit constraint continue copy create current_catalog current_date current_role current_time
    current_timestamp current_user cursor declare default deferrable delete desc diagnostics distinct do drop
    else elsif end except exception execute exists exit false fetch for foreach foreign found from function get
    grant group having if in initially insert intersect into is lateral leading limit localtime localtimestamp
    loop merge move new next not notice null of offset old on only open or order perform placing primary
    procedure query raise record references return returning returns rollback row_count select session_user set
    setof some sqlerrm sqlstate strict symmetric system_user table tg_op then to trailing trigger true union
    unique update user using values variadic void when where while window with
    """.split()  # noqa: SIM905  one word a line would be a page
)


def words_in(texts: Sequence[str], settings: Iterable[str]) -> set[str]:
    """Return the words of these texts, and `schema.*` for the schemas of search paths in these SET clauses."""
    found = set[str]()
    for text in texts:
        searched = text[:LENGTH_MAX]
        found |= {name for word in _WORDS.findall(searched) for name in (word, word.lower())}
        found.update(_QUOTED.findall(searched))
        for schema, name in _QUALIFIED.findall(searched):
            found |= {f"{schema}.{name}", f"{schema}.{name}".lower()}
    paths = (each for setting in settings for each in _PATH.findall(setting))
    found.update(f"{schema}.*" for path in paths for schema in _WORDS.findall(path))
    return found


def names_in(words: Iterable[str], *, of_tables: bool = False) -> tuple[set[str], set[str]]:
    """Return those that may be names (`of_tables`: no words of statements), without schemas, and with their schemas."""
    names, qualified = set[str](), set[str]()
    for word in words:
        if "." in word:
            qualified.add(word)
        elif word.startswith('"'):
            names.add(word[1:-1])
        elif not of_tables or word not in _NO_NAMES:
            names.add(word)
    return names, qualified
