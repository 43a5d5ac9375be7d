"""From groups and memory to sizes: how many ways tensor, pipeline and data parallel, and how the ranks share. Pure.

The rules, in order: what fits with less communication wins; tensor parallelism stays inside a group; pipeline stages go
across groups; where one host is not enough, the plan says how many like it are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpumond.topology.advise.groups import Group, Tier, slots_of
from gpumond.topology.advise.host import AdvisedHost
from gpumond.topology.advise.memory import (
    Job,
    Sharding,
    Task,
    serving_bytes_per_gpu,
    training_bytes_per_gpu,
    usable_bytes,
)

PIPELINE_STAGES_MAX: Final = 16
"""What Llama 3 405B was trained with ("The Llama 3 Herd of Models", 2024, table 4). Beyond it the bubble, and the number
of layers, say that these are the wrong GPUs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Over all `hosts`; `replicas` are the GPUs of this host that each copy of the model uses.

    `sharding` is None where no ranks share a copy, `hosts` is more than one where the model does not fit into this one.
    """

    tensor: int
    pipeline: int
    data: int
    sharding: Sharding | None
    hosts: int
    bytes_per_gpu: float
    usable_bytes: float
    replicas: tuple[tuple[str, ...], ...]

    @property
    def is_sensible(self) -> bool:
        return self.pipeline <= PIPELINE_STAGES_MAX

    @property
    def gpus_needed(self) -> int:
        return self.tensor * self.pipeline * self.data

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(gpu for replica in self.replicas for gpu in replica)


@dataclass(frozen=True, slots=True)
class _Room:
    """What there is to plan with; `sizes` are those that tensor parallelism can have."""

    host: AdvisedHost
    groups: tuple[Group, ...]
    usable: float
    sizes: tuple[int, ...]

    def slots(self, size: int) -> list[tuple[str, ...]]:
        return [slot for group in self.groups for slot in slots_of(group, size, self.host)]

    @property
    def has_equal_links(self) -> bool:
        """Every GPU has direct links to every other one; a single GPU has nobody to lack them."""
        return len(self.groups) == 1 and (self.groups[0].tier is Tier.DIRECT or len(self.groups[0].gpus) == 1)


def plan_of(host: AdvisedHost, groups: Sequence[Group], job: Job) -> Plan | None:
    """None where the memory of a GPU is not known, or no whole GPU is left to plan with."""
    whole = tuple(group for group in groups if not any(host.gpu(name).has_slices for name in group.gpus))
    memories = [host.gpu(name).memory_bytes for group in whole for name in group.gpus]
    known = [memory for memory in memories if memory]
    if not known or len(known) < len(memories):
        return None
    room = _Room(host, whole, usable_bytes(min(known), job.task), _tensor_sizes(whole))
    return _plan_training(room, job) if job.task is Task.TRAIN else _plan_serving(room, job)


def _tensor_sizes(groups: Sequence[Group]) -> tuple[int, ...]:
    """Powers of two up to what a group has, smallest first."""
    largest = max(group.largest_tensor_size for group in groups)
    return tuple(1 << power for power in range(largest.bit_length()))


def _plan_serving(room: _Room, job: Job) -> Plan:
    """The smallest copy that fits, as often as it fits: requests are independent, so copies need no link."""
    for tensor in _serving_sizes(room):
        if serving_bytes_per_gpu(job, split=tensor) <= room.usable:
            return _copies(room, job, tensor, 1)
    for tensor in reversed(room.sizes):
        stages = math.ceil(serving_bytes_per_gpu(job, split=tensor) / room.usable)
        if stages <= len(room.slots(tensor)):
            return _copies(room, job, tensor, stages)
    tensor = room.sizes[-1]
    slots = room.slots(tensor)
    stages = math.ceil(serving_bytes_per_gpu(job, split=tensor) / room.usable)
    hosts = math.ceil(stages / len(slots))
    pipeline = hosts * len(slots)
    need = serving_bytes_per_gpu(job, split=tensor * pipeline)
    return Plan(tensor, pipeline, 1, None, hosts, need, room.usable, (_joined(slots),))


def _serving_sizes(room: _Room) -> tuple[int, ...]:
    """xGMI joins each pair by a link of its own: two of eight MI300X reach 48 GB/s, all eight 313. So all, or one."""
    uses_xgmi = any(link.is_xgmi for link in room.host.links.values())
    return tuple(dict.fromkeys((1, room.sizes[-1]))) if uses_xgmi else room.sizes


def _copies(room: _Room, job: Job, tensor: int, stages: int) -> Plan:
    replicas = _bundles(room.slots(tensor), stages)
    need = serving_bytes_per_gpu(job, split=tensor * stages)
    return Plan(tensor, stages, len(replicas), None, 1, need, room.usable, replicas)


def _plan_training(room: _Room, job: Job) -> Plan:
    gpus = room.slots(1)
    everyone = (_joined(gpus),)
    for sharding in (Sharding.DDP, Sharding.ZERO1, Sharding.ZERO2):
        need = training_bytes_per_gpu(job, sharding, data=len(gpus))
        if need <= room.usable:
            return Plan(1, 1, len(gpus), sharding, 1, need, room.usable, everyone)
    return _shard_everything(room, job) if room.has_equal_links else _cut_model(room, job)


def _shard_everything(room: _Room, job: Job) -> Plan:
    """FSDP2 gathers all weights for each pass: worth it where every GPU has direct links to every other."""
    gpus = len(room.slots(1))
    need = training_bytes_per_gpu(job, Sharding.ZERO3, data=gpus)
    if need <= room.usable:
        return Plan(1, 1, gpus, Sharding.ZERO3, 1, need, room.usable, (_joined(room.slots(1)),))
    # Across hosts the weights would come through NICs for each pass: tensor parallelism keeps a part of them inside.
    tensor = room.sizes[-1]
    slots = room.slots(tensor)
    data = math.ceil(training_bytes_per_gpu(job, Sharding.ZERO3, data=1, split=tensor) / room.usable)
    hosts = math.ceil(data / len(slots))
    data = hosts * len(slots)
    need = training_bytes_per_gpu(job, Sharding.ZERO3, data=data, split=tensor)
    return Plan(tensor, 1, data, Sharding.ZERO3, hosts, need, room.usable, tuple(slots))


def _cut_model(room: _Room, job: Job) -> Plan:
    """Over PCIe a pipeline sends activations only, where sharded weights would cross it for each pass."""
    for tensor in reversed(room.sizes):
        slots = room.slots(tensor)
        whole = training_bytes_per_gpu(job, Sharding.DDP, data=1, split=tensor)
        stages = math.ceil(whole / room.usable)
        if stages <= len(slots):
            replicas = _bundles(slots, stages)
            sharding = Sharding.DDP if len(replicas) > 1 else None
            return Plan(tensor, stages, len(replicas), sharding, 1, whole / stages, room.usable, replicas)
    tensor = room.sizes[-1]
    slots = room.slots(tensor)
    whole = training_bytes_per_gpu(job, Sharding.DDP, data=1, split=tensor)
    hosts = math.ceil(math.ceil(whole / room.usable) / len(slots))
    pipeline = hosts * len(slots)
    return Plan(tensor, pipeline, 1, None, hosts, whole / pipeline, room.usable, (_joined(slots),))


def _bundles(slots: Sequence[tuple[str, ...]], count: int) -> tuple[tuple[str, ...], ...]:
    """`count` neighbouring slots each; what is left over is spare."""
    return tuple(_joined(slots[at * count : (at + 1) * count]) for at in range(len(slots) // count))


def _joined(slots: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(gpu for slot in slots for gpu in slot)
