"""Who may ask, and over what: the meaning of a web configuration file, checked and ready to use. Immutable.

Knows neither YAML nor files. The certificate is in the SSLContext already: nothing here is read again later.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TlsAccess:
    """How a connection becomes TLS. Empty `allowed_sans` let every verified client in."""

    context: ssl.SSLContext
    requires_client_certificate: bool = False
    allowed_sans: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket: `burst` requests at once, then one every `interval_seconds`."""

    interval_seconds: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebAccess:
    """`users` are bcrypt hashes by name; nobody is asked for a password where there are none."""

    tls: TlsAccess | None = None
    users: Mapping[str, bytes] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    rate_limit: RateLimit | None = None

    @property
    def is_private(self) -> bool:
        """Whether only those who are known can read what is answered: what raw output and environments ask for."""
        if self.tls is None:
            return False
        return bool(self.users) or self.tls.requires_client_certificate


OPEN_ACCESS = WebAccess()
"""What no web configuration file means: everybody, in plain text."""
