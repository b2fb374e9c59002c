"""The evidence that no answer is wrong: `python -m tests.answers.evidence FILE [--sessions N] [--only PIECE …]`.

FILE keeps the tallies; `tests/answers/evidence.jsonl` has those so far, with the builds that were asked. The same
command continues an interrupted run; `--sum` only prints what the file has. Of all queries half are asked with a
gateway's defaults, where Spark interprets queries over few rows, and most others with all rows in files, for which
Spark makes code. The same numbers are the same queries under any stage.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.answers.asking import Counts
from tests.answers.pieces import Piece
from tests.answers.stages import Stage
from tests.answers.tallies import Tallies
from tests.house.test_refusals import listed

_FILES: Final = ("sluice.hot_rows=0",)
PIECES: Final = {
    "queries": Piece(Stage(), "queries", "evidence", 50_000),
    "files": Piece(Stage(settings=_FILES), "queries", "evidence files", 38_000),
    "shuffled": Piece(Stage(shuffled=1), "queries", "evidence shuffled", 10_000),
    "workers": Piece(Stage(workers=2), "queries", "evidence workers", 2_000),
    "changes": Piece(Stage(), "changes", "evidence", 6_000),
    "changes in files": Piece(Stage(settings=_FILES), "changes", "evidence files", 4_000),
    "partitions": Piece(Stage(), "partitions", "evidence", 100),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tallies", type=Path, metavar="FILE")
    parser.add_argument("--sessions", type=int, default=2, help="how many ask at once")
    parser.add_argument("--only", action="append", choices=PIECES, help="this piece; may be repeated")
    parser.add_argument("--sum", action="store_true", help="ask nothing")
    parser.add_argument("--join", action="store_true", help="ask nothing; join the file's lines")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that its servers end, too
    tallies = Tallies(given.tallies)
    chosen = [PIECES[name] for name in given.only or PIECES]
    try:
        if given.join:
            tallies.join()
        for piece in () if given.sum or given.join else chosen:
            _ask(piece, tallies, given.sessions)
    except KeyboardInterrupt:
        print("stopped: the same command goes on")
    text, wrong = summed(chosen, tallies)
    print(text)
    return 1 if wrong else 0


def _ask(piece: Piece, tallies: Tallies, sessions: int) -> None:
    if sum(tally.count for tally in tallies.of(piece.run)) < piece.count:
        with replace(piece.stage, sessions=sessions).open() as askers:
            piece.ask(tallies, askers)


def summed(pieces: Iterable[Piece], tallies: Tallies) -> tuple[str, int]:
    """A table of what came out, the kinds of refusals and of errors, and how many answers were wrong.

    The rate is a session's.
    """
    rows = ["asked | of | what | seed | stage | same | alike | refused | slow | different | each second | builds"]
    total, wrong = Counts(), 0
    for piece in pieces:
        run, found = piece.run, tallies.of(piece.run)
        counts, different = tallies.sum(run)
        asked, seconds = sum(each.count for each in found), sum(each.seconds for each in found)
        stage = run.stage if run.shuffled is None else f"{run.stage}, shuffled {run.shuffled}"
        figures = counts.same, counts.alike.total(), counts.refused.total(), counts.slow, different
        rate, builds = f"{asked / seconds:.2f}" if seconds else "-", ", ".join(sorted({each.build for each in found}))
        words = (asked, piece.count, run.what, run.seed, stage, *figures, rate, builds)
        rows.append(" | ".join(map(str, words)))
        total.refused.update(counts.refused)
        total.alike.update(counts.alike)
        wrong += different
    rows += [f"not in docs/refusals.md: {message}" for message in total.refused if not _is_listed(message)]
    return "\n".join(rows) + "\n" + total.kinds(), wrong


def _is_listed(message: str) -> bool:
    """Whether a line of docs/refusals.md has the words of a refusal."""
    text = message.removesuffix(" is not supported on lake tables")
    texts = [refused for refusals in listed().values() for refused in refusals]
    return any(re.fullmatch(".+".join(map(re.escape, each.split("…"))), text) for each in texts)


if __name__ == "__main__":
    sys.exit(main())
