"""Passwords against bcrypt hashes. The only door to bcrypt.

A check costs 60 to 250 ms of a core, and everybody may ask for one. So: one at a time, in a thread of its own and never
on the event loop; what was right is remembered; an unknown user costs as much as a known one; and who asks for many
checks waits for few (observability.md 1.5; the order of things is that of exporter-toolkit).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto

COST_MAX = 16
"""2^16 rounds take 4 s on the machine of docs/results.md: anybody could keep a core busy by asking."""

REMEMBERED_MAX = 100
"""Right passwords, as in exporter-toolkit."""

WAITING_MAX = 16
"""Checks that wait for the one that runs; more would only wait in vain."""

WAITING_OF_ONE_CLIENT_MAX = 4
"""So that one address that guesses does not take all of WAITING_MAX."""

_BCRYPT_BYTES_MAX = 72
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_NOBODY = "." * 53  # salt and digest of a hash that no password has


class Check(Enum):
    """What became of a password."""

    RIGHT = auto()
    WRONG = auto()
    NOT_NOW = auto()  # too many wait already


def complaint_about(hashed: str) -> str:
    """Why `hashed` cannot be used; empty where it can. Never repeats it: it may be a password by mistake."""
    match = _HASH.fullmatch(hashed)
    if match is None:
        return "must be a bcrypt hash, such as `htpasswd -nBC 10 NAME` prints"
    cost = int(match[1])
    if not 4 <= cost <= COST_MAX:  # noqa: PLR2004 - bcrypt's own lower bound
        return f"has the bcrypt cost {cost}; a check should take a fraction of a second: use 10 to 12"
    return ""


class Passwords:
    """Checks passwords; `check` on the event loop only. `close` ends its thread."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._waiting: Counter[str] = Counter()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="http-password")

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def check(self, users: Mapping[str, bytes], name: str, password: bytes, *, client: str) -> Check:
        """Whether `password` is that of `name`; `client` is the address that asks."""
        hashed = users.get(name) or self._hash_of_nobody(users, name)
        mark = self._mark(name.encode(), hashed, password)
        if mark in self._right:
            self._right.move_to_end(mark)
            return Check.RIGHT
        if self._waiting[client] >= WAITING_OF_ONE_CLIENT_MAX or self._waiting.total() >= WAITING_MAX:
            return Check.NOT_NOW
        self._waiting[client] += 1
        try:
            is_right = await asyncio.get_running_loop().run_in_executor(
                self._thread, _matches, password, hashed
            )
        finally:
            self._waiting[client] -= 1
            self._waiting += Counter()  # drops what is zero: addresses must not pile up
        if not is_right or name not in users:
            return Check.WRONG
        self._remember(mark)
        return Check.RIGHT

    def _hash_of_nobody(self, users: Mapping[str, bytes], name: str) -> bytes:
        """A hash that nothing matches, with a cost that some user has: always the same for one name."""
        costs = sorted(hashed[4:6] for hashed in users.values())
        cost = costs[self._mark(name.encode())[0] % len(costs)]
        return b"$2b$" + cost + b"$" + _NOBODY.encode()

    def _remember(self, mark: bytes) -> None:
        self._right[mark] = None
        if len(self._right) > REMEMBERED_MAX:
            self._right.popitem(last=False)

    def _mark(self, *parts: bytes) -> bytes:
        """What stands for a password in memory: worthless without this process's own secret."""
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._secret, framed, hashlib.sha256)


def _matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt  # noqa: PLC0415 - only hosts with passwords pay for it

    # bcrypt takes no more; htpasswd and Go cut there, while the library would raise, and an unauthenticated client get a 500.
    return bcrypt.checkpw(password[:_BCRYPT_BYTES_MAX], hashed)
