"""The listening socket: bound before anything else starts, so that a port in use is one clear sentence at start-up.

Owns the meaning of an empty host (all addresses) and the search for who holds a port. Refuses to know HTTP.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from gpumond.errors import HostError

BACKLOG = 128

_PROC = Path("/proc")
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
_HINTS = {
    errno.EACCES: "Ports below 1024 need a privilege: choose another one in web.listen_address.",
    errno.EADDRNOTAVAIL: "No interface of this host has that address: correct web.listen_address.",
}


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket; an empty `host` means every address. Raises HostError where that cannot be had."""
    try:
        return _listen_everywhere(port) if host == "" else _listen_on(host, port)
    except OSError as error:
        place = f"{host or '*'}:{port}" if ":" not in host else f"[{host}]:{port}"
        raise HostError(
            f"cannot listen on {place}: {error.strerror or error}", hint=_hint(error, port)
        ) from error


def _listen_everywhere(port: int) -> socket.socket:
    try:
        return _open(socket.AF_INET6, ("::", port))
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
    return _open(socket.AF_INET, ("0.0.0.0", port))  # noqa: S104 - exporters listen on every address by custom


def _listen_on(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return _open(family, address)


def _open(
    family: int, address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
) -> socket.socket:
    # asyncio sets TCP_NODELAY only where the protocol is named: without it each answer on a kept connection took 44 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and address[0] == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        # Two sockets may be bound to one port before either listens: only this tells who has it.
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _hint(error: OSError, port: int) -> str:
    if isinstance(error, socket.gaierror):
        return "Write an address of this host, or a name that resolves to one, into web.listen_address."
    if error.errno != errno.EADDRINUSE:
        return _HINTS.get(error.errno or 0, "Correct web.listen_address.")
    return f"{_describe_holder(port)} Stop it, or choose another port in web.listen_address."


def _describe_holder(port: int) -> str:
    inodes = {inode for name in ("tcp", "tcp6") for inode in _listening_inodes(_PROC / "net" / name, port)}
    if not inodes:
        return f"Port {port} is in use."
    holder = next(_processes_with(inodes), None)
    return f"{holder or 'Another process'} listens on port {port}."


def _listening_inodes(table: Path, port: int) -> Iterator[str]:
    """The socket inodes that listen on `port`, from /proc/net/tcp: columns local address, state and inode."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]


def _processes_with(inodes: set[str]) -> Iterator[str]:
    """`name (pid N)` of the processes that hold one of the sockets, as far as we may look."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for directory in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(_target(link) in wanted for link in (directory / "fd").iterdir()):
                yield f"{(directory / 'comm').read_text().strip()} (pid {directory.name})"


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
