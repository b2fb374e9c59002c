"""An S3 server and a gateway over it, which the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.object_store.s3_server import BUCKET, CREDENTIALS, REGION, S3Server
from tests.servers import GatewayProcess, open_directory

DATA_PATH = f"s3://{BUCKET}/the/lake"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """The server; this process and those that it starts have its credentials."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in CREDENTIALS.items():
            patched.setenv(name, value)
        with S3Server() as server:
            yield server


@pytest.fixture
def healthy(s3: S3Server) -> Iterator[S3Server]:
    """The server, without faults and requests from before."""
    s3.heal()
    s3.requests.clear()
    yield s3
    s3.heal()


def store_options(s3: S3Server) -> tuple[str, ...]:
    """The options by which `sluice` reaches it."""
    return ("--s3-endpoint", s3.endpoint, "--s3-region", REGION)


@pytest.fixture(scope="module")
def stored(s3: S3Server) -> Iterator[GatewayProcess]:
    """A gateway whose lake is in the bucket."""
    with open_directory("stored") as directory:
        arguments = ("--data-path", DATA_PATH, *store_options(s3))
        with GatewayProcess(directory / "data", arguments=arguments) as process:
            yield process
