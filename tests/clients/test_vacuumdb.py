"""vacuumdb of a whole database: also of tables that only gateways know, which a role may or may not vacuum."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

from catalog.postgres.embedded import binaries
from tests.servers import Server


@pytest.mark.parametrize("options", [[], ["--analyze-only", "--jobs=2"]], ids=["vacuum", "analyze"])
@pytest.mark.parametrize("owner", [True, False])
def test_it_goes_through_all_schemas(target: Server, owner: bool, options: list[str]) -> None:
    role = "" if owner else "?options=-c%20role%3Dvacuuming_guest"
    with psycopg.connect(target.url, autocommit=True) as client:
        client.execute("CREATE ROLE vacuuming_guest; GRANT vacuuming_guest TO sluice WITH SET TRUE")
        try:
            url = f"{target.url}{role}"
            command = [str(binaries() / "vacuumdb"), *options, "--dbname", url]
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        finally:
            client.execute("DROP ROLE vacuuming_guest")
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr
    assert "skipping it" in done.stderr
