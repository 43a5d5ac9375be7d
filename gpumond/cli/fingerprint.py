"""`gpumond fingerprint diff A B`: which inputs differ between two runs, the likely causes of a loss first."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from gpumond import codec
from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode, NotEvaluatedError
from gpumond.judge.fingerprint import ranked
from gpumond.model.identity import RunId
from gpumond.store.sqlite import Store
from gpumond.topology.printable import printable

HELP = "compare the inputs of two runs"


@dataclass(frozen=True, slots=True)
class InputDifference:
    """One input that differs; None: it was not recorded with that run."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class FingerprintDocument:
    """What `--json` prints."""

    differences: tuple[InputDifference, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("word", choices=["diff"], metavar="diff")
    parser.add_argument("before", metavar="A", help="the id of a run, as `gpumond history` shows it")
    parser.add_argument("after", metavar="B", help="the id of a later run")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    directory = load_config(arguments.config).store.directory
    with Store.open(directory, clock=SystemClock(), read_only=True) as store:
        before, after = (_inputs(store, RunId(name)) for name in (arguments.before, arguments.after))
    keys = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    differences = tuple(InputDifference(key, before.get(key), after.get(key)) for key in ranked(keys))
    if arguments.json:
        print(codec.encode(FingerprintDocument(differences), indent=2).decode())
    else:
        print("\n".join(printable(_line(item)) for item in differences) or "no input differs")
    return ExitCode.HEALTHY


def _inputs(store: Store, run_id: RunId) -> dict[str, str]:
    found = store.fingerprint(run_id)
    if found is None:
        raise NotEvaluatedError(
            f"no inputs are recorded of run {run_id}", hint="`gpumond history` lists the ids of runs."
        )
    return found


def _line(item: InputDifference) -> str:
    before, after = (text or "not known" for text in (item.before, item.after))
    return f"{item.key}: {before} -> {after}"
