"""What `gpumond history ID` says of the watch."""

from gpumond.cli.watch_text import watch_facts
from gpumond.model.watch import ForeignProcess, LoadSummary, Preemption, RunWatch, Spread

LOAD = LoadSummary(
    "GPU-a",
    8,
    sm_clock_hertz=Spread(1.2e9, 1.98e9, 1.98e9),
    power_watts=Spread(125, 270, 690),
    temperature_celsius=Spread(43, 43, 43),
    pcie_generation=Spread(5, 5, 5),
    pcie_width_lanes=Spread(16, 16, 16),
    event_reasons=0x4,
)
WATCH = RunWatch(41, 0.12, 3.5, gpus=(LOAD, LoadSummary("GPU-b", 0)))


def test_a_run_of_an_older_gpumond_was_not_watched():
    assert dict(watch_facts(None)) == {"watched": "no"}


def test_a_quiet_run_has_its_load():
    facts = dict(watch_facts(WATCH))
    assert facts["watched"] == "41 looks, at most 0.1 s apart"
    assert (
        facts["load"]
        == "GPU-a: 1200/1980/1980 MHz, 125/270/690 W, 43 C, PCIe 5 x16, clocks held by power cap"
    )
    assert "foreign" not in facts


def test_a_preempted_run_names_who_came_and_how_long_it_took():
    foreign = ForeignProcess(4711, "compute", "GPU-a", "python")
    facts = dict(watch_facts(RunWatch(9, 0.1, 0.0, preemption=Preemption((foreign,), 0.02, 0.31, None))))
    assert facts["foreign"] == "pid 4711 python (compute) on GPU-a"
    assert facts["given back"] == "SIGKILL sent after 0.02 s, none of ours left after 0.31 s"
