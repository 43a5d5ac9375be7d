"""What a scraper sees: the exposition text as goldens, and what must hold for any status."""

from __future__ import annotations

import os
import platform
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import status as fakes
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpumond.exporter.catalogue import AT_SCRAPE, PROCESS, STEADY
from gpumond.exporter.family import Family, Freshness, Kind, Section
from gpumond.exporter.metrics import Exposition, families
from gpumond.exporter.negotiate import Format
from gpumond.model.reading import Value
from gpumond.model.status import HostStatus

GOLDENS = Path(__file__).parents[2] / "data" / "exposition"
SERIES_MAX = 2500  # DESIGN 5
FORMATS = list(Format)
BARE = HostStatus(version="0.1.0", started_at=fakes.NOW)


def render(status, form=Format.TEXT, exposition=None):
    exposition = exposition or Exposition()
    steady = exposition.render_steady(status, form)
    tail = exposition.render_scrape(status, form, at=fakes.NOW, is_steady_complete=steady.is_complete)
    return (steady.text + tail).decode()


def series(text):
    """(name, labels) -> value of everything in a text of either format."""
    parse = parse_openmetrics if text.endswith("# EOF\n") else parse_text
    found = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in parse(text)
        for sample in family.samples
    ]
    assert len(found) == len(dict(found)), "a series twice"
    return dict(found)


def value(text, name, **labels):
    return series(text)[name, frozenset(labels.items())]


def family(name, samples, labels=()):
    return Family(
        f"gpumond_{name}", Kind.GAUGE, Section.HOST, labels, "", "A test.", Freshness.START, "x", samples
    )


class TestGoldens:
    @pytest.mark.parametrize(("name", "form"), [("two_gpus.txt", Format.TEXT), ("two_gpus.openmetrics.txt", Format.OPENMETRICS)])  # fmt: skip
    def test_two_gpus(self, name, form):
        text = self.without_what_varies(render(fakes.two_gpu_status(), form))
        golden = GOLDENS / name
        if os.environ.get("UPDATE_GOLDENS"):
            golden.write_text(text)
        assert text == golden.read_text()

    @staticmethod
    def without_what_varies(text):
        lines = [line for line in text.splitlines(keepends=True) if " process_" not in f" {line}"]
        return "".join(lines).replace(platform.python_version(), "3.x.y")


class TestBothFormats:
    def test_hold_the_same(self):
        text = series(render(fakes.eight_gpu_status()))
        open_metrics = series(render(fakes.eight_gpu_status(), Format.OPENMETRICS))
        varies = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds"}  # fmt: skip
        assert text.keys() == open_metrics.keys()
        assert {k: v for k, v in text.items() if k[0] not in varies} == {
            k: v for k, v in open_metrics.items() if k[0] not in varies
        }

    def test_openmetrics_ends_once(self):
        text = render(fakes.two_gpu_status(), Format.OPENMETRICS)
        assert text.count("# EOF\n") == 1

    @pytest.mark.parametrize("form", FORMATS)
    def test_a_status_without_anything(self, form):
        found = {name for name, _ in series(render(BARE, form))}
        assert "gpumond_build_info" in found
        assert not any(
            name.startswith(("gpumond_gpu_", "gpumond_sweep_", "gpumond_collective_")) for name in found
        )

    @pytest.mark.parametrize("form", FORMATS)
    def test_no_timestamps_and_no_created_series(self, form):
        for line in render(fakes.two_gpu_status(), form).splitlines():
            assert line.startswith("#") or len(line.rpartition("}")[2].split()) <= 2
            assert "_created" not in line


def test_every_family_of_the_table_has_a_sample_on_a_full_host():
    running = replace(fakes.sweep(), running_since=fakes.NOW)
    text = render(replace(fakes.two_gpu_status(), sweeps=(running,)))
    assert {name for name, _ in series(text)} == {
        name for f in (*STEADY, *AT_SCRAPE) for name in f.sample_names
    } | set(PROCESS)


def test_the_budget_of_series_holds_on_the_largest_host_that_it_is_meant_for():
    count = Counter(name for name, _ in series(render(fakes.eight_gpu_status())))
    assert count.total() <= SERIES_MAX
    # A shrunken fake would make the test above empty.
    assert (count["gpumond_gpu_link_up"], count["gpumond_collective_busbw_bytes_per_second"]) == (144, 90)


def test_a_sweep_of_many_sizes_costs_no_more():
    sizes = tuple(1 << exponent for exponent in range(3, 34))
    status = fakes.status(8, 12, ("nightly",), sizes)
    assert len(status.points) == 3 * 5 * len(sizes)
    assert len(series(render(status))) <= SERIES_MAX


def test_what_a_scrape_shows_is_not_rendered_ahead():
    status = fakes.two_gpu_status()
    running = replace(
        status, sweeps=(replace(status.sweeps[0], running_since=fakes.NOW),), unkillable_pids=(1, 2)
    )
    exposition = Exposition()
    assert exposition.render_steady(running, Format.TEXT) == exposition.render_steady(status, Format.TEXT)
    text = render(running)
    assert value(text, "gpumond_sweep_running", sweep="nightly") == 1
    assert value(text, "gpumond_unkillable_processes") == 2
    assert value(text, "gpumond_time_seconds") == fakes.NOW.timestamp()


def test_a_steady_family_cannot_read_what_would_be_stale():
    leak = family(
        "leak", lambda status: [((), 1)] if status.heartbeat_at or status.sweeps[0].running_since else []
    )
    running = replace(fakes.sweep(), running_since=fakes.NOW)
    status = replace(fakes.two_gpu_status(), sweeps=(running,))
    assert "gpumond_leak" not in render(status, exposition=Exposition(families=(leak,)))


