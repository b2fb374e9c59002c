"""Makes the gateway's self-signed TLS certificate if there is none, for encryption rather than for trust."""

from __future__ import annotations

import datetime
import fcntl
import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from catalog.errors import SluiceError, SqlState

_LIFETIME: Final = datetime.timedelta(days=825)
_RENEW_BEFORE: Final = datetime.timedelta(days=30)


def ensure_certificate(directory: Path, hostname: str) -> tuple[Path, Path]:
    """(certificate, key) in `directory`, made if missing, damaged or about to expire; both files have mode 0600.

    Raises one clear error if they cannot be written.
    """
    certificate_path, key_path = directory / "server.crt", directory / "server.key"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        with _alone(directory):
            if _is_current(certificate_path, key_path):
                for path in (certificate_path, key_path):
                    path.chmod(0o600)
            else:
                _make(hostname, certificate_path, key_path)
    except OSError as error:
        raise SluiceError(
            SqlState.IO_ERROR, f"cannot write the certificate in {directory}: {error.strerror}"
        ) from error
    return certificate_path, key_path


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """A lock: another gateway that starts at the same time waits."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(hostname: str, certificate_path: Path, key_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostname or "sluice")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_alternative(hostname)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    _write(
        key_path,
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    _write(certificate_path, certificate.public_bytes(pem))


def _alternative(hostname: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(hostname))
    except ValueError:
        return x509.DNSName(hostname or "localhost")


def _is_current(certificate_path: Path, key_path: Path) -> bool:
    """Whether the certificate exists, is complete, belongs to the key, and is valid for a while."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    except (OSError, ValueError):
        return False
    if certificate.public_key() != key.public_key():
        return False
    return certificate.not_valid_after_utc - _RENEW_BEFORE > datetime.datetime.now(datetime.UTC)


def _write(path: Path, content: bytes) -> None:
    """Write atomically, and never readable to other users."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.replace(path)
