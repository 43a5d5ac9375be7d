"""Certificates of tests/data/web, and what a server or a client makes of them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import bcrypt

from gpumond.exporter.web.access import WebAccess
from gpumond.exporter.web.web_file import load_web_file

CERTIFICATES = Path(__file__).parents[1] / "data/web"
AT = datetime(2026, 11, 29, tzinfo=UTC)

PASSWORD = "correct horse"
HASHED = (
    bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4, b"2a")).decode().replace("$2a$", "$2y$")
)  # as htpasswd


def write_web_file(directory: Path, *, certificate: str = "server", more: str = "", users: str = "") -> Path:
    """A web configuration file; `more` are further lines of tls_server_config."""
    path = directory / "web.yml"
    lines = [
        "tls_server_config:",
        f"  cert_file: {CERTIFICATES / certificate}.pem",
        f"  key_file: {CERTIFICATES / certificate}.key",
        *(f"  {line}" for line in more.splitlines()),
    ]
    if users:
        lines += ["basic_auth_users:", f"  {users}: {HASHED}"]
    path.write_text("\n".join(lines))
    return path


def load(directory: Path, **choices: str) -> WebAccess:
    return load_web_file(write_web_file(directory, **choices), now=AT)


def with_clients(directory: Path, *, sans: str = "") -> WebAccess:
    """An access that wants a certificate of `ca`."""
    more = f"client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: {CERTIFICATES / 'ca.pem'}"
    return load(directory, more=f"{more}\nclient_allowed_sans: [{sans}]" if sans else more)


def client(certificate: str = "") -> ssl.SSLContext:
    """A client that trusts `ca` only, with a certificate of its own where one is named."""
    context = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))
    if certificate:
        context.load_cert_chain(CERTIFICATES / f"{certificate}.pem", CERTIFICATES / f"{certificate}.key")
    return context
