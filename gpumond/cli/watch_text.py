"""What the watch saw during a run, as facts for `gpumond history ID`."""

from __future__ import annotations

from collections.abc import Iterator

from gpumond.model.watch import LoadSummary, Preemption, RunWatch, Spread, event_reasons


def watch_facts(watch: RunWatch | None) -> Iterator[tuple[str, str]]:
    """Names and values; one line where nothing watched."""
    if watch is None:
        yield "watched", "no"
        return
    yield "watched", f"{watch.looks} looks, at most {watch.longest_gap_seconds:.1f} s apart"
    if watch.doubt:
        yield "not alone?", watch.doubt
    if watch.preemption is not None:
        yield from _preemption_facts(watch.preemption)
    yield "CPU load", f"{watch.cpu_load_average:.1f}"
    for gpu in watch.gpus:
        if gpu.samples:
            yield "load", f"{gpu.uuid}: {', '.join(_load_words(gpu))}"


def _preemption_facts(preemption: Preemption) -> Iterator[tuple[str, str]]:
    for process in preemption.foreign:
        yield "foreign", str(process)
    steps = (
        ("SIGKILL sent", preemption.kill_sent_seconds),
        ("none of ours left", preemption.gone_seconds),
        ("driver clear", preemption.clear_seconds),
    )
    times = [f"{name} after {seconds:.2f} s" for name, seconds in steps if seconds is not None]
    yield "given back", ", ".join(times) or "it had ended by itself"


def _load_words(gpu: LoadSummary) -> Iterator[str]:
    spreads = (
        (gpu.sm_clock_hertz, 1e-6, "MHz"),
        (gpu.power_watts, 1.0, "W"),
        (gpu.temperature_celsius, 1.0, "C"),
        (gpu.memory_utilisation_ratio, 100.0, "% memory"),
    )
    for spread, factor, unit in spreads:
        if spread is not None:
            yield f"{_range(spread, factor)} {unit}"
    if gpu.pcie_generation is not None and gpu.pcie_width_lanes is not None:
        yield f"PCIe {_range(gpu.pcie_generation, 1.0)} x{_range(gpu.pcie_width_lanes, 1.0)}"
    if gpu.event_reasons:
        yield f"clocks held by {event_reasons(gpu.event_reasons)}"


def _range(spread: Spread, factor: float) -> str:
    """Least, median and most; one number where all are the same."""
    shown = [f"{value * factor:.0f}" for value in (spread.minimum, spread.median, spread.maximum)]
    return shown[0] if len(set(shown)) == 1 else "/".join(shown)