class TestIsolation:
    """A family that raises must not take another with it, and must be seen."""

    @staticmethod
    def broken(source):
        yield (), 1
        raise RuntimeError("half a family")

    def test_a_steady_family_that_raises(self):
        exposition = Exposition(families=(family("broken", self.broken), *STEADY))
        text = render(fakes.two_gpu_status(), exposition=exposition)
        assert "gpumond_broken" not in text
        assert value(text, "gpumond_gpus") == 2
        assert value(text, "gpumond_collector_success", collector="exporter") == 0
        assert value(text, "gpumond_collector_success", collector="topology") == 1

    def test_a_scrape_family_that_raises(self):
        exposition = Exposition(scrape_families=(*AT_SCRAPE, family("broken", self.broken)))
        text = render(fakes.two_gpu_status(), exposition=exposition)
        assert "gpumond_broken" not in text
        assert value(text, "gpumond_time_seconds") == fakes.NOW.timestamp()
        assert value(text, "gpumond_collector_success", collector="exporter") == 0

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
    def test_a_value_that_is_no_number(self, bad):
        exposition = Exposition(families=(family("odd", lambda _: [(("a",), bad), (("b",), 1)], ("x",)),))
        text = render(BARE, exposition=exposition)
        assert [k for k in series(text) if k[0] == "gpumond_odd"] == [
            ("gpumond_odd", frozenset({("x", "b")}))
        ]
        assert value(text, "gpumond_collector_success", collector="exporter") == 0

    def test_a_series_twice_keeps_the_first(self):
        exposition = Exposition(families=(family("twice", lambda _: [(("a",), 1), (("a",), 2)], ("x",)),))
        text = render(BARE, exposition=exposition)
        assert value(text, "gpumond_twice", x="a") == 1
        assert value(text, "gpumond_collector_success", collector="exporter") == 0

    def test_labels_that_do_not_fit(self):
        exposition = Exposition(families=(family("short", lambda _: [(("a",), 1)], ("x", "y")),))
        text = render(BARE, exposition=exposition)
        assert "gpumond_short" not in text
        assert value(text, "gpumond_collector_success", collector="exporter") == 0

    def test_a_whole_one_says_so(self):
        text = render(fakes.two_gpu_status())
        assert value(text, "gpumond_collector_success", collector="exporter") == 1


class TestNames:
    def only(self, *names, form=Format.TEXT):
        text = Exposition().render_only(fakes.two_gpu_status(), form, at=fakes.NOW, names=names)
        return {name for name, _ in series(text.decode())}

    @pytest.mark.parametrize("form", FORMATS)
    def test_only_what_was_asked_for(self, form):
        names = (
            "gpumond_gpus",
            "gpumond_sweep_runs_total",
            "gpumond_gpu_info",
            "gpumond_time_seconds",
            "process_open_fds",
        )
        assert self.only(*names, form=form) == set(names)

    def test_nothing_of_that_name(self):
        assert self.only("gpumond_nothing") == set()


HOSTILE = st.text(st.characters(exclude_categories=()), max_size=300) | st.sampled_from(
    [
        '"',
        "\\",
        "\n",
        "\r\n",
        "\x00",
        "\\n",
        'a"} 1\ngpumond_gpus 99\n',
        "<script>alert(1)</script>",
        "x" * 10_000,
        "\udcff",
    ]
)


@st.composite
def statuses(draw):
    """A host whose names came from an enemy, with GPUs, interfaces and sweeps that may be called the same."""
    status = fakes.two_gpu_status()
    snapshot = status.snapshot
    gpus = tuple(replace(gpu, name=Value(draw(HOSTILE)), uuid=draw(HOSTILE)) for gpu in snapshot.gpus)
    nics = tuple(replace(snapshot.nics[0], name=draw(HOSTILE), node_guid=draw(HOSTILE)) for _ in range(2))
    return replace(
        status,
        version=draw(HOSTILE),
        snapshot=replace(snapshot, gpus=gpus, nics=nics),
        inventory=tuple(replace(entry, name=draw(HOSTILE), uuid=draw(HOSTILE)) for entry in status.inventory),
        sweeps=tuple(
            replace(status.sweeps[0], name=draw(HOSTILE), failures={draw(HOSTILE): 1}) for _ in range(2)
        ),
        points=tuple(
            replace(status.points[0], sweep=draw(HOSTILE), datatype=draw(HOSTILE)) for _ in range(2)
        ),
        gpu_sets=(replace(status.gpu_sets[0], name=draw(HOSTILE)),),
        collectors=tuple(replace(status.collectors[0], name=draw(HOSTILE)) for _ in range(2)),
    )


@settings(max_examples=40, deadline=None)
@given(statuses(), st.sampled_from(FORMATS))
def test_no_name_spoils_a_scrape_or_forges_a_series(status, form):
    found = series(render(status, form))  # fails on a series twice and on text that does not parse
    assert found["gpumond_gpus", frozenset()] == 2
    assert {name for name, _ in found} <= {
        name for f in (*STEADY, *AT_SCRAPE) for name in f.sample_names
    } | set(PROCESS)


def test_families_are_the_library_s_metrics():
    metrics = {metric.name: metric for metric in families(fakes.two_gpu_status())}
    assert metrics["gpumond_gpu_present"].samples[0].labels == {"gpu": "0", "uuid": fakes.uuid_of(0)}
    assert metrics["gpumond_build"].type == "info"


def test_the_library_is_set_to_names_that_old_servers_can_scrape():
    with pytest.raises(ValueError, match="invalid metric name"):
        list(families(BARE, [family("bus-bw", lambda _: [((), 1)])]))
