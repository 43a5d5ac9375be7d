"""No Slurm job uses or is about to use this host, by a look at Slurm: squeue and scontrol.

A look proves nothing about the next second; where Slurm owns the GPUs, its own arbitration is better (sweep.slurm_job).
A sweep that is itself a job looks too, and leaves its own job out: another one beside it means that the allocation is
not exclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpumond.guards.report import GuardName, GuardReport, GuardSubject
from gpumond.parsers.slurm import SQUEUE_FORMAT, SlurmJob, SlurmNode, parse_jobs, parse_node
from gpumond.process.ask import Answer

JOBS_SHOWN_MAX = 4

HOLDING_STATES = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STAGE_OUT,SIGNALING,STOPPED,RESIZING"
"""By default squeue leaves some of these out, and shows jobs that only wait."""

FREE = "IDLE"
ALLOCATED = frozenset({"ALLOCATED", "MIXED"})

HARMLESS_FLAGS = frozenset({"DRAIN", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"})
"""Nothing can start on a drained node. Every other flag (PLANNED, RESERVED, COMPLETING, NOT_RESPONDING, ...) means that
something is going on, or that Slurm does not know."""


class SlurmGuard:
    """`own_job` is the id of the job that this sweep is, empty where it is none."""

    def __init__(self, ask: Callable[[Sequence[str]], Answer], *, node: str, own_job: str = "") -> None:
        self._ask = ask
        self._node = node
        self._own_job = own_job

    @property
    def name(self) -> GuardName:
        return GuardName.SLURM

    def check(self, _subject: GuardSubject) -> GuardReport:
        queue = self._ask(
            (
                "squeue",
                "--noheader",
                f"--nodelist={self._node}",
                f"--states={HOLDING_STATES}",
                f"--format={SQUEUE_FORMAT}",
            )
        )
        if queue.failure:
            return self._no(_said(queue))
        jobs = parse_jobs(queue.output)
        others = [job for job in jobs if job.job != self._own_job]
        if others:
            return self._no(f"Slurm has jobs on {self._node}: {_words(others)}")
        if self._own_job and not jobs:
            return self._no(f"Slurm does not know job {self._own_job} on {self._node}")
        return self._check_node()

    def _check_node(self) -> GuardReport:
        shown = self._ask(("scontrol", "--oneliner", "show", "node", self._node))
        if shown.failure:
            return self._no(_said(shown))
        node = parse_node(shown.output)
        why = _why_not(node, is_own=bool(self._own_job))
        if why:
            return self._no(why)
        whose = f"only job {self._own_job}" if self._own_job else "no job"
        return GuardReport(
            self.name, is_clear=True, evidence=f"Slurm has {whose} on {node.name} ({'+'.join(node.states)})"
        )

    def _no(self, evidence: str) -> GuardReport:
        return GuardReport(self.name, is_clear=False, evidence=evidence)


def _why_not(node: SlurmNode, *, is_own: bool) -> str:
    """Empty where the node's state says that nobody but us is there."""
    base, *flags = node.states
    is_free = base in ALLOCATED if is_own else base == FREE
    disturbing = [flag for flag in flags if flag not in HARMLESS_FLAGS]
    if is_free and not disturbing:
        return ""
    why = f": {node.reason}" if node.reason else ""
    return f"Slurm calls {node.name} {'+'.join(node.states)}{why}"


def _words(jobs: Sequence[SlurmJob]) -> str:
    shown = [f"{job.job} of {job.user} ({job.state})" for job in jobs[:JOBS_SHOWN_MAX]]
    more = f" and {len(jobs) - JOBS_SHOWN_MAX} more" if len(jobs) > JOBS_SHOWN_MAX else ""
    return ", ".join(shown) + more


def _said(answer: Answer) -> str:
    last_line = answer.last_error_line
    return f"{answer.failure}: {last_line}" if last_line else answer.failure
