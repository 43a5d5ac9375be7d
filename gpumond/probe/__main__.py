"""`python -m gpumond.probe`: one snapshot of this host as one JSON document on standard output, then the end.

The document is the answer also where there is no GPU or no driver; the exit status is 0 whenever there is one. This
process may hang or crash at any call: whoever starts it sets a deadline (gpumond.probe.launcher).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpumond.probe.pipe import take_standard_output


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    document_file = take_standard_output()

    from gpumond import codec  # noqa: PLC0415 - after standard output is safe from what imports print
    from gpumond.clock import SystemClock  # noqa: PLC0415
    from gpumond.probe import snapshot  # noqa: PLC0415

    taken = snapshot.take(
        sysfs=options.sysfs, proc=options.proc, with_errors=options.with_errors, clock=SystemClock()
    )
    with os.fdopen(document_file, "wb") as stream:
        stream.write(codec.encode(taken) + b"\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumond.probe", description="print one snapshot of this host as JSON"
    )
    parser.add_argument("--with-errors", action="store_true", help="read the NVLink error counters as well")
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), metavar="DIR")
    parser.add_argument("--proc", type=Path, default=Path("/proc"), metavar="DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
