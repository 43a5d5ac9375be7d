"""From a host, and a model where one is given, to all that can be advised. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpumond.topology.advise.groups import Group, cheap_groups
from gpumond.topology.advise.host import AdvisedHost
from gpumond.topology.advise.lines import Line
from gpumond.topology.advise.memory import Job, Task
from gpumond.topology.advise.parallelism import (
    check_lines,
    exchange_lines,
    link_lines,
    memory_lines,
    strategy_lines,
)
from gpumond.topology.advise.placement import core_lines, launcher_lines, nic_lines, visible_device_lines
from gpumond.topology.advise.plan import Plan, plan_of


@dataclass(frozen=True, slots=True)
class Advice:
    """`plan` is None without a job, and where the source does not tell the memory of a GPU."""

    host: AdvisedHost
    groups: tuple[Group, ...]
    plan: Plan | None
    lines: tuple[Line, ...]


def advise(host: AdvisedHost, job: Job | None = None) -> Advice:
    groups = cheap_groups(host)
    plan = None if job is None or not host.gpus else plan_of(host, groups, job)
    lines = (
        *check_lines(host, job),
        *link_lines(host, groups),
        *_job_lines(host, job, plan),
        *_placement_lines(host, groups, job, plan),
    )
    return Advice(host, groups, plan, lines)


def _job_lines(host: AdvisedHost, job: Job | None, plan: Plan | None) -> Iterator[Line]:
    if job is None:
        return
    yield from memory_lines(host, job, plan)
    if plan is None:
        return
    yield from strategy_lines(host, plan, job.task)
    if plan.is_sensible and job.task is Task.TRAIN:
        yield from exchange_lines(host, job, plan)


def _placement_lines(
    host: AdvisedHost, groups: Sequence[Group], job: Job | None, plan: Plan | None
) -> Iterator[Line]:
    """Nothing is placed where the plan says that these are the wrong GPUs."""
    if plan is not None and not plan.is_sensible:
        return
    bundles = plan.replicas if plan is not None else tuple(group.gpus for group in groups)
    yield from visible_device_lines(host, bundles)
    yield from core_lines(host)
    yield from nic_lines(host)
    yield from launcher_lines(host, job.task if job is not None else None, plan)
