"""The README's first session, typed into psql line by line, prints what the README prints."""

from __future__ import annotations

import re

from tests.house.test_readme import section
from tests.servers import Server


def test_the_readmes_first_session(gateway: Server) -> None:
    shown = section("A first session").partition("    $ psql ")[2].partition("\n\n`")[0]
    text = "".join(line.removeprefix("    ") for line in f"{shown}\n".splitlines(keepends=True))
    typed = re.findall(r"^sluice=> (.*?)\n(.*?)(?=^sluice=> |\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(typed) == 5
    setting = "CREATE SCHEMA first_session; SET search_path = first_session;"
    script = "\n".join(f"\\echo -- {number}\n{statement}" for number, (statement, _) in enumerate(typed))
    printed = gateway.psql("-q", sql=f"{setting}\n\\unset QUIET\n{script}").stdout
    gateway.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA first_session CASCADE")
    outputs = re.findall(r"^-- \d\n(.*?)(?=^-- \d\n|\Z)", printed, re.MULTILINE | re.DOTALL)
    assert outputs == [output for _, output in typed]
