"""kill -9 in the middle of a procedure that commits batch by batch: whole batches stay, the one on its way goes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.chaos.test_kill import Kill, kill_gateway, kill_postgres, settled, with_ledger
from tests.chaos.workload import Statement, execute
from tests.servers import GatewayProcess

pytestmark = pytest.mark.soak

_SETUP = """
CREATE TABLE batch (n integer PRIMARY KEY, told integer);
CREATE PROCEDURE move(size integer) LANGUAGE plpgsql AS $$
DECLARE moved integer;
BEGIN
    FOR i IN 1..1000 LOOP
        INSERT INTO ledger SELECT i, g, 'row' FROM generate_series(1, size) g;
        INSERT INTO batch VALUES (i, 0);
        COMMIT;
        UPDATE batch SET told = size WHERE n = i;
        GET DIAGNOSTICS moved = ROW_COUNT;
        IF moved <> 1 THEN RAISE EXCEPTION 'batch % is gone', i; END IF;
        COMMIT;
    END LOOP;
END $$;
"""
_WHOLE = """
SELECT (SELECT count(*) FROM batch), (SELECT max(n) FROM batch),
    (SELECT count(*) FROM (SELECT id FROM ledger GROUP BY id HAVING count(*) = 7) AS whole),
    (SELECT count(DISTINCT id) FROM ledger), (SELECT count(*) FROM batch WHERE told = 0)
"""


@pytest.fixture(scope="module")
def process() -> Iterator[GatewayProcess]:
    with with_ledger("chaos-procedures") as process:
        process.server.psql("-q", sql=_SETUP)
        yield process


@pytest.mark.parametrize("kill", [kill_gateway, kill_postgres])
def test_in_the_middle(process: GatewayProcess, kill: Kill) -> None:
    execute(process.server, "TRUNCATE ledger, batch")
    running = Statement(lambda: execute(process.server, "CALL move(7)"))
    time.sleep(random.uniform(2.0, 4.0))
    kill(process)
    running.wait()
    assert not running.acknowledged
    settled(process)
    [[batches, last, whole, begun, untold]] = process.server.query(_WHOLE)
    assert int(batches) == int(last) == int(whole) == int(begun) > 0
    assert int(untold) <= 1
