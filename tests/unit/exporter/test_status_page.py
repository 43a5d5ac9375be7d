"""What stands on the page, read back from its HTML by the standard library's parser."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
import status as fakes
from hypothesis import given
from hypothesis import strategies as st

from gpumond.exporter.page.html import Markup, document, element, join
from gpumond.exporter.page.status_page import render_page
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.run import Verdict
from gpumond.model.status import CollectorStatus, HostStatus


class Page(HTMLParser):
    """The texts of a page by the element that holds them, and its table rows by section."""

    def __init__(self, html):
        super().__init__()
        self.open_tags = []
        self.texts = []
        self.rows = {}
        self.links = []
        self.section = ""
        self.feed(html)
        self.close()
        assert self.open_tags == []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in {"href", "src"}]
        if tag in {"meta", "link"}:
            return
        self.open_tags.append(tag)
        if tag == "h2":
            self.section = ""
        if tag == "tr":
            self.rows.setdefault(self.section, []).append([])
        if tag in {"td", "th"}:
            self.rows[self.section][-1].append("")

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if "h2" in self.open_tags:
            self.section += data
        if {"td", "th"} & set(self.open_tags):
            self.rows[self.section][-1][-1] += data

    def table(self, section):
        head, *rows = self.rows[section]
        return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture
def status():
    return fakes.two_gpu_status()


FINDING = Finding(
    FindingKind.STEP,
    Level.WARNING,
    "nightly/all",
    "all_reduce is at 95.0% of its baseline",
    "transport P2P",
    fakes.NOW,
    fakes.NOW,
)


def page_of(status):
    return Page(render_page(status, fakes.NOW))


class TestGpus:
    def test_those_that_are_there(self, status):
        first, second = page_of(status).table("GPUs")
        assert first == {
            "GPU": "0",
            "State": "present",
            "Model": "NVIDIA H200",
            "PCI bus id": "0000:10:00.0",
            "NVLinks up": "18 of 18",
            "PCIe lanes": "16 of 16",
            "ECC uncorrected": "0",
            "UUID": fakes.uuid_of(0),
        }
        assert second["GPU"] == "1"

    def test_one_that_is_missing_and_one_that_is_new(self, status):
        first, second = status.snapshot.gpus
        new = replace(second, uuid=GpuUuid("GPU-new"))
        rows = page_of(replace(status, snapshot=replace(status.snapshot, gpus=(first, new)))).table("GPUs")
        assert [(row["GPU"], row["State"]) for row in rows] == [
            ("0", "present"),
            ("1", "missing"),
            ("-", "not accepted"),
        ]

    def test_before_the_first_snapshot(self, status):
        page = page_of(replace(status, snapshot=None))
        assert [row["State"] for row in page.table("GPUs")] == ["unknown", "unknown"]
        assert "No snapshot yet." in page.texts

    def test_no_value_is_no_zero(self, status):
        gpu = status.snapshot.gpus[0]
        odd = replace(
            gpu,
            nvlinks=NOT_SUPPORTED,
            pcie=replace(gpu.pcie, width_lanes=fakes.UNREADABLE),
            ecc_errors=fakes.UNREADABLE,
        )
        row = page_of(replace(status, snapshot=replace(status.snapshot, gpus=(odd,)))).table("GPUs")[0]
        assert (row["NVLinks up"], row["PCIe lanes"], row["ECC uncorrected"]) == ("-", "? of 16", "-")


def test_links_are_a_matrix(status):
    rows = page_of(status).table("Links")
    assert rows == [
        {"": "GPU 0", "GPU 0": "X", "GPU 1": "NV18"},
        {"": "GPU 1", "GPU 0": "NV18", "GPU 1": "X"},
    ]


def test_the_last_result(status):
    verdict = replace(status.verdicts[0], verdict=Verdict.NOT_EVALUATED, reason="learning")
    [row] = page_of(replace(status, verdicts=(verdict,))).table("Last results")
    assert row == {
        "Sweep": "nightly",
        "GPU set": "all",
        "Collective": "all_reduce",
        "Type": "float",
        "Size": "2 GiB",
        "busbw GB/s": "338.12",
        "algbw GB/s": "338.12",
        "Time": "6.35 ms",
        "Wrong": "0",
        "Verdict": "not evaluated learning",
        "Measured": "25 min ago",
    }


def test_a_verdict_without_a_result_is_shown(status):
    [row] = page_of(replace(status, points=())).table("Last results")
    assert (row["Collective"], row["busbw GB/s"], row["Verdict"]) == ("all_reduce", "-", "ok")


def test_sweeps(status):
    [row] = page_of(status).table("Sweeps")
    assert row == {
        "Sweep": "nightly",
        "State": "succeeded",
        "Last run": "25 min ago",
        "Took": "18.5 s",
        "Due": "in 23 h",
        "Runs": "31",
        "Failed": "1 (total_timeout 1)",
        "Skipped": "3 (busy 3)",
        "Given back": "1",
    }


@pytest.mark.parametrize(("success", "state"), [(True, "succeeded"), (False, "failed"), (None, "waiting")])
def test_the_state_of_a_sweep(status, success, state):
    sweep = replace(status.sweeps[0], last_run_success=success)
    assert page_of(replace(status, sweeps=(sweep,))).table("Sweeps")[0]["State"] == state
    running = replace(sweep, running_since=fakes.NOW)
    [row] = page_of(replace(status, sweeps=(running,))).table("Sweeps")
    assert row["State"] == "running since 2026-11-29 02:30:00 UTC"


def test_no_sweep_is_said(status):
    assert any("No sweep is configured" in text for text in page_of(replace(status, sweeps=())).texts)


def test_a_collector_that_fails_says_why(status):
    failing = replace(
        status.collectors[0], is_successful=False, last_success=None, detail="driver not loaded"
    )
    [row] = page_of(replace(status, collectors=(failing,))).table("Collectors")
    assert (row["State"], row["Last success"], row["Detail"]) == ("failing", "never", "driver not loaded")


class TestBanners:
    def banners(self, status):
        return [
            text
            for text in page_of(status).texts
            if text.startswith(("Simulated", "Starting", "The GPU driver"))
        ]

    def test_none_on_a_real_host(self, status):
        assert self.banners(status) == []

    def test_a_simulated_host_says_so(self, status):
        [text] = self.banners(replace(status, simulated="hgx-h200"))
        assert "hgx-h200" in text

    def test_a_driver_without_an_answer(self, status):
        mute = replace(status.snapshot, driver=Unreadable(UnreadableReason.DRIVER_MISMATCH, "580 and 575"))
        [text] = self.banners(replace(status, snapshot=mute))
        assert text == "The GPU driver gives no answer: driver_mismatch 580 and 575"

    def test_at_the_start(self):
        bare = HostStatus(version="0.1.0", started_at=fakes.NOW)
        assert len(self.banners(bare)) == 1


def test_links_stay_on_this_host(status):
    assert set(page_of(status).links) == {
        "/static/style.css",
        "/favicon.svg",
        "/metrics",
        "/api/v1/status",
        "/api/v1/topology",
    }


@given(st.text(st.characters(exclude_categories=())))
def test_no_name_becomes_markup(name):
    status = fakes.two_gpu_status()
    gpu = replace(status.snapshot.gpus[0], name=Value(name), uuid=GpuUuid(name))
    point = replace(status.points[0], sweep=name, gpu_set=name, datatype=name)
    hostile = replace(
        status,
        simulated=name,
        snapshot=replace(status.snapshot, gpus=(gpu,)),
        inventory=(replace(status.inventory[0], name=name),),
        points=(point,),
        sweeps=(replace(status.sweeps[0], name=name, failures={name: 1}),),
        collectors=(replace(status.collectors[0], name=name, detail=name),),
    )
    render_page(hostile, fakes.NOW).encode()
    plain = replace(hostile, simulated="")
    assert page_of(plain).links == page_of(status).links


class TestHtml:
    def test_text_and_attributes_are_escaped(self):
        found = element("a", "<&>", href='"><script>', class_="x")
        assert found == Markup('<a href="&quot;&gt;&lt;script&gt;" class="x">&lt;&amp;&gt;</a>')

    def test_markup_is_not_escaped_twice(self):
        assert join(("<", element("b", "<"))) == Markup("&lt;<b>&lt;</b>")

    def test_void_elements_and_empty_attributes(self):
        assert element("meta", charset="utf-8", name="") == Markup('<meta charset="utf-8">')

    def test_a_document(self):
        assert document((), ("x",)) == '<!DOCTYPE html>\n<html lang="en"><head></head><body>x</body></html>\n'


def test_findings_changes_and_the_kernel_log_are_told_in_words():
    status = replace(fakes.two_gpu_status(), findings=(FINDING,))
    page = render_page(status, fakes.NOW)
    assert "<h2>Findings</h2>" in page
    assert FINDING.detail in page
    assert "<h2>Changes</h2>" in page
    assert status.changes[0].change.sentence in page
    assert "<h2>Kernel log</h2>" in page
    assert "Xid 94" in page
    quiet = replace(status, findings=(), changes=(), kernel_tallies=())
    for title in ("Findings", "Changes", "Kernel log"):
        assert f"<h2>{title}</h2>" not in render_page(quiet, fakes.NOW)


def test_a_collector_that_cannot_work_here_is_not_failing():
    without = CollectorStatus(
        "kernel_log", is_successful=False, interval_seconds=60, detail="no access", is_evaluated=False
    )
    page = render_page(replace(fakes.two_gpu_status(), collectors=(without,)), fakes.NOW)
    assert "not evaluated" in page
    assert "failing" not in page
