"""Lines about where processes run: which GPUs they see, which cores and which NIC are theirs, how they start. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from gpumond.model.topology import PathLevel, Vendor
from gpumond.topology.advise.cores import CpuList, cpu_list, share_of
from gpumond.topology.advise.host import AdvisedHost, HostGpu, HostNic
from gpumond.topology.advise.lines import Fact, Line, Source, Topic, span
from gpumond.topology.advise.memory import Task
from gpumond.topology.advise.parallelism import source_of
from gpumond.topology.advise.plan import Plan

_SHELL_SAFE: Final = re.compile(r"[A-Za-z0-9_.:-]+")
_LEVELS_NEAR_FIRST: Final = tuple(PathLevel)
_BELOW_ONE_ROOT: Final = (PathLevel.PIX, PathLevel.PXB)

_UUIDS_STAY: Final = Fact(
    Source.REFERENCE, "the order of NVML indices is not guaranteed between reboots (nvml.h); CUDA takes UUIDs"
)
_CUDA_ORDER: Final = Fact(
    Source.REFERENCE,
    "nvidia-smi numbers by PCI bus id, CUDA by speed unless CUDA_DEVICE_ORDER says otherwise",
)
_ROCM: Final = Fact(
    Source.REFERENCE,
    "ROCR_VISIBLE_DEVICES takes indices or UUIDs, HIP_VISIBLE_DEVICES indices among those only (ROCm, GPU isolation)",
)
_TORCHRUN_SETS_ONE: Final = Fact(
    Source.REFERENCE,
    "torchrun sets OMP_NUM_THREADS=1 for several processes where nobody else has (torch.distributed.run)",
)
_EXACT_NAMES: Final = Fact(
    Source.REFERENCE, "without the second `=`, mlx5_1 also matches mlx5_10 (NVIDIA/nccl#236)"
)


# --- visible devices ---------------------------------------------------------------------------------------------------


def visible_device_lines(host: AdvisedHost, bundles: Sequence[tuple[str, ...]]) -> Iterator[Line]:
    """One line for each set of GPUs that belong to one program."""
    for bundle in bundles:
        gpus = [host.gpu(name) for name in bundle]
        setting = _setting(host.vendor, gpus)
        if setting is not None:
            variable, fact = setting
            named = Fact(source_of(host), _told(gpus))
            yield Line(Topic.VISIBLE_DEVICES, f"{span(bundle)}: {variable}", named, (fact,))


def _setting(vendor: Vendor | None, gpus: Sequence[HostGpu]) -> tuple[str, Fact] | None:
    uuids = [gpu.uuid for gpu in gpus if gpu.uuid is not None and _SHELL_SAFE.fullmatch(gpu.uuid)]
    numbers = [str(gpu.number) for gpu in gpus if gpu.number is not None]
    has_uuids, has_numbers = len(uuids) == len(gpus), len(numbers) == len(gpus)
    if vendor is Vendor.NVIDIA and has_uuids:
        return f"CUDA_VISIBLE_DEVICES={','.join(uuids)}", _UUIDS_STAY
    if vendor is Vendor.NVIDIA and has_numbers:
        return f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={','.join(numbers)}", _CUDA_ORDER
    if vendor is Vendor.AMD and has_uuids:
        return f"ROCR_VISIBLE_DEVICES={','.join(uuids)}, HIP_VISIBLE_DEVICES unset", _ROCM
    if vendor is Vendor.AMD and has_numbers:
        listed = ",".join(numbers)
        return f"ROCR_VISIBLE_DEVICES={listed} (or HIP_VISIBLE_DEVICES={listed}, not both)", _ROCM
    return None


def _told(gpus: Sequence[HostGpu]) -> str:
    models = sorted({gpu.model for gpu in gpus if gpu.model})
    return (
        f"{len(gpus)} x {', '.join(models)}" if models else f"{len(gpus)} GPUs, numbered as they are listed"
    )


# --- cores and threads -------------------------------------------------------------------------------------------------


def core_lines(host: AdvisedHost) -> Iterator[Line]:
    shares = core_shares(host)
    for name, (whole, share) in shares.items():
        near = [other for other, (theirs, _) in shares.items() if theirs == whole]
        gpu = host.gpu(name)
        node = f" of NUMA node {gpu.numa}" if gpu.numa is not None else ""
        fact = Fact(source_of(host), f"CPUs {whole}{node} are the near ones of {span(near)}")
        yield Line(Topic.CORES, f"{name}: data loaders on CPUs {share} (taskset -c {share}).", fact)
    if shares:
        yield _thread_line(shares)


def core_shares(host: AdvisedHost) -> dict[str, tuple[CpuList, CpuList]]:
    """GPU -> the CPUs near it, and its part of them; without GPUs whose list is not known or not plain."""
    near = {gpu.name: found for gpu in host.gpus if (found := cpu_list(gpu.cpus)) is not None}
    sharers = Counter(near.values())
    seen: Counter[CpuList] = Counter()
    shares = {}
    for name, whole in near.items():
        shares[name] = (whole, share_of(whole, seen[whole], sharers[whole]))
        seen[whole] += 1
    return shares


def threads_of(shares: dict[str, tuple[CpuList, CpuList]]) -> int:
    """Cores of the smallest share: ranks wait for each other, so none should have more threads than cores."""
    return max(1, min(share.cores for _, share in shares.values()))


def _thread_line(shares: dict[str, tuple[CpuList, CpuList]]) -> Line:
    threads = threads_of(shares)
    fact = Fact(Source.ARITHMETIC, f"the smallest share of a GPU has {threads} cores, data loaders included")
    return Line(Topic.THREADS, f"At most OMP_NUM_THREADS={threads} a process.", fact, (_TORCHRUN_SETS_ONE,))


# --- network interfaces ------------------------------------------------------------------------------------------------


def nic_lines(host: AdvisedHost) -> Iterator[Line]:
    chosen = nearest_nics(host)
    for name, (nic, level) in chosen.items():
        fact = Fact(
            source_of(host), f"{nic.name} to {name}: {level}, the nearest with the fewest others on it"
        )
        yield Line(Topic.NIC, f"{name}: {nic.name}.", fact)
    names = list(dict.fromkeys(nic.name for nic, level in chosen.values() if level in _BELOW_ONE_ROOT))
    if len(names) > 1 and all(_SHELL_SAFE.fullmatch(name) for name in names):
        paths = Fact(source_of(host), f"{len(names)} network interfaces share a PCIe switch with a GPU")
        yield Line(Topic.NIC, f"NCCL_IB_HCA=={','.join(names)}", paths, (_EXACT_NAMES,))


def nearest_nics(host: AdvisedHost) -> dict[str, tuple[HostNic, PathLevel]]:
    """GPU -> its NIC, as far as one is nearer than the other side of the host and not known to be down.

    GPUs with a NIC beside them choose first, so that the others spread over what is left.
    """
    usable = [nic for nic in host.nics if nic.is_up is not False]
    near = {gpu.name: distances for gpu in host.gpus if (distances := _distances(gpu.name, usable))}
    load: Counter[int] = Counter()
    chosen: dict[str, tuple[HostNic, PathLevel]] = {}
    for name in sorted(near, key=lambda name: min(near[name].values())):
        place = min(near[name], key=lambda place: (near[name][place], load[place], place))
        load[place] += 1
        chosen[name] = (usable[place], _LEVELS_NEAR_FIRST[near[name][place]])
    return {name: chosen[name] for name in near}


def _distances(gpu: str, nics: Sequence[HostNic]) -> dict[int, int]:
    """Place of a NIC -> how far it is."""
    levels = {place: nic.levels.get(gpu) for place, nic in enumerate(nics)}
    return {
        place: _LEVELS_NEAR_FIRST.index(level)
        for place, level in levels.items()
        if level not in (None, PathLevel.SYS)
    }


# --- launcher ----------------------------------------------------------------------------------------------------------


def launcher_lines(host: AdvisedHost, task: Task | None, plan: Plan | None) -> Iterator[Line]:
    if task is Task.SERVE and plan is not None:
        yield _serving_line(plan)
        return
    gpus = len(host.gpus) if plan is None else len(plan.gpus)
    if gpus == 0:
        return
    hosts = 1 if plan is None else plan.hosts
    shares = core_shares(host)
    threads = f"OMP_NUM_THREADS={threads_of(shares)} " if shares else ""
    if hosts > 1:
        where = f"--nnodes={hosts} --node-rank=$RANK --rdzv-backend=c10d --rdzv-endpoint=$FIRST_HOST:29500"
    else:
        where = "--standalone"
    fact = Fact(source_of(host), f"GPUs of this host that are used: {gpus}, by one process each")
    yield Line(Topic.LAUNCHER, f"{threads}torchrun {where} --nproc-per-node={gpus} train.py", fact)


def _serving_line(plan: Plan) -> Line:
    command = (
        f"vllm serve MODEL --tensor-parallel-size {plan.tensor} --pipeline-parallel-size {plan.pipeline}"
    )
    if plan.hosts > 1:
        fact = Fact(Source.ARITHMETIC, f"{plan.gpus_needed} GPUs, so {plan.hosts} hosts joined by Ray")
    else:
        fact = Fact(
            Source.ARITHMETIC,
            f"{plan.data} x ({plan.tensor} x {plan.pipeline}) GPUs, each copy with its own visible devices",
        )
    return Line(Topic.LAUNCHER, command, fact)
