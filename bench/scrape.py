"""What a scrape costs: times over loopback, bytes and memory, for a little more than the series budget of a host.

Prints the table of docs/results.md. Server and client share the machine's cores, as on a busy host.
`python bench/scrape.py [SCRAPES]`
"""

from __future__ import annotations

import http.client
import statistics
import sys
import threading
import time
from collections.abc import Callable

from served import Served, machine, serve

SCRAPES = 1000
SCRAPERS = 4
PROMETHEUS = {
    "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
}


def scrape(served: Served, connection: http.client.HTTPConnection) -> tuple[float, int]:
    began = time.perf_counter()
    connection.request("GET", "/metrics", headers=PROMETHEUS | served.headers)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(f"{answer.status}")
    return (time.perf_counter() - began) * 1e3, len(body)


def with_one_connection(served: Served, count: int) -> list[float]:
    connection = served.connect()
    scrape(served, connection)  # connects
    times = [scrape(served, connection)[0] for _ in range(count)]
    connection.close()
    return times


def with_new_connections(served: Served, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        connection = served.connect()
        scrape(served, connection)
        connection.close()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def several_at_once(served: Served, count: int) -> list[float]:
    times: list[float] = []
    scrapers = [
        threading.Thread(target=lambda: times.extend(with_one_connection(served, count // SCRAPERS)))
        for _ in range(SCRAPERS)
    ]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()
    return times


def right_after_changes(served: Served, count: int) -> list[float]:
    connection = served.connect()
    scrape(served, connection)
    times = []
    for _ in range(max(100, count // 10)):
        served.change()
        times.append(scrape(served, connection)[0])
    connection.close()
    return times


WAYS: dict[str, Callable[[Served, int], list[float]]] = {
    "one connection": with_one_connection,
    "a connection each": with_new_connections,
    f"{SCRAPERS} scrapers at once": several_at_once,
    "right after a change": right_after_changes,
}


def show_size(served: Served) -> None:
    connection = served.connect()
    scrape(served, connection)  # the first one of a format renders it
    _, size = scrape(served, connection)
    connection.request("GET", "/metrics", headers=served.headers)
    text = connection.getresponse().read()
    connection.close()
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    print(f"{series} series, {len(text)} bytes of text, {size} bytes of gzip\n")


def main(count: int) -> None:
    print(machine())
    print("\n| over | scrapes | p50 ms | p99 ms | max ms | CPU ms a scrape | RSS MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, is_secure in (("HTTP", False), ("HTTPS and a password", True)):
        with serve(is_secure=is_secure) as served:
            for way, measure in WAYS.items():
                before = served.cpu_seconds()
                times = measure(served, count)
                cpu = (served.cpu_seconds() - before) / len(times) * 1e3
                cuts = statistics.quantiles(times, n=100)
                cells = (cuts[49], cuts[98], max(times), cpu)
                row = " | ".join(f"{cell:.1f}" for cell in cells)
                print(f"| {name} | {way} | {row} | {served.rss_mib():.0f} |")
    print()
    with serve(is_secure=False) as served:
        show_size(served)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else SCRAPES)
