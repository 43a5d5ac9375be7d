"""A process that writes to a store, for tests that kill it or run several: `store_worker.py DIRECTORY RUNS POINTS`.

Prints the id of every run whose commit has returned.
"""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

from history_values import ended, make_point, make_run, make_sweep, measured

from gpumond.clock import SystemClock
from gpumond.model.identity import RunId
from gpumond.store.sqlite import Store


def main(directory: str, runs: int, points: int) -> None:
    with Store.open(Path(directory), clock=SystemClock()) as store:
        print("open", flush=True)
        for _ in range(runs):
            sweep = make_sweep(id=RunId(uuid4().hex))
            store.start_sweep(sweep)
            run = make_run(sweep, id=RunId(uuid4().hex))
            store.start_run(run)
            measurements = [make_point(8 << (number % 28)) for number in range(points)]
            store.add_points(run.id, measurements[: points // 2])
            store.finish_run(measured(run, *measurements), output=b"x" * 10_000)
            store.finish_sweep(ended(sweep))
            print(run.id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
