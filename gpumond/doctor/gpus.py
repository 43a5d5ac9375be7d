"""Checks of the GPUs and their driver, from one snapshot. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpumond.config.schema import Config
from gpumond.doctor.checks import NOT_EVALUATED, Check, Level
from gpumond.model.reading import Unreadable, UnreadableReason, Value, value_or_none
from gpumond.model.topology import Host, P2pCapability, P2pStatus, Snapshot, Vendor
from gpumond.probe.launcher import ProbeResult

_DRIVER_HINTS = {
    UnreadableReason.NO_LIBRARY: "Install the GPU driver. On a host without GPUs there is nothing to monitor.",
    UnreadableReason.DRIVER_NOT_LOADED: "Load the kernel module (`modprobe nvidia`); after an installation, reboot.",
    UnreadableReason.DRIVER_MISMATCH: "Reboot: library and kernel module differ, usually after an upgrade.",
    UnreadableReason.NO_PERMISSION: "Give this user the device nodes: groups video and render, or the container's GPUs.",
}

_FABRIC_COMPLETED = 3
_FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", _FABRIC_COMPLETED: "completed"}


def check_gpus(config: Config, result: ProbeResult) -> Iterator[Check]:
    """Driver, GPUs, links, fabric; only the first that fails where nothing behind it can be known."""
    if config.simulate is not None:
        yield Check("host", Level.NOTE, f"simulated: {config.simulate.scenario}; nothing below is real")
    snapshot = result.snapshot
    if snapshot is None:
        yield Check("probe", Level.MISSING, result.detail, "Run `gpumond topology` to see more.")
        return
    yield Check("probe", Level.OK, f"one snapshot in {result.duration_seconds:.2f} s")
    driver = snapshot.driver
    if isinstance(driver, Unreadable):
        hint = _DRIVER_HINTS.get(driver.reason, "`nvidia-smi` or `amd-smi` may say more.")
        yield Check("driver", Level.MISSING, driver.detail or driver.reason.value, hint)
        return
    yield from _check_driver(snapshot)
    yield from _check_presence(snapshot)
    yield from _check_persistence(snapshot)
    yield from _check_fabric(snapshot)
    yield from _check_p2p(snapshot)
    yield from check_acs(snapshot.host)


def _check_driver(snapshot: Snapshot) -> Iterator[Check]:
    version = value_or_none(snapshot.host.driver_version) or "unknown version"
    toolkits = {"CUDA": snapshot.host.cuda_version, "ROCm": snapshot.host.rocm_version}
    named = [f"{name} {it.value}" for name, it in toolkits.items() if isinstance(it, Value)]
    yield Check("driver", Level.OK, ", ".join((version, *named)))
    if snapshot.vendor is Vendor.AMD:
        yield from _check_amd(snapshot)


def _check_amd(snapshot: Snapshot) -> Iterator[Check]:
    yield Check(
        "amd",
        Level.WARNING,
        "support for AMD GPUs was never tried on hardware",
        "Please report what you see.",
    )
    library = snapshot.host.driver_library_version
    if isinstance(library, Unreadable):
        yield Check(
            "ROCm library",
            Level.WARNING,
            f"{library.detail}; only links and identity are read, from the kernel driver",
            "Install amd-smi-lib of the installed ROCm, or set ROCM_PATH.",
        )


def _check_presence(snapshot: Snapshot) -> Iterator[Check]:
    models = Counter(value_or_none(gpu.name) or "unknown model" for gpu in snapshot.gpus)
    if models:
        detail = ", ".join(f"{count} x {model}" for model, count in models.items())
        yield Check("GPUs", Level.OK, detail)
    else:
        yield Check("GPUs", Level.MISSING, "the driver shows none", "Look at `lspci` and the kernel log.")
    for silent in snapshot.silent_gpus:
        name = silent.pci_bus_id or f"index {silent.index}"
        reason = silent.cause.detail or silent.cause.reason.value
        level = Level.NOTE if silent.cause.reason is UnreadableReason.ASLEEP else Level.MISSING
        hint = (
            ""
            if level is Level.NOTE
            else "Look for an Xid in the kernel log; a reset or a reboot may be needed."
        )
        yield Check(f"GPU {name}", level, reason, hint)


def _check_persistence(snapshot: Snapshot) -> Iterator[Check]:
    off = [gpu.index for gpu in snapshot.gpus if gpu.persistence_mode == Value(value=False)]
    if off:
        yield Check(
            "persistence mode",
            Level.WARNING,
            f"off on {len(off)} GPUs: each start of a benchmark and each snapshot wakes the driver first",
            "Enable nvidia-persistenced.",
        )


def _check_fabric(snapshot: Snapshot) -> Iterator[Check]:
    states = Counter(gpu.fabric.value.state for gpu in snapshot.gpus if isinstance(gpu.fabric, Value))
    states.pop(0, None)
    if not states:
        return
    if set(states) == {_FABRIC_COMPLETED}:
        yield Check("fabric", Level.OK, f"registered on {states[_FABRIC_COMPLETED]} GPUs")
        return
    detail = ", ".join(f"{count} GPUs {_FABRIC_STATES.get(state, state)}" for state, count in states.items())
    yield Check(
        "fabric",
        Level.MISSING,
        detail,
        "NVSwitch needs a running nvidia-fabricmanager of the driver's version.",
    )


def _check_p2p(snapshot: Snapshot) -> Iterator[Check]:
    if not snapshot.pairs:
        return
    states = Counter(_p2p_word(pair.p2p.get(P2pCapability.READ)) for pair in snapshot.pairs)
    if set(states) == {P2pStatus.OK.value}:
        yield Check("P2P", Level.OK, f"the driver says OK for all {len(snapshot.pairs)} directed pairs")
        return
    detail = ", ".join(f"{count} pairs {word}" for word, count in states.items())
    yield Check(
        "P2P",
        Level.WARNING,
        detail,
        "Transfers go through host memory; IOMMU and ACS settings are the usual reasons.",
    )


def check_acs(host: Host) -> Iterator[Check]:
    """Whether bridges redirect P2P; nothing where there are none above the GPUs."""
    match host.acs_redirects:
        case Value(value=()):
            yield Check("ACS", Level.OK, "no bridge above the GPUs redirects P2P")
        case Value(value=bridges):
            yield Check(
                "ACS",
                Level.WARNING,
                f"P2P is redirected through the root by {', '.join(bridges)}",
                "On bare metal, switch ACS off in the firmware or with setpci: P2P over PCIe is slow or hangs.",
            )
        case Unreadable(UnreadableReason.NO_PERMISSION, detail):
            hint = (
                "The drop-in root-facts.conf lets the daemon read it; docs/privileges.md says at what price."
            )
            yield Check("ACS", Level.NOTE, f"{NOT_EVALUATED}: {detail}", hint)
        case Unreadable(detail=detail):
            yield Check("ACS", Level.NOTE, f"not evaluated: {detail}")


def _p2p_word(reading: object) -> str:
    return reading.value.value if isinstance(reading, Value) else "unknown"
