"""The server of versitygw.Dockerfile: moto's S3, and the page by which its health is asked for."""  # noqa: INP001 (no package)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_S3: Any = DomainDispatcherApplication(create_backend_app)


def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """As Versity's server does at the paths that docker/compose.yaml asks for."""
    if environment["PATH_INFO"] == "/health":
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"OK"]
    answered: Iterable[bytes] = _S3(environment, start)
    return answered


if __name__ == "__main__":
    run_simple("0.0.0.0", 7070, answer, threaded=True)
