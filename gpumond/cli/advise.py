"""`gpumond advise`: how to split a model over the GPUs of this host, each line with the fact on which it rests.

Owns the command line and the two forms in which advice is printed; what is advised is `gpumond.topology.advise`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from gpumond.cli.paste import read_text, snapshot_in
from gpumond.cli.topology import problem_of, take_snapshot
from gpumond.errors import ExitCode, NotEvaluatedError, UsageError
from gpumond.model.topology import Snapshot
from gpumond.parsers.topology_text import parse_topology_text
from gpumond.topology.advise.advice import Advice, advise
from gpumond.topology.advise.host import AdvisedHost, host_of_snapshot, host_of_text
from gpumond.topology.advise.lines import Fact, Line
from gpumond.topology.advise.memory import TRAINING_DTYPES, Dtype, Job, Task, parse_parameters
from gpumond.topology.advise.plan import Plan

HELP = "say which parallelism the links make cheap, and what to set for it"

_JOB_HINT = "For example: gpumond advise --params 70B --dtype bf16 --serve"


def configure(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--simulate", metavar="NAME", help="advise on the simulated host NAME")
    source.add_argument(
        "--from",
        dest="file",
        metavar="FILE",
        help="advise on what somebody sent: a pasted matrix, or a snapshot of `gpumond topology --json`; `-` is"
        " standard input",
    )
    parser.add_argument("--params", metavar="COUNT", help="the model's parameters: 7B, 405B, 350M")
    parser.add_argument(
        "--dtype",
        choices=[dtype.value for dtype in Dtype],
        default=Dtype.BF16.value,
        help="of the weights (default: %(default)s)",
    )
    task = parser.add_mutually_exclusive_group()
    task.add_argument(
        "--train", dest="task", action="store_const", const=Task.TRAIN, help="with Adam, from all weights"
    )
    task.add_argument("--serve", dest="task", action="store_const", const=Task.SERVE, help="inference")
    parser.add_argument("--json", action="store_true", help="print groups, plan and lines as JSON")


def run(arguments: argparse.Namespace) -> int:
    job = _job(arguments.params, Dtype(arguments.dtype), arguments.task)
    host, simulated = _host(arguments)
    advice = advise(host, job)
    text = _as_json(advice, simulated) if arguments.json else "\n".join(_as_lines(advice, simulated))
    print(text)
    return ExitCode.HEALTHY


def _job(parameters: str | None, dtype: Dtype, task: Task | None) -> Job | None:
    """Raises UsageError for half a job, or one that nobody runs."""
    if parameters is None and task is None:
        return None
    if parameters is None or task is None:
        missing = "--params" if parameters is None else "--train or --serve"
        raise UsageError(f"{missing} is missing", hint=_JOB_HINT)
    if task is Task.TRAIN and dtype not in TRAINING_DTYPES:
        raise UsageError(
            f"--dtype {dtype} with --train",
            hint="Training keeps its weights in bf16, fp16 or fp32, also where it computes in fp8.",
        )
    try:
        return Job(parse_parameters(parameters), dtype, task)
    except ValueError as error:
        raise UsageError(f"--params: {error}", hint=_JOB_HINT) from error


def _host(arguments: argparse.Namespace) -> tuple[AdvisedHost, str]:
    """The host, and the name of its scenario where it is made up."""
    if arguments.file is None:
        return _of_snapshot(take_snapshot(arguments.simulate))
    text = read_text(arguments.file)
    snapshot = snapshot_in(text, arguments.file)
    if snapshot is not None:
        return _of_snapshot(snapshot)
    topology = parse_topology_text(text)
    if not topology.gpus:
        raise NotEvaluatedError(
            f"no topology matrix in {arguments.file}",
            hint="Give it what `nvidia-smi topo -m` or `gpumond topology --json` printed.",
        )
    return host_of_text(topology), ""


def _of_snapshot(snapshot: Snapshot) -> tuple[AdvisedHost, str]:
    problem = problem_of(snapshot)
    if problem is not None:
        raise problem
    return host_of_snapshot(snapshot), snapshot.simulated


def _as_lines(advice: Advice, simulated: str) -> Iterator[str]:
    if simulated:
        yield f"Simulated host: {simulated}\n"
    yield f"class: {advice.host.topology_class}"
    yield from (f"    {fact}" for fact in advice.host.class_facts)
    for topic, lines in groupby(advice.lines, key=lambda line: line.topic):
        yield f"\n{topic}"
        shared: dict[Fact, None] = {}  # what several lines rest on is said once, below them
        for line in lines:
            yield f"  {line.advice}"
            yield _as_line(line.because)
            shared |= dict.fromkeys(line.also)
        yield from map(_as_line, shared)


def _as_line(fact: Fact) -> str:
    return f"      {fact.source}: {fact.text}"


def _as_json(advice: Advice, simulated: str) -> str:
    document = {
        "simulated": simulated,
        "class": advice.host.topology_class,
        "class_facts": advice.host.class_facts,
        "groups": [
            {"gpus": group.gpus, "tier": group.tier, "p2p_is_certain": group.is_certain}
            for group in advice.groups
        ],
        "plan": None if advice.plan is None else _plan_document(advice.plan),
        "lines": [_line_document(line) for line in advice.lines],
    }
    return json.dumps(document, indent=1)


def _plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "is_sensible": plan.is_sensible,
        "tensor": plan.tensor,
        "pipeline": plan.pipeline,
        "data": plan.data,
        "sharding": plan.sharding,
        "hosts": plan.hosts,
        "bytes_per_gpu": round(plan.bytes_per_gpu),
        "usable_bytes_per_gpu": round(plan.usable_bytes),
        "replicas": plan.replicas,
    }


def _line_document(line: Line) -> dict[str, Any]:
    return {
        "topic": line.topic,
        "advice": line.advice,
        "facts": [{"source": fact.source, "text": fact.text} for fact in line.facts],
    }
