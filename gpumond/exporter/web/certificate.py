"""A certificate and its key as a server's SSLContext, tried before anybody connects.

Owns the questions that OpenSSL answers late or in its own words: is this a certificate and a key, do they belong
together, has it expired, would a client take it for a server's. Knows no file: bytes come in, and a private key never
reaches a disk.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, which Python's ssl does not name: we compare the dates ourselves, and can tell them."""

_FLIGHTS_MAX = 10  # a handshake has three or four


class CertificateError(ValueError):
    """A certificate or key that cannot be served with. `is_key` says which of the two is at fault."""

    def __init__(self, message: str, *, is_key: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_key = is_key


def server_context(certificate: bytes, key: bytes, *, now: datetime) -> ssl.SSLContext:
    """A context for servers that a client would accept at `now`. Raises CertificateError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, certificate, key)
    _check_dates(_as_a_client_sees_it(context, certificate), now)
    return context


def add_client_authorities(context: ssl.SSLContext, authorities: bytes) -> None:
    """Trust these for the certificates of clients. Raises CertificateError."""
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (UnicodeDecodeError, ssl.SSLError) as error:
        raise CertificateError(f"holds no usable certificate in PEM form{_reason(error)}") from error


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    if b"-----BEGIN CERTIFICATE-----" not in certificate:
        raise CertificateError("holds no certificate in PEM form")
    if b"PRIVATE KEY-----" not in key:
        raise CertificateError("holds no private key in PEM form", is_key=True)
    with _in_memory(certificate) as certificate_path, _in_memory(key) as key_path:
        try:
            # Without `password` OpenSSL would ask a terminal for it.
            context.load_cert_chain(certificate_path, key_path, password=_no_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise CertificateError("does not belong to the certificate", is_key=True) from error
            raise CertificateError(
                f"cannot be loaded with its key{_reason(error)}; one of the two is damaged"
            ) from error


def _no_password() -> str:
    raise CertificateError("is encrypted, and there is nobody to ask for the password", is_key=True)


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path of `content`: the ssl module takes nothing else."""
    descriptor = os.memfd_create("gpumond-tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _as_a_client_sees_it(server: ssl.SSLContext, certificate: bytes) -> dict[str, object]:
    """The served certificate, decoded: only a handshake gives that, and only to a client that trusts it."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False  # any name will do: Prometheus may look for another one than this host's
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    try:
        client.load_verify_locations(cadata=certificate.decode("ascii"))
        seen = _shake_hands(server, client).getpeercert()
    except (UnicodeDecodeError, ssl.SSLError) as error:
        raise CertificateError(f"would be refused by clients{_reason(error)}") from error
    if not seen:
        raise CertificateError("would be refused by clients")
    return dict(seen)


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Both ends of a connection in memory, up to the client's end of the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = client.wrap_bio(to_client, to_server)
    for _ in range(_FLIGHTS_MAX):
        with contextlib.suppress(ssl.SSLWantReadError):
            client_end.do_handshake()
            return client_end
        with contextlib.suppress(ssl.SSLWantReadError):
            server_end.do_handshake()
    raise AssertionError("the handshake does not end")


def _check_dates(seen: dict[str, object], now: datetime) -> None:
    begins, ends = (_time_of(seen[key]) for key in ("notBefore", "notAfter"))
    if now > ends:
        raise CertificateError(f"expired at {ends:%Y-%m-%d %H:%M}Z")
    if now < begins:
        raise CertificateError(f"is not valid before {begins:%Y-%m-%d %H:%M}Z")


def _time_of(text: object) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(text)), UTC)


def _reason(error: Exception) -> str:
    """`: reason`, in lower case, from OpenSSL's upper-case words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f": {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f": {error.reason.replace('_', ' ').lower()}"
    return ""
