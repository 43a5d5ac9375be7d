"""The web configuration file of Prometheus exporters (exporter-toolkit's keys) as a WebAccess, or every mistake in it.

Owns the names of the keys, which of them gpumond supports, and the files that they name. Operators bring the file that
they have: so what is not supported is an error that says so, and never ignored. Relative paths start at the file's own
directory. Nothing is read again later: a renewed certificate is picked up by a reload.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from gpumond.config.durations import parse_duration
from gpumond.errors import ConfigError, ConfigProblem
from gpumond.exporter.web.access import RateLimit, TlsAccess, WebAccess
from gpumond.exporter.web.certificate import CertificateError, add_client_authorities, server_context
from gpumond.exporter.web.document import DocumentError, parse_document
from gpumond.exporter.web.passwords import complaint_about
from gpumond.exporter.web.section import Section

FILE_BYTES_MAX: Final = 1 << 20
"""A certificate chain has a few kilobytes."""

_TLS, _HTTP, _USERS, _RATE = "tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS: Final = ("TLS10", "TLS11")

_REQUIRE_AND_VERIFY = "RequireAndVerifyClientCert"
_CLIENT_AUTH: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    _REQUIRE_AND_VERIFY: ssl.CERT_REQUIRED,
}
_UNVERIFIED: Final = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")

_HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",),
    "X-XSS-Protection": (),
    "Strict-Transport-Security": (),
}
"""The five that exporter-toolkit lets a file set, with the values that it allows."""

_NOT_SUPPORTED: Final = {
    "cipher_suites": "OpenSSL chooses, by the policy of this host",
    "curve_preferences": "OpenSSL chooses, by the policy of this host",
    "prefer_server_cipher_suites": "OpenSSL chooses, by the policy of this host",
}


def load_web_file(path: Path, *, now: datetime) -> WebAccess:
    """What the file at `path` says; `now` is what certificates are held against. Raises ConfigError with every problem."""
    problems: list[ConfigProblem] = []
    try:
        root = Section(str(path), "", parse_document(_read(path).decode()), problems)
    except OSError as error:
        hint = (
            "It must be readable for the user that runs gpumond, and hold at least one key, or be left out."
        )
        raise ConfigError((ConfigProblem(str(path), 0, "", _why(error)),), hint=hint) from error
    except UnicodeDecodeError as error:
        raise ConfigError((ConfigProblem(str(path), 0, "", "is not UTF-8"),)) from error
    except DocumentError as error:
        raise ConfigError((ConfigProblem(str(path), error.line, "", error.message),)) from error
    access = WebAccess(
        tls=_tls(root.section(_TLS), path.parent, now),
        users=_users(root.section(_USERS)),
        headers=_headers(root.section(_HTTP)),
        rate_limit=_rate_limit(root.section(_RATE)),
    )
    root.refuse_rest()
    if problems:
        raise ConfigError(tuple(sorted(problems, key=lambda problem: problem.line)))
    return access


# TLS


def _tls(section: Section, directory: Path, now: datetime) -> TlsAccess | None:
    if section.is_empty:
        section.refuse_rest()
        return None
    files = _Files(section, directory)
    certificate, key, authorities = files.content("cert"), files.content("key"), files.content("client_ca")
    mode = _client_auth(section, has_authorities=authorities is not None)
    versions = [_version(section, name) for name in ("min_version", "max_version")]
    sans = section.words("client_allowed_sans")
    if sans and mode is not ssl.CERT_REQUIRED:
        section.complain("client_allowed_sans", f"needs client_auth_type: {_REQUIRE_AND_VERIFY}")
    for name in _NOT_SUPPORTED:
        if section.take(name) is not None:
            section.complain(name, f"is not supported by gpumond: {_NOT_SUPPORTED[name]}; leave it out")
    section.refuse_rest()
    if certificate is None or key is None:
        return None
    context = _context(section, files, certificate, key, now)
    if context is None:
        return None
    _set_versions(section, context, *versions)
    if authorities is not None:
        try:
            add_client_authorities(context, authorities)
        except CertificateError as error:
            section.complain(files.name_of("client_ca"), files.said_of("client_ca", error.message))
    context.verify_mode = mode
    return TlsAccess(context, mode is ssl.CERT_REQUIRED, frozenset(sans))


class _Files:
    """`cert`, `key` and `client_ca`: each inline, or in the file that `..._file` names."""

    def __init__(self, section: Section, directory: Path) -> None:
        self._section = section
        self._directory = directory
        self._paths: dict[str, Path] = {}

    def content(self, name: str) -> bytes | None:
        inline, named = self._section.text(name), self._section.text(f"{name}_file")
        if inline and named:
            self._section.complain(name, f"stands beside {name}_file; keep one of the two")
            return None
        if inline:
            return inline.encode()
        if named:
            return self._read(name, self._directory / named)
        if name != "client_ca":
            self._section.complain("", f"{name}_file is missing")
        return None

    def name_of(self, name: str) -> str:
        return f"{name}_file" if name in self._paths else name

    def said_of(self, name: str, message: str) -> str:
        """`message` with the file that it is about."""
        return f"{self._paths[name]} {message}" if name in self._paths else message

    def _read(self, name: str, path: Path) -> bytes | None:
        self._paths[name] = path
        try:
            return _read(path)
        except OSError as error:
            self._section.complain(self.name_of(name), f"{path} {_why(error)}")
            return None


def _context(
    section: Section, files: _Files, certificate: bytes, key: bytes, now: datetime
) -> ssl.SSLContext | None:
    try:
        return server_context(certificate, key, now=now)
    except CertificateError as error:
        name = "key" if error.is_key else "cert"
        section.complain(files.name_of(name), files.said_of(name, error.message))
        return None


def _client_auth(section: Section, *, has_authorities: bool) -> ssl.VerifyMode:
    text = section.text("client_auth_type") or "NoClientCert"
    if text in _UNVERIFIED:
        section.complain(
            "client_auth_type",
            f"{text} is not supported by gpumond: it lets any certificate in; use {_REQUIRE_AND_VERIFY}",
        )
        return ssl.CERT_NONE
    if text not in _CLIENT_AUTH:
        section.complain("client_auth_type", f"must be one of {', '.join(_CLIENT_AUTH)} (got {text})")
        return ssl.CERT_NONE
    mode = _CLIENT_AUTH[text]
    if has_authorities and mode is ssl.CERT_NONE:
        section.complain(
            "client_auth_type",
            f"is missing: a client CA asks nobody for a certificate without {_REQUIRE_AND_VERIFY}",
        )
    if mode is not ssl.CERT_NONE and not has_authorities:
        section.complain("client_auth_type", f"{text} needs client_ca_file")
    return mode


def _version(section: Section, name: str) -> ssl.TLSVersion | None:
    text = section.text(name)
    if text in _OLD_VERSIONS:
        section.complain(
            name, f"{text} is not supported by gpumond: it is broken (RFC 8996); use TLS12 or TLS13"
        )
    elif text and text not in _VERSIONS:
        section.complain(name, f"must be TLS12 or TLS13 (got {text})")
    return _VERSIONS.get(text or "")


def _set_versions(
    section: Section, context: ssl.SSLContext, least: ssl.TLSVersion | None, most: ssl.TLSVersion | None
) -> None:
    context.minimum_version = least or ssl.TLSVersion.TLSv1_2
    context.maximum_version = most or ssl.TLSVersion.MAXIMUM_SUPPORTED
    if least and most and least > most:
        section.complain("min_version", "is above max_version")


# The rest


def _users(section: Section) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    for name in section.names:
        hashed = section.text(name)
        complaint = complaint_about(hashed or "")
        if not name or ":" in name:
            complaint = "a name must not be empty, nor hold a colon"
        if complaint:
            section.complain(name, complaint)
        else:
            found[name] = (hashed or "").encode()
    return found


def _headers(section: Section) -> Mapping[str, str]:
    if (section.text("http2") or "false").lower() in ("true", "yes", "on", "y"):
        section.complain(
            "http2", "true is not supported by gpumond: it speaks HTTP/1.1; leave it out, or write false"
        )
    headers = section.section("headers")
    section.refuse_rest()
    found: dict[str, str] = {}
    for name in headers.names:
        value, allowed = headers.text(name), _HEADERS.get(name)
        if allowed is None:
            headers.complain(name, f"is not a header that can be set; there are {', '.join(_HEADERS)}")
        elif value and allowed and value not in allowed:
            headers.complain(name, f"must be {' or '.join(allowed)} (got {value})")
        elif value and not value.isprintable():
            headers.complain(name, "must be one line of text")
        elif value:
            found[name] = value
    return found


def _rate_limit(section: Section) -> RateLimit | None:
    interval, burst = section.text("interval") or "0s", section.text("burst") or "0"
    section.refuse_rest()
    try:
        seconds = 0.0 if interval == "0" else parse_duration(interval)
    except ValueError as error:
        section.complain("interval", f"{error} (got {interval})")
        return None
    if seconds == 0:
        return None
    if not burst.isdecimal() or int(burst) < 1:
        section.complain("burst", f"must be a whole number from 1 on, else nobody is let in (got {burst})")
        return None
    return RateLimit(seconds, int(burst))


# Files


def _read(path: Path) -> bytes:
    """The content of a regular file. Raises OSError."""
    if path.exists() and not path.is_file():  # a FIFO would keep us waiting
        raise OSError("is no regular file")
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise OSError(f"is larger than {FILE_BYTES_MAX >> 20} MiB")
    return content


def _why(error: OSError) -> str:
    """`cannot be read: permission denied`, or our own words."""
    return f"cannot be read: {error.strerror.lower()}" if error.strerror else str(error)
