"""Clients that hold connections and give nothing: what they cost, and what becomes of good scrapes meanwhile.

Prints the table of docs/results.md. The server has the limits of production: 5 s for a handshake, 10 s for a head,
30 s to take an answer. `python bench/bad_clients.py`
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from scrape import scrape
from served import Served, machine, serve

GOOD_SCRAPES = 50
CUT_SECONDS_MAX = 45.0
SETTLE_SECONDS = 0.5  # until the server has heard that a good client is gone
HALF_HEAD = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "


def silent(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port))


def shaken(served: Served, data: bytes = b"") -> socket.socket:
    if served.client is None:
        raise ValueError("there is no TLS")
    secured = served.client.wrap_socket(silent(served), server_hostname="localhost")
    if data:
        secured.sendall(data)
    return secured


def half_a_head(served: Served) -> socket.socket:
    return shaken(served, HALF_HEAD)


def never_reads(served: Served) -> socket.socket:
    head = "".join(f"{name}: {value}\r\n" for name, value in served.headers.items())
    return shaken(served, f"GET /metrics HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() * 20)


CASES: tuple[tuple[str, int, Callable[[Served], socket.socket]], ...] = (
    ("silent before the handshake", 1, silent),
    ("silent before the handshake", 300, silent),
    ("silent before the handshake", 900, silent),
    ("idle after the handshake", 300, shaken),
    ("half a head", 300, half_a_head),
    ("ask 20 times and never read", 60, never_reads),
)


def open_all(make: Callable[[Served], socket.socket], count: int, served: Served) -> list[socket.socket]:
    found = []
    for _ in range(count):
        with contextlib.suppress(OSError):  # one that was dropped for a newer one while it connected
            found.append(make(served))
    return found


def seconds_until_cut(served: Served, sockets: int, began: float) -> float:
    """From the first connection until the server holds as few as before."""
    while served.sockets() > sockets:
        if time.monotonic() - began > CUT_SECONDS_MAX:
            raise RuntimeError(f"{served.sockets() - sockets} are still there")
        time.sleep(0.1)
    return time.monotonic() - began


def try_case(name: str, count: int, make: Callable[[Served], socket.socket]) -> None:
    with serve(is_secure=True) as served:
        good_scrape(served)
        time.sleep(SETTLE_SECONDS)
        sockets, before = served.sockets(), served.rss_mib()
        began = time.monotonic()
        bad = open_all(make, count, served)
        times = [good_scrape(served) for _ in range(GOOD_SCRAPES)]
        rss = served.rss_mib()
        cut = seconds_until_cut(served, sockets, began)
        for sock in bad:
            sock.close()
        print(f"| {count} {name} | {max(times):.0f} | {before:.0f} | {rss:.0f} | {cut:.1f} |")


def good_scrape(served: Served) -> float:
    """Milliseconds, with its own connection. Raises where it is not answered."""
    began = time.perf_counter()
    connection = served.connect()
    try:
        scrape(served, connection)
    finally:
        connection.close()
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    print(machine())
    print(
        f"\n| bad clients | slowest of {GOOD_SCRAPES} good scrapes, ms | RSS before, MiB | with them, MiB | all cut after, s |"
    )
    print("| --- | --- | --- | --- | --- |")
    for case in CASES:
        try_case(*case)


if __name__ == "__main__":
    main()
