"""sd_notify: one datagram to the socket that systemd names. Without systemd every call does nothing.

No library is worth a dependency here (observability.md 4.3). The variables are removed from our environment once
read, so that no child inherits them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

_MICROSECONDS = 1_000_000


class Notifier:
    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watchdog = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "")
        is_ours = pid in ("", str(os.getpid()))
        self.watchdog_seconds = int(watchdog) / _MICROSECONDS if watchdog.isdecimal() and is_ours else None
        """How often systemd wants to hear from us at least; None when it does not ask."""

    @property
    def is_enabled(self) -> bool:
        return bool(self._address)

    def send(self, *lines: str) -> None:
        """Send `READY=1`, `STATUS=...` and the like; a systemd that does not listen is not our problem."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.connect(address)
                channel.sendall("\n".join(lines).encode())
        except OSError:
            return
