"""The gateway's own certificate."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from catalog.errors import SluiceError
from gateway.server.certificate import ensure_certificate


def test_files_are_private_and_kept(tmp_path: Path) -> None:
    certificate, key = ensure_certificate(tmp_path / "new", "gateway.example")
    before = certificate.read_bytes(), key.read_bytes()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (certificate, key)] == [0o600, 0o600]
    certificate.chmod(0o644)
    assert ensure_certificate(tmp_path / "new", "gateway.example") == (certificate, key)
    assert (certificate.read_bytes(), key.read_bytes()) == before
    assert stat.S_IMODE(certificate.stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["server.crt", "server.key"]


@pytest.mark.parametrize("damage", ["missing key", "missing certificate", "another key", "garbage"])
def test_a_damaged_pair_is_made_anew(tmp_path: Path, damage: str) -> None:
    certificate, key = ensure_certificate(tmp_path, "localhost")
    if damage == "missing key":
        key.unlink()
    elif damage == "missing certificate":
        certificate.unlink()
    elif damage == "another key":
        _, other = ensure_certificate(tmp_path / "other", "localhost")
        key.write_bytes(other.read_bytes())
    else:
        certificate.write_bytes(b"not a certificate")
    ensure_certificate(tmp_path, "localhost")
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)


@pytest.mark.parametrize("hostname", ["localhost", "127.0.0.1", "gateway.example", "::1"])
def test_a_client_given_the_certificate_verifies_the_gateway(tmp_path: Path, hostname: str) -> None:
    certificate, key = ensure_certificate(tmp_path, hostname)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(certificate))
    left, right = socket.socketpair()
    accepted: list[str | None] = []

    def accept() -> None:
        with server.wrap_socket(left, server_side=True) as wrapped:
            accepted.append(wrapped.version())

    thread = threading.Thread(target=accept)
    thread.start()
    with client.wrap_socket(right, server_hostname=hostname) as wrapped:
        assert wrapped.version() == "TLSv1.3"
    thread.join()
    assert accepted == ["TLSv1.3"]


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SluiceError, match="cannot write the certificate"):
        ensure_certificate(tmp_path / "file" / "inside", "localhost")
