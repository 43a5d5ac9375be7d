"""Lines about how to split a model: inside which GPUs, across which, and what fits. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from gpumond.topology.advise.groups import Group, Tier
from gpumond.topology.advise.host import AdvisedHost, GpuLink, Origin, PcieLimit
from gpumond.topology.advise.lines import Fact, Line, Source, Topic, gigabytes, parameters_told, span
from gpumond.topology.advise.memory import (
    BYTES_OF,
    SERVING_OVERHEAD,
    SERVING_USABLE_RATIO,
    TRAINING_USABLE_RATIO,
    Dtype,
    Job,
    Sharding,
    Task,
)
from gpumond.topology.advise.plan import PIPELINE_STAGES_MAX, Plan

_TRANSFERS_PER_SECOND: Final = {3: 8e9, 4: 16e9, 5: 32e9}
"""Per lane, from PCIe 3 on with 128 of 130 bits for data; generation 6 codes otherwise and carries no GPU here yet."""

_FIRST_WITH: Final = {
    Dtype.BF16: ("from compute capability 8.0 on", re.compile(r"\b(P100|V100|T4|GTX|TITAN|RTX 20\d0)\b")),
    Dtype.FP8: (
        "from compute capability 8.9 on",
        re.compile(r"\b(P100|V100|T4|GTX|TITAN|RTX [23]0\d0|A100|A30|A40|A10|RTX A\d000)\b"),
    ),
}
"""Since when, and the products of before."""

_WORKING_IOMMU: Final = frozenset({"off", "identity"})

_ZERO: Final = Fact(
    Source.REFERENCE,
    "ZeRO shares out optimiser states (1), gradients (2), weights (3): Rajbhandari et al., 2020",
)
_PIPELINE_SENDS_LESS: Final = Fact(
    Source.REFERENCE,
    "a pipeline sends activations once a stage; tensor parallelism waits for two all_reduce a layer and pass"
    " (Shoeybi et al., Megatron-LM, 2019)",
)
_DATA_PARALLEL_WAITS_ONCE: Final = Fact(
    Source.ARITHMETIC,
    "data-parallel training exchanges gradients once a step; copies that serve exchange nothing",
)


def source_of(host: AdvisedHost) -> Source:
    return Source.SNAPSHOT if host.origin is Origin.SNAPSHOT else Source.TEXT


def check_lines(host: AdvisedHost, job: Job | None) -> Iterator[Line]:
    """What is to be settled before any of the rest counts."""
    source = source_of(host)
    if job is not None:
        yield from _missing_dtype(host, job)
    if host.silent_gpus:
        fact = Fact(source, f"{host.silent_gpus} of {host.silent_gpus + len(host.gpus)} GPUs do not answer")
        yield Line(Topic.CHECK_FIRST, "Get the silent GPUs back, or plan without them.", fact)
    sliced = [gpu.name for gpu in host.gpus if gpu.has_slices]
    if sliced:
        fact = Fact(source, f"MIG is on: {span(sliced)}")
        yield Line(Topic.CHECK_FIRST, f"Use {span(sliced)} for small jobs only: slices have no P2P.", fact)
    yield from _unusable_links(host)
    yield from _short_of_links(host)
    yield from _unproven_p2p(host)


def _missing_dtype(host: AdvisedHost, job: Job) -> Iterator[Line]:
    since, pattern = _FIRST_WITH.get(job.dtype, ("", None))
    lacking = sorted({gpu.model for gpu in host.gpus if gpu.model and pattern and pattern.search(gpu.model)})
    if lacking:
        fact = Fact(
            Source.REFERENCE, f"tensor cores compute {job.dtype} {since} (CUDA C++ Programming Guide)"
        )
        found = Fact(source_of(host), f"this host has {', '.join(lacking)}")
        yield Line(Topic.CHECK_FIRST, f"Choose another data type than {job.dtype}.", fact, (found,))


def _unusable_links(host: AdvisedHost) -> Iterator[Line]:
    pairs = [pair for pair, link in host.links.items() if link.is_direct and link.p2p is False]
    if pairs:
        fact = Fact(
            source_of(host), f"links are up and P2P is refused on {len(pairs)} of {len(host.links)} pairs"
        )
        known = Fact(
            Source.REFERENCE,
            "the fabric can be down while ports read as up (leptonai/gpud#1106)",
        )
        yield Line(Topic.CHECK_FIRST, "Repair the NVLink fabric: see the fabric manager.", fact, (known,))


def _short_of_links(host: AdvisedHost) -> Iterator[Line]:
    """A GPU whose best NVLink count is below that of its siblings; meshes have low counts by design, on all GPUs."""
    best = {
        gpu.name: max((link.nvlinks for link in _links_of(host, gpu.name)), default=0) for gpu in host.gpus
    }
    for model in {gpu.model for gpu in host.gpus}:
        siblings = [gpu.name for gpu in host.gpus if gpu.model == model]
        most = max(best[name] for name in siblings)
        # Half of the links or fewer is another way of wiring, not a link that is down.
        short = [name for name in siblings if most / 2 < best[name] < most]
        if short:
            counts = ", ".join(f"NV{count}" for count in sorted({best[name] for name in short}))
            fact = Fact(source_of(host), f"{span(short)}: {counts} where other GPUs have NV{most}")
            yield Line(Topic.CHECK_FIRST, f"Find the NVLink that is down on {span(short)}.", fact)


def _links_of(host: AdvisedHost, name: str) -> list[GpuLink]:
    return [link for pair, link in host.links.items() if name in pair]


def _unproven_p2p(host: AdvisedHost) -> Iterator[Line]:
    """Over PCIe, "P2P works" is what a driver says; firmware and IOMMU decide."""
    claimed = [link for link in host.links.values() if not link.is_direct and link.p2p]
    if not claimed:
        return
    iommu = f", iommu {host.iommu}" if host.iommu else ""
    fact = Fact(
        source_of(host),
        f"the driver grants P2P over PCIe on {len(claimed)} of {len(host.links)} pairs{iommu}",
    )
    known = Fact(
        Source.REFERENCE,
        "hosts exist on which it says so and copies hang or are wrong (NVIDIA/nccl-tests#117, nccl#667)",
    )
    risk = (
        " An IOMMU that translates is the usual reason."
        if host.iommu and host.iommu not in _WORKING_IOMMU
        else ""
    )
    yield Line(Topic.CHECK_FIRST, f"Run a sweep before you rely on P2P.{risk}", fact, (known,))
    if host.acs_redirects:
        bridges = Fact(source_of(host), f"ACS redirects P2P at {', '.join(host.acs_redirects)}")
        yield Line(Topic.CHECK_FIRST, "On bare metal, switch ACS off: copies go through the root.", bridges)


# --- what the links make cheap -----------------------------------------------------------------------------------------


def link_lines(host: AdvisedHost, groups: Sequence[Group]) -> Iterator[Line]:
    if len(host.gpus) < 2:  # noqa: PLR2004 - one GPU has no peer
        fact = Fact(source_of(host), f"{len(host.gpus)} GPU answers")
        yield Line(Topic.TENSOR_PARALLEL, "A single GPU: no parallelism inside this host.", fact)
        return
    together = [group for group in groups if group.tier is not Tier.ALONE]
    for group in together:
        yield _tensor_line(host, group)
    if not together:
        yield _no_tensor_line(host)
    if len(groups) > 1:
        yield _across_line(host, groups)


def _tensor_line(host: AdvisedHost, group: Group) -> Line:
    size = group.largest_tensor_size
    inside = [host.link(*pair) for pair in combinations(group.gpus, 2)]
    fact = Fact(source_of(host), f"{span(group.gpus)}: {_labels(inside)}{_p2p_told(inside)}")
    spare = len(group.gpus) - size
    left = f" ({spare} of them spare)" if spare else ""
    condition = (
        "" if group.is_certain else " if P2P is granted (`nvidia-smi topo -p2p r` tells), else pipeline"
    )
    also: list[Fact] = []
    if group.tier is not Tier.DIRECT:
        also.append(
            Fact(
                Source.REFERENCE,
                "eight RTX PRO 6000 below two switches reach 46 GB/s (voipmonitor/rtx6kpro), eight H200 480 (stas00/ml-engineering)",
            )
        )
    elif any(link.is_xgmi for link in inside) and size > 2:  # noqa: PLR2004 - a pair
        also.append(
            Fact(
                Source.REFERENCE,
                "xGMI pairs cannot pool links: two MI300X reach 48 GB/s, eight 313 (stas00/ml-engineering)",
            )
        )
    return Line(
        Topic.TENSOR_PARALLEL, f"TP{size} inside {span(group.gpus)}{left}{condition}.", fact, tuple(also)
    )


def _no_tensor_line(host: AdvisedHost) -> Line:
    links = list(host.links.values())
    fact = Fact(source_of(host), f"{_labels(links)}{_p2p_told(links)}")
    if all(link.p2p is False for link in links):
        advice = "None: it would go through host memory (NCCL's SHM transport)."
    elif len({gpu.model for gpu in host.gpus}) > 1:
        advice = "None: ranks that split a model evenly need GPUs of one product."
    else:
        advice = "None: no two GPUs are joined below a CPU."
    return Line(Topic.TENSOR_PARALLEL, advice, fact)


def _across_line(host: AdvisedHost, groups: Sequence[Group]) -> Line:
    place = {name: number for number, group in enumerate(groups) for name in group.gpus}
    between = [link for pair, link in host.links.items() if len({place[name] for name in pair}) > 1]
    fact = Fact(source_of(host), f"between the {len(groups)} groups: {_labels(between)}{_p2p_told(between)}")
    what = "Pipeline or data parallel across the groups"
    if all(group.tier is Tier.ALONE for group in groups):
        what = "Pipeline or data parallel across the GPUs"
    return Line(Topic.ACROSS, f"{what}.", fact, (_PIPELINE_SENDS_LESS, _DATA_PARALLEL_WAITS_ONCE))


def _labels(links: Sequence[GpuLink]) -> str:
    counts = sorted(Counter(link.label for link in links).items(), key=lambda item: (-item[1], item[0]))
    pairs = "pair" if len(links) == 1 else "pairs"
    return f"{len(links)} {pairs}, " + ", ".join(f"{count} {label}" for label, count in counts)


def _p2p_told(links: Sequence[GpuLink]) -> str:
    answers = {link.p2p for link in links}
    if answers == {True}:
        return ", P2P granted"
    if answers == {False}:
        return ", P2P refused"
    return ", P2P not told" if answers == {None} else ", P2P on some pairs only"


# --- what fits ---------------------------------------------------------------------------------------------------------


def memory_lines(host: AdvisedHost, job: Job, plan: Plan | None) -> Iterator[Line]:
    formula = Fact(
        Source.ARITHMETIC, _training_formula(job) if job.task is Task.TRAIN else _serving_formula(job)
    )
    memories = [gpu.memory_bytes for gpu in host.gpus if gpu.memory_bytes]
    if plan is None:
        yield Line(
            Topic.MEMORY, "Compare the need with the memory of a GPU: this source does not tell it.", formula
        )
        return
    room = Fact(source_of(host), f"the smallest GPU has {gigabytes(min(memories))}")
    yield Line(
        Topic.MEMORY,
        f"{gigabytes(plan.bytes_per_gpu)} of {gigabytes(plan.usable_bytes)} usable on each GPU.",
        formula,
        (room, _margin(job.task)),
    )


def _training_formula(job: Job) -> str:
    weight = BYTES_OF[job.dtype]
    optimiser = job.optimiser_bytes / job.parameters
    total = job.weights_bytes + job.gradients_bytes + job.optimiser_bytes
    kind = "two states" if job.dtype is Dtype.FP32 else "fp32 weights and two states"
    return (
        f"weights {weight:g} + gradients {weight:g} + Adam {optimiser:g} ({kind}) bytes"
        f" x {parameters_told(job.parameters)} parameters = {gigabytes(total)}, shared out as the strategy says"
    )


def _serving_formula(job: Job) -> str:
    need = gigabytes(job.weights_bytes * SERVING_OVERHEAD)
    return (
        f"weights {BYTES_OF[job.dtype]:g} bytes x {parameters_told(job.parameters)} parameters x {SERVING_OVERHEAD:g} for KV cache"
        f" and activations = {need}, divided by tensor x pipeline size"
    )


def _margin(task: Task) -> Fact:
    if task is Task.TRAIN:
        margin = f"{1 - TRAINING_USABLE_RATIO:.0%} of each GPU stay free for activations (recomputed), NCCL and fragments"
    else:
        margin = f"{SERVING_USABLE_RATIO:.0%} of each GPU are used, vLLM's default; KV cache is a fifth of the weights or more"
    return Fact(Source.ASSUMPTION, margin)


def strategy_lines(host: AdvisedHost, plan: Plan, task: Task) -> Iterator[Line]:
    fit = Fact(
        Source.ARITHMETIC,
        f"{gigabytes(plan.bytes_per_gpu)} a GPU with this, {gigabytes(plan.usable_bytes)} usable",
    )
    if not plan.is_sensible:
        limit = Fact(
            Source.REFERENCE,
            f"Llama 3 405B was trained with {PIPELINE_STAGES_MAX} stages (Llama 3 paper, table 4)",
        )
        advice = (
            f"Not on GPUs like these: it takes {plan.gpus_needed} of them in {plan.pipeline} pipeline stages."
        )
        yield Line(Topic.STRATEGY, advice, fit, (limit,))
        return
    also = [_ZERO] if plan.sharding not in (None, Sharding.DDP) else []
    if plan.hosts > 1:
        up = sum(nic.is_up is not False for nic in host.nics)
        also.append(Fact(source_of(host), f"RDMA interfaces of this host that are not down: {up}"))
    yield Line(Topic.STRATEGY, f"{_sizes(plan, task)}.", fit, tuple(also))
    spare = [gpu.name for gpu in host.gpus if gpu.name not in plan.gpus]
    if spare and plan.hosts == 1:
        used = Fact(Source.ARITHMETIC, f"{len(plan.gpus)} of {len(host.gpus)} GPUs make up whole copies")
        yield Line(Topic.STRATEGY, f"Spare: {span(spare)}.", used)
    if task is Task.TRAIN and plan.data > 1 and _crosses_pcie(host):
        yield from _accumulation_line(host)


def _sizes(plan: Plan, task: Task) -> str:
    """`Serve 2 copies, each TP2 x PP2`; `Train FSDP2 (ZeRO-3) over 3 ranks, each TP8, on 3 hosts like this`."""
    what = f"{plan.data} copies" if plan.data > 1 else "one copy"
    if plan.sharding is not None and plan.data > 1:
        what = f"{plan.sharding} over {plan.data} ranks"
    ways = [f"{letters}{size}" for letters, size in (("TP", plan.tensor), ("PP", plan.pipeline)) if size > 1]
    each = f", each {' x '.join(ways)}" if ways and plan.data > 1 else f", {' x '.join(ways)}" if ways else ""
    where = f", on {plan.hosts} hosts like this" if plan.hosts > 1 else ""
    return f"{'Train' if task is Task.TRAIN else 'Serve'} {what}{each}{where}"


def _crosses_pcie(host: AdvisedHost) -> bool:
    """Whether a ring over all GPUs has to leave their direct links: it need not where these connect everybody."""
    reached, front = set[str](), [host.gpus[0].name]
    while front:
        name = front.pop()
        reached.add(name)
        for pair, link in host.links.items():
            if name in pair and link.is_direct and link.p2p is not False:
                front += pair - reached
    return len(reached) < len(host.gpus)


def _accumulation_line(host: AdvisedHost) -> Iterator[Line]:
    between = list(host.links.values())
    fact = Fact(source_of(host), f"gradients cross PCIe: {_labels(between)}")
    yield Line(
        Topic.GRADIENT_ACCUMULATION,
        "Accumulate gradients over several batches before they are exchanged (DDP: no_sync(); FSDP2:"
        " set_requires_gradient_sync(False)).",
        fact,
    )


def exchange_lines(host: AdvisedHost, job: Job, plan: Plan) -> Iterator[Line]:
    """How long one exchange of gradients takes at the least, where it goes over PCIe."""
    limits = [gpu.pcie for gpu in host.gpus if gpu.name in plan.gpus]
    rates = [rate for limit in limits if limit and (rate := pcie_bytes_per_second(limit))]
    if plan.data < 2 or not _crosses_pcie(host) or len(rates) < len(limits):  # noqa: PLR2004 - one copy
        return
    slowest = min(rates)
    sent = 2 * (plan.data - 1) / plan.data * job.gradients_bytes / (plan.tensor * plan.pipeline)
    fact = Fact(
        Source.ARITHMETIC,
        f"2 x {plan.data - 1}/{plan.data} x gradients = {gigabytes(sent)} a GPU, over {gigabytes(slowest)}/s",
    )
    link = Fact(source_of(host), f"PCIe {_pcie_words(limits)}")
    yield Line(
        Topic.GRADIENT_ACCUMULATION,
        f"Choose so many batches that {sent / slowest:.2g} s are short beside their forward and backward passes.",
        fact,
        (link,),
    )


def pcie_bytes_per_second(limit: PcieLimit) -> float | None:
    """What the link carries one way; None for a generation whose coding is another."""
    rate = _TRANSFERS_PER_SECOND.get(limit.generation)
    return None if rate is None else rate * limit.lanes * 128 / 130 / 8


def _pcie_words(limits: Sequence[PcieLimit | None]) -> str:
    return ", ".join(sorted({f"{limit.generation} x{limit.lanes}" for limit in limits if limit}))
