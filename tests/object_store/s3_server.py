"""An S3 server in this process: moto's, with faults that a test asks for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

REGION: Final = "us-east-1"
BUCKET: Final = "lake-of-tests"
# What a process needs to reach it, as the AWS SDK takes it.
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "a-key-of-tests",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_CODES: Final = {403: "AccessDenied", 500: "InternalError", 503: "SlowDown"}


@dataclass
class Request:
    """What was asked."""

    method: str
    path: str
    query: str
    agent: str = ""


@dataclass
class S3Server:
    """The server, with one bucket. Use as a context manager.

    `fault` sees each request, and says with which status it fails; None lets it pass. `cuts` says which answers lose
    their last half.
    """

    requests: list[Request] = field(default_factory=list)
    fault: Callable[[Request], int | None] = lambda _: None
    cuts: Callable[[Request], bool] = lambda _: False
    seconds: float = 0.0  # that each answer takes longer

    def __enter__(self) -> Self:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._moto: Any = DomainDispatcherApplication(create_backend_app)
        self._server: BaseWSGIServer = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        self.client.create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()
        self.client.delete_bucket(Bucket=BUCKET)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def heal(self) -> None:
        """No more faults."""
        self.fault, self.cuts, self.seconds = lambda _: None, lambda _: False, 0.0

    def objects(self) -> dict[str, int]:
        """The objects and their sizes, without the markers of folders."""
        return {key: size for key, size in self._objects() if not key.endswith("/")}

    def clear(self) -> None:
        """Delete all objects."""
        for key, _ in self._objects():
            self.client.delete_object(Bucket=BUCKET, Key=key)

    def _objects(self) -> list[tuple[str, int]]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [(each["Key"], each["Size"]) for page in pages for each in page.get("Contents", [])]

    def body(self, key: str) -> bytes:
        """An object's content."""
        content: bytes = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content

    def replace(self, key: str, body: bytes) -> None:
        """Give an object another content."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def _answer(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        agent = environment.get("HTTP_USER_AGENT", "")
        query = environment.get("QUERY_STRING", "")
        request = Request(environment["REQUEST_METHOD"], environment["PATH_INFO"], query, agent)
        if "boto" in agent.lower():
            answer: Iterable[bytes] = self._moto(environment, start)
            return answer
        self.requests.append(request)
        time.sleep(self.seconds)
        status = self.fault(request)
        if status is not None:
            code = _CODES[status]
            start(f"{status} Fault", [("Content-Type", "application/xml")])
            return [f"<Error><Code>{code}</Code><Message>a fault of the test's</Message></Error>".encode()]
        answer = self._moto(environment, start)
        if not self.cuts(request):
            return answer
        whole = b"".join(answer)
        return [whole[: len(whole) // 2]]
