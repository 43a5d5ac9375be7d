"""What can change about one GPU, one rule a function: twin -> findings. Pure.

A rule compares values only: where one side could not be read it finds nothing (gpumond.topology.compare.visibility says
that once). What varies by design (clocks, current PCIe generation at idle, memory, processes, index, minor number) has
no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from gpumond.model.change import Change, ChangeKind, Level
from gpumond.model.reading import Reading, Value
from gpumond.model.topology import Gpu
from gpumond.topology.compare.culprits import Finding, gpu_names, merged
from gpumond.topology.compare.matching import Comparison, Twin, changed
from gpumond.topology.fabric import STATE_COMPLETED, STATE_NOT_SUPPORTED, faults_of, is_registering

T = TypeVar("T")
Findings: TypeAlias = Iterator[Finding]
Rule: TypeAlias = Callable[[Twin[Gpu], Comparison], Findings]

BOOT_GRACE_SECONDS = 300.0
"""A fabric may take minutes to come up after a boot; topology reference 5.1 suggests five, unproven."""

IDLE_PERFORMANCE_STATE_MIN = 8
"""From P8 on a GPU saves power, and its PCIe link may run at generation 1 (Syllo/nvtop#6)."""

CRITICAL_WIDTH_SHARE = 0.25

_RECOVERY_ACTIONS = {
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain P2P",
    4: "drain and reset the GPU",
    5: "recover IMEX",
    6: "reset the bus",
    7: "reboot the system",
}


def gpu_changes(comparison: Comparison) -> Iterator[Change]:
    """Changes of GPUs that both snapshots have, taken by themselves."""
    findings = {
        twin.key: [finding for rule in _RULES for finding in rule(twin, comparison)]
        for twin in comparison.gpus.twins
    }
    yield from merged({key: found for key, found in findings.items() if found}, gpu_names(comparison))


# --- identity ----------------------------------------------------------------------------------------------------------


def _place(twin: Twin[Gpu], comparison: Comparison) -> Findings:
    before, after = twin.before, twin.after
    if before.uuid != after.uuid:
        what = f"this is another GPU now ({after.uuid}, accepted is {before.uuid})"
        yield Finding(ChangeKind.GPU_REPLACED, Level.WARNING, what, before.uuid, after.uuid)
    elif before.pci_bus_id != after.pci_bus_id:
        # Bus numbers are given out at boot (ubicloud/ubicloud#6330).
        level = Level.WARNING if comparison.is_same_boot else Level.INFO
        what = f"it was accepted at {before.pci_bus_id}"
        yield Finding(ChangeKind.GPU_MOVED, level, what, before.pci_bus_id, after.pci_bus_id)


def _model(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    names = changed(twin.before.name, twin.after.name)
    if names and not _is_replaced(twin):
        what = f"the driver calls it {names[1]!r}, accepted is {names[0]!r}"
        yield Finding(ChangeKind.GPU_MODEL, Level.INFO, what, *names)


def _vbios(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    versions = changed(twin.before.vbios_version, twin.after.vbios_version)
    if versions and not _is_replaced(twin):
        what = f"the VBIOS is {versions[1]}, accepted is {versions[0]}"
        yield Finding(ChangeKind.VBIOS, Level.INFO, what, *versions)


def _is_replaced(twin: Twin[Gpu]) -> bool:
    return twin.before.uuid != twin.after.uuid


# --- PCIe --------------------------------------------------------------------------------------------------------------


def _pcie_width(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    before, after = twin.before.pcie, twin.after.pcie
    lanes = changed(before.width_lanes, after.width_lanes)
    most = changed(before.width_lanes_max, after.width_lanes_max)
    if lanes is None and most is None:
        return
    # A card in a narrower slot loses both: one fault.
    was, now = lanes or most or (0, 0)
    what = f"its PCIe link {'has' if lanes else 'could have'} {now} lanes, accepted are {was}"
    evidence = (f"x{was}", f"x{now}")
    if now < was:
        level = Level.CRITICAL if now <= was * CRITICAL_WIDTH_SHARE else Level.WARNING
        yield Finding(ChangeKind.PCIE_WIDTH_LOWER, level, what, *evidence)
    else:
        yield Finding(ChangeKind.PCIE_WIDTH_HIGHER, Level.INFO, what, *evidence)


def _pcie_generation_max(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    generations = changed(twin.before.pcie.generation_max, twin.after.pcie.generation_max)
    if generations is None:
        return
    was, now = generations
    what = f"GPU and slot support PCIe generation {now}, accepted is {was}"
    if now < was:
        yield Finding(ChangeKind.PCIE_GENERATION_MAX_LOWER, Level.WARNING, what, str(was), str(now))
    else:
        yield Finding(ChangeKind.PCIE_GENERATION_MAX_HIGHER, Level.INFO, what, str(was), str(now))


def _pcie_generation_under_load(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    """At idle the generation drops on purpose (1,415 times in two minutes: local-inference-lab/rtx6kpro#88)."""
    before, after = twin.before.pcie, twin.after.pcie
    wanted = before.generation if is_loaded(twin.before) else before.generation_max
    generations = changed(wanted, after.generation)
    if generations is None or not is_loaded(twin.after):
        return
    was, now = generations
    if now < was and changed(before.generation_max, after.generation_max) is None:
        what = f"its PCIe link runs at generation {now} under load, accepted is {was}"
        yield Finding(ChangeKind.PCIE_GENERATION_LOW_UNDER_LOAD, Level.WARNING, what, str(was), str(now))


def is_loaded(gpu: Gpu) -> bool:
    """Whether this snapshot is a sample under load: the GPU computes, and is in no power-saving state."""
    match gpu.utilisation_ratio, gpu.performance_state:
        case Value(ratio), Value(state):
            return ratio > 0 and state < IDLE_PERFORMANCE_STATE_MIN
        case _:
            return False


# --- fabric ------------------------------------------------------------------------------------------------------------


def _fabric(twin: Twin[Gpu], comparison: Comparison) -> Findings:
    fabrics = changed(twin.before.fabric, twin.after.fabric)
    if fabrics is None or STATE_NOT_SUPPORTED in (fabrics[0].state, fabrics[1].state):
        return
    faults = (faults_of(fabrics[0]), faults_of(fabrics[1]))
    evidence = tuple(", ".join(sorted(some)) or "healthy" for some in faults)
    if faults[1] - faults[0]:
        is_booting = comparison.after.host.uptime_seconds < BOOT_GRACE_SECONDS
        level = Level.INFO if is_booting and is_registering(faults[1]) else Level.CRITICAL
        what = f"NVLink fabric: {evidence[1]}; accepted is {evidence[0]}"
        yield Finding(ChangeKind.FABRIC_FAULT, level, what, *evidence)
    if faults[0] - faults[1]:
        what = f"NVLink fabric: {evidence[1]}; accepted is {evidence[0]}"
        yield Finding(ChangeKind.FABRIC_RECOVERED, Level.INFO, what, *evidence)


def _fabric_clique(twin: Twin[Gpu], comparison: Comparison) -> Findings:
    """The fabric manager gives these out anew at each boot; a fault changes more than they."""
    fabrics = changed(twin.before.fabric, twin.after.fabric)
    if fabrics is None or not comparison.is_same_boot or not comparison.is_same_driver:
        return
    cliques = tuple(f"clique {fabric.clique_id} of {fabric.cluster_uuid}" for fabric in fabrics)
    is_sound = all(fabric.state == STATE_COMPLETED and not faults_of(fabric) for fabric in fabrics)
    if cliques[0] != cliques[1] and is_sound:
        what = f"NVLink fabric: {cliques[1]}, accepted is {cliques[0]}"
        yield Finding(ChangeKind.FABRIC_CLIQUE, Level.INFO, what, *cliques)


# --- where it is attached ----------------------------------------------------------------------------------------------


def _numa(twin: Twin[Gpu], comparison: Comparison) -> Findings:
    before, after = twin.before, twin.after
    nodes = changed(before.numa_node, after.numa_node)
    if nodes is not None:
        what = f"it is attached to NUMA node {nodes[1]}, accepted is node {nodes[0]}"
        yield Finding(ChangeKind.NUMA_NODE, Level.WARNING, what, str(nodes[0]), str(nodes[1]))
        return
    # Other CPUs online, or allowed: the lists differ although nothing moved.
    if comparison.before.host.cpu_count != comparison.after.host.cpu_count or not comparison.is_same_cpuset:
        return
    lists = (
        ("CPUs", changed(before.cpu_affinity, after.cpu_affinity)),
        ("memory nodes", changed(before.memory_affinity, after.memory_affinity)),
    )
    moved = [(name, texts) for name, texts in lists if texts is not None]
    if moved:
        was, now = ("; ".join(f"{name} {texts[at]}" for name, texts in moved) for at in (0, 1))
        what = f"it is nearest to {now}, accepted is {was}"
        yield Finding(ChangeKind.AFFINITY, Level.WARNING, what, was, now)


# --- modes and health --------------------------------------------------------------------------------------------------


def _mig(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    return _mode(
        "MIG",
        (twin.before.mig_mode, twin.after.mig_mode),
        (twin.before.mig_mode_pending, twin.after.mig_mode_pending),
        (ChangeKind.MIG_MODE, ChangeKind.MIG_PENDING, ChangeKind.MIG_SETTLED),
    )


def _ecc(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    return _mode(
        "ECC",
        (twin.before.ecc_mode, twin.after.ecc_mode),
        (twin.before.ecc_mode_pending, twin.after.ecc_mode_pending),
        (ChangeKind.ECC_MODE, ChangeKind.ECC_PENDING, ChangeKind.ECC_SETTLED),
    )


def _mode(
    name: str,
    modes: tuple[Reading[bool], Reading[bool]],
    pendings: tuple[Reading[bool], Reading[bool]],
    kinds: tuple[ChangeKind, ChangeKind, ChangeKind],
) -> Findings:
    switched = changed(*modes)
    if switched is not None:
        was, now = (_on_off(mode) for mode in switched)
        yield Finding(kinds[0], Level.WARNING, f"{name} mode is {now}, accepted is {was}", was, now)
        return
    waits = [changed(mode, pending) is not None for mode, pending in zip(modes, pendings, strict=True)]
    is_known = all(isinstance(reading, Value) for reading in (*modes, *pendings))
    if is_known and waits[0] != waits[1]:
        was, now = ("pending" if waiting else "settled" for waiting in waits)
        if waits[1]:
            what = f"{name} mode changes at the next reset or reboot"
            yield Finding(kinds[1], Level.WARNING, what, was, now)
        else:
            yield Finding(kinds[2], Level.INFO, f"no change of {name} mode is pending any more", was, now)


def _on_off(mode: bool) -> str:  # noqa: FBT001 - the mode is what is shown
    return "on" if mode else "off"


def _partition(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    before, after = twin.before, twin.after
    modes = (
        ("compute", changed(before.compute_partition, after.compute_partition)),
        ("memory", changed(before.memory_partition, after.memory_partition)),
    )
    switched = [(name, texts) for name, texts in modes if texts is not None]
    if switched:
        was, now = ("; ".join(f"{name} {texts[at]}" for name, texts in switched) for at in (0, 1))
        what = f"partition mode: {now}, accepted is {was}"
        yield Finding(ChangeKind.PARTITION_MODE, Level.WARNING, what, was, now)


def _row_remap(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    before, after = twin.before, twin.after
    pending = changed(before.remapped_rows_pending, after.remapped_rows_pending)
    if pending == (False, True):
        what = "a row of memory waits for a GPU reset to be remapped"
        yield Finding(ChangeKind.ROW_REMAP_PENDING, Level.WARNING, what, "none pending", "pending")
    elif pending is not None:
        what = "no row of memory waits to be remapped any more"
        yield Finding(ChangeKind.ROW_REMAP_DONE, Level.INFO, what, "pending", "none pending")
    failure = changed(before.remapped_rows_failure, after.remapped_rows_failure)
    if failure == (False, True):
        what = "remapping a row of memory has failed: the GPU is to be replaced"
        yield Finding(ChangeKind.ROW_REMAP_FAILED, Level.CRITICAL, what, "no failure", "failure")
    elif failure is not None:
        what = "no failed row remapping is reported any more"
        yield Finding(ChangeKind.ROW_REMAP_FAILURE_GONE, Level.INFO, what, "failure", "no failure")


def _recovery(twin: Twin[Gpu], _comparison: Comparison) -> Findings:
    actions = changed(twin.before.recovery_action, twin.after.recovery_action)
    if actions is None:
        return
    was, now = (_RECOVERY_ACTIONS.get(action, f"action {action}" if action else "none") for action in actions)
    if actions[1]:
        what = f"the driver asks to {now}"
        yield Finding(ChangeKind.RECOVERY_NEEDED, Level.CRITICAL, what, was, now)
    if actions[0]:
        what = f"the driver no longer asks to {was}"
        yield Finding(ChangeKind.RECOVERY_DONE, Level.INFO, what, was, now)


_RULES: tuple[Rule, ...] = (
    _place,
    _model,
    _vbios,
    _pcie_width,
    _pcie_generation_max,
    _pcie_generation_under_load,
    _fabric,
    _fabric_clique,
    _numa,
    _mig,
    _ecc,
    _partition,
    _row_remap,
    _recovery,
)
