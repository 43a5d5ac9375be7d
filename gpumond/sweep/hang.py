"""What follows a hang: one re-run on the same GPUs without P2P, and a finding that says which of the two it is.

Some hosts hang in every collective that goes over P2P, because of IOMMU or PCIe ACS settings, and run well through
shared memory (operators.md). The re-run tells that apart. It is never a value of a series.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from gpumond.judge.verdict import is_success
from gpumond.model.finding import LEVELS, Finding, FindingKind
from gpumond.model.reading import Unreadable, Value
from gpumond.model.run import TAINTED, Cause, Purpose, Run
from gpumond.model.topology import Host
from gpumond.model.watch import GpuLoad, LoadSummary
from gpumond.sweep.plan import Step

HANGS = frozenset({Cause.NO_FIRST_ROW, Cause.ROW_STALLED})

P2P_DISABLE = "NCCL_P2P_DISABLE"


def is_hang(run: Run) -> bool:
    """A run that was alone and fell silent. Without P2P already, there is nothing left to try."""
    return run.cause in HANGS and run.reason != TAINTED and run.environment.get(P2P_DISABLE) != "1"


def without_p2p(step: Step) -> Step:
    """The re-run."""
    environment = dict(step.parameters.environment) | {P2P_DISABLE: "1"}
    parameters = replace(step.parameters, environment=tuple(sorted(environment.items())))
    return replace(step, parameters=parameters, asked=None, purpose=Purpose.HANG_CHECK)


def finding_of(hung: Run, again: Run, host: Host, now: datetime) -> Finding | None:
    """What the re-run says; None where it says nothing: it was cut short, or could not be started."""
    if again.reason == TAINTED:
        return None
    if is_success(again.verdict, again.reason):
        kind, said = FindingKind.P2P_PATH, f"it runs with {P2P_DISABLE}=1"
    elif again.cause in HANGS or again.cause is Cause.EXITED:
        kind, said = FindingKind.HANG, f"with {P2P_DISABLE}=1 too: {again.reason}"
    else:
        return None
    gpus = len(hung.gpu_set.uuids)
    return Finding(
        kind=kind,
        level=LEVELS[kind],
        subject=hung.gpu_set.name,
        detail=f"{hung.collective.value} hangs on GPU set {hung.gpu_set.name} ({gpus} GPUs); {said}",
        evidence="; ".join(_evidence(hung, again, host)),
        first_at=now,
        last_at=now,
    )


def _evidence(hung: Run, again: Run, host: Host) -> list[str]:
    facts = [f"run {hung.id} {hung.detail}", f"re-run {again.id}"]
    if hung.watch is not None:
        facts += [_load_of(gpu) for gpu in hung.watch.gpus if gpu.last is not None]
    iommu = host.iommu.value if isinstance(host.iommu, Value) else "unknown"
    return [*facts, f"IOMMU: {iommu or 'off'}", *_acs(host)]


def _acs(host: Host) -> list[str]:
    match host.acs_redirects:
        case Value(value=()):
            return ["ACS: no bridge redirects P2P"]
        case Value(value=bridges):
            return [f"ACS: P2P is redirected by {', '.join(bridges)}"]
        case Unreadable(detail=detail):
            return [f"ACS: unknown ({detail})"]
        case _:
            return []


def _load_of(gpu: LoadSummary) -> str:
    """A GPU that waits in a collective is 100 % busy with 0 % of its memory's time, at half its power (measured)."""
    load = gpu.last
    if load is None:
        return ""
    return f"{gpu.uuid} at the end: " + ", ".join(_words_of(load))


def _words_of(load: GpuLoad) -> list[str]:
    words = []
    if isinstance(load.utilisation_ratio, Value):
        words.append(f"{load.utilisation_ratio.value:.0%} busy")
    if isinstance(load.memory_utilisation_ratio, Value):
        words.append(f"memory {load.memory_utilisation_ratio.value:.0%} busy")
    if isinstance(load.power_watts, Value):
        words.append(f"{load.power_watts.value:.0f} W")
    if isinstance(load.sm_clock_hertz, Value):
        words.append(f"SM clock {load.sm_clock_hertz.value / 1e6:.0f} MHz")
    return words
