"""What NVML's fabric numbers say: is a GPU registered with its NVLink fabric, and if not, what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpumond.model.topology import Fabric

STATE_NOT_SUPPORTED = 0
STATE_COMPLETED = 3

_SUCCESS = 0
_TRUE = 1  # of two bits: 0 not supported, 1 true, 2 false
_UNFINISHED = {1: "registration not started", 2: "registration in progress"}

# nvmlGpuFabricInfo healthMask: the two-bit fields that are faults when true. Those at bit 12 (partition assigned) and
# 14 (state of the fabric manager) mean something else.
_FAULT_BITS = {
    0: "degraded bandwidth",
    2: "route recovery in progress",
    4: "route unhealthy",
    6: "access timeout recovery",
}
_CONFIGURATION_BIT = 8
_CONFIGURATION_MASK = 0xF
_CONFIGURATION_FAULTS = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
_CONFIGURATION_FAULT_MIN = 2
_SUMMARIES = {2: "unhealthy", 3: "limited capacity"}


def faults_of(fabric: Fabric) -> frozenset[str]:
    """Everything that is wrong, in words; empty for a healthy fabric and for a GPU that has none."""
    if fabric.state == STATE_NOT_SUPPORTED:
        return frozenset()
    if fabric.state != STATE_COMPLETED:
        return frozenset({_UNFINISHED.get(fabric.state, f"registration state {fabric.state}")})
    found = frozenset(_faults_of_completed(fabric))
    if not found and fabric.health_summary in _SUMMARIES:
        # The summary is made of the mask: it adds something only where the mask says nothing.
        return frozenset({_SUMMARIES[fabric.health_summary]})
    return found


def is_registering(faults: frozenset[str]) -> bool:
    """Whether nothing is wrong but that registration has not finished yet."""
    return bool(faults) and faults <= frozenset(_UNFINISHED.values())


def _faults_of_completed(fabric: Fabric) -> Iterator[str]:
    # A completed registration may still have failed (Azure/azhpc-images#506).
    if fabric.status != _SUCCESS:
        yield f"registration completed with status {fabric.status}"
    for bit, fault in _FAULT_BITS.items():
        if fabric.health_mask >> bit & 0b11 == _TRUE:
            yield fault
    configuration = fabric.health_mask >> _CONFIGURATION_BIT & _CONFIGURATION_MASK
    if configuration >= _CONFIGURATION_FAULT_MIN:
        yield _CONFIGURATION_FAULTS.get(configuration, f"incorrect configuration {configuration}")
