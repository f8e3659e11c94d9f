"""The certificate of a team server: given by its owner, or made once and known by its fingerprint from then on."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from runyard.core.config.paths import server_folder
from runyard.core.errors import ServerNotStarted

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_DAYS = 3650  # clients trust this one certificate, so it need not be short-lived
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def ensure_certificate(home: Path, names: Sequence[str]) -> tuple[Path, Path]:
    """Return certificate and key below the home, made for these names and addresses when they are not there yet.

    The caller holds the home's lock.
    """
    folder = server_folder(home) / "tls"
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    if not certificate.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        made, secret = make_certificate(names)
        # The key first: a certificate that is there has its key.
        _write(key, secret)
        _write(certificate, made)
    return certificate, key


def make_certificate(names: Sequence[str], *, now: datetime | None = None) -> tuple[bytes, bytes]:
    """Return a self-signed certificate and its key, both PEM."""
    # Takes 40 ms to import, and is needed once in a home's life.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    start = (now or datetime.now(timezone.utc)) - timedelta(hours=1)  # clocks differ
    key = ec.generate_private_key(ec.SECP256R1())
    owner = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Runyard server")])
    made = (
        x509.CertificateBuilder()
        .subject_name(owner)
        .issuer_name(owner)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), secret


def load_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a listener speaks TLS with.

    Raises:
        ServerNotStarted: the files cannot be read or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise ServerNotStarted(
            "The server's certificate cannot be used.",
            why=f"{certificate} with the key {key}: {error}.",
            hint="Both must be PEM files that the server's user can read, the key without a password and of that "
            "certificate.",
        ) from error
    return context


def fingerprint_of(certificate: Path) -> str:
    """Return the SHA-256 of the file's first certificate: the server's own stands first."""
    found = _PEM.search(certificate.read_bytes())
    der = ssl.PEM_cert_to_DER_cert(found[0].decode("ascii")) if found else b""
    return hashlib.sha256(der).hexdigest()


def is_self_signed(certificate: Path) -> bool:
    """Whether no authority stands behind it, so that only its fingerprint can be trusted."""
    # As above.
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    return found.issuer == found.subject


def _general_name(name: str) -> GeneralName:
    # As above.
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _no_password() -> str:
    raise ValueError("the key has a password")
