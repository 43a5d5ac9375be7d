"""The page at `/`: what a person who opens the address of a host wants to know first.

A pure function of a status and the time. It shows what the daemon found and judged and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from gpumond.exporter.hardware import is_present
from gpumond.exporter.labels import label_value
from gpumond.exporter.operation import exported_points
from gpumond.exporter.page.html import Markup, Node, document, element, join
from gpumond.exporter.page.units import age, binary_size, duration, gigabytes_per_second, instant
from gpumond.model.benchmark import Collective
from gpumond.model.change import Level
from gpumond.model.identity import GpuUuid
from gpumond.model.kernel_log import name_of
from gpumond.model.reading import Reading, Unreadable, Value
from gpumond.model.run import Engine, Verdict
from gpumond.model.status import (
    CollectiveVerdict,
    CollectorStatus,
    HostStatus,
    InventoryEntry,
    LatestPoint,
    SweepStatus,
)
from gpumond.model.topology import Gpu, link_label

STYLESHEET = "/static/style.css"
FAVICON = "/favicon.svg"

_UNKNOWN = "?"
_NOTHING = "-"
_KERNEL_ROWS_MAX = 20
_LEVEL_CLASSES = {Level.INFO: "", Level.WARNING: "warn", Level.CRITICAL: "bad"}
_VERDICT_CLASSES = {Verdict.OK: "good", Verdict.DEGRADED: "warn", Verdict.FAILED: "bad"}


def render_page(status: HostStatus, now: datetime) -> str:
    """The whole page as HTML."""
    head = (
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", "gpumond"),
        element("link", rel="stylesheet", href=STYLESHEET),
        element("link", rel="icon", href=FAVICON, type="image/svg+xml"),
    )
    sections = (
        _findings(status, now),
        _changes(status, now),
        _gpus(status),
        _links(status),
        _kernel_log(status, now),
        _results(status, now),
        _sweeps(status, now),
        _collectors(status, now),
    )
    main = element("main", *_banners(status), *(section for section in sections if section is not None))
    return document(head, (_header(status), main, _footer(status, now)))


def _header(status: HostStatus) -> Markup:
    links = (
        ("/metrics", "metrics"),
        ("/api/v1/status", "status.json"),
        ("/api/v1/topology", "topology.json"),
    )
    return element(
        "header",
        element("h1", "gpumond"),
        element("p", _describe_host(status)),
        element("nav", *(element("a", text, href=href) for href, text in links)),
    )


def _describe_host(status: HostStatus) -> str:
    if status.snapshot is None:
        return "No snapshot of the GPUs yet."
    models = sorted({entry.name for entry in status.inventory})
    counted = [
        f"{sum(entry.name == model for entry in status.inventory)} x {label_value(model)}" for model in models
    ]
    host = status.snapshot.host
    driver = (
        f"driver {host.driver_version.value}" if isinstance(host.driver_version, Value) else "driver unknown"
    )
    return ", ".join((*(counted or ["no GPU accepted"]), driver, f"Linux {host.kernel}"))


def _banners(status: HostStatus) -> Iterator[Markup]:
    if status.simulated:
        text = f"Simulated host: the GPUs and results below are made up (scenario {label_value(status.simulated)})."
        yield element("p", text, class_="banner", role="status")
    if not status.is_ready:
        yield element(
            "p", "Starting: the stored state or the first snapshot is still missing.", class_="banner"
        )
    if status.snapshot is not None and isinstance(status.snapshot.driver, Unreadable):
        cause = status.snapshot.driver
        text = f"The GPU driver gives no answer: {cause.reason.value} {label_value(cause.detail)}".rstrip()
        yield element("p", text, class_="banner")


def _footer(status: HostStatus, now: datetime) -> Markup:
    parts = [
        f"gpumond {status.version}",
        f"running since {instant(status.started_at)}",
        f"page of {instant(now)}",
    ]
    return element("footer", element("p", " · ".join(parts)))


def _findings(status: HostStatus, now: datetime) -> Markup | None:
    if not status.findings:
        return None
    rows: list[list[Node]] = [
        [
            _state(finding.level.value, _LEVEL_CLASSES[finding.level]),
            finding.kind.value.replace("_", " "),
            label_value(finding.subject),
            label_value(finding.detail),
            age(finding.first_at, now),
        ]
        for finding in status.findings
    ]
    note = "gpumond findings has the evidence; docs/runbooks has a page for each."
    return _section("Findings", _table(("Level", "Finding", "About", "What", "Since"), rows), note)


def _changes(status: HostStatus, now: datetime) -> Markup | None:
    if not status.changes:
        return None
    rows: list[list[Node]] = [
        [
            _state(item.change.level.value, _LEVEL_CLASSES[item.change.level]),
            item.change.kind.value.replace("_", " "),
            label_value(item.change.sentence),
            age(item.opened_at, now),
        ]
        for item in status.changes
    ]
    note = "Against the state that was accepted; gpumond topology accept makes this one the accepted one."
    return _section("Changes", _table(("Level", "Change", "What", "Since"), rows), note)


def _kernel_log(status: HostStatus, now: datetime) -> Markup | None:
    if not status.kernel_tallies:
        return None
    numbers = {entry.pci_bus_id: f"GPU {entry.number}" for entry in status.inventory}
    rows: list[list[Node]] = [
        [
            _state(tally.level.value, _LEVEL_CLASSES[tally.level]),
            name_of(tally.kind, tally.code),
            numbers.get(tally.pci_bus_id, _NOTHING),
            _code(tally.pci_bus_id),
            str(tally.count),
            age(tally.last_at, now),
            label_value(tally.detail),
        ]
        for tally in status.kernel_tallies[:_KERNEL_ROWS_MAX]
    ]
    headings = ("Level", "Event", "GPU", "PCI bus id", "Times", "Last", "Message")
    return _section("Kernel log", _table(headings, rows, numeric=range(4, 5)))


def _gpus(status: HostStatus) -> Markup:
    found = {gpu.uuid: gpu for gpu in status.snapshot.gpus} if status.snapshot else {}
    rows = [_gpu_row(status, entry, found.pop(entry.uuid, None)) for entry in status.inventory]
    rows += [_new_gpu_row(gpu) for gpu in found.values()]
    headings = ("GPU", "State", "Model", "PCI bus id", "NVLinks up", "PCIe lanes", "ECC uncorrected", "UUID")
    note = f"As of {instant(status.snapshot.taken_at)}." if status.snapshot else "No snapshot yet."
    return _section("GPUs", _table(headings, rows) if rows else "No GPU known.", note)


def _gpu_row(status: HostStatus, entry: InventoryEntry, gpu: Gpu | None) -> list[Node]:
    state = {
        True: _state("present", "good"),
        False: _state("missing", "bad"),
        None: _state("unknown", "warn"),
    }
    facts = _gpu_facts(gpu) if gpu else [_NOTHING] * 3
    identity = (label_value(entry.name), _code(entry.pci_bus_id))
    return [str(entry.number), state[is_present(status, entry)], *identity, *facts, _code(entry.uuid)]


def _new_gpu_row(gpu: Gpu) -> list[Node]:
    identity = (_show(gpu.name), _code(gpu.pci_bus_id))
    return [_NOTHING, _state("not accepted", "warn"), *identity, *_gpu_facts(gpu), _code(gpu.uuid)]


def _gpu_facts(gpu: Gpu) -> list[Node]:
    width = f"{_show(gpu.pcie.width_lanes)} of {_show(gpu.pcie.width_lanes_max)}"
    ecc = (
        str(gpu.ecc_errors.value.get("uncorrected", _NOTHING))
        if isinstance(gpu.ecc_errors, Value)
        else _NOTHING
    )
    return [_links_up(gpu), width, ecc]


def _links_up(gpu: Gpu) -> str:
    if not isinstance(gpu.nvlinks, Value):
        return _show(gpu.nvlinks)
    states = [link.is_up for link in gpu.nvlinks.value if isinstance(link.is_up, Value)]
    return (
        f"{sum(state.value for state in states)} of {len(gpu.nvlinks.value)}"
        if gpu.nvlinks.value
        else _NOTHING
    )


def _links(status: HostStatus) -> Markup | None:
    snapshot = status.snapshot
    if snapshot is None or not snapshot.pairs:
        return None
    numbers = {entry.uuid: f"GPU {entry.number}" for entry in status.inventory}
    uuids = [uuid for uuid in numbers if snapshot.gpu(uuid)]
    uuids += [gpu.uuid for gpu in snapshot.gpus if gpu.uuid not in numbers]
    labels = {(pair.gpu, pair.peer): link_label(pair) for pair in snapshot.pairs}
    names = [numbers.get(uuid, label_value(uuid)) for uuid in uuids]
    rows: list[list[Node]] = [
        [name, *(_cell(labels, uuid, peer) for peer in uuids)]
        for name, uuid in zip(names, uuids, strict=True)
    ]
    note = "NV and the number of active NVLinks, or the PCIe path: PIX, PXB, PHB, NODE, SYS."
    return _section("Links", _table(("", *names), rows, class_="matrix"), note)


def _cell(labels: dict[tuple[GpuUuid, GpuUuid], str], uuid: GpuUuid, peer: GpuUuid) -> Node:
    return element("span", "X", class_="self") if uuid == peer else labels.get((uuid, peer), _UNKNOWN)


def _results(status: HostStatus, now: datetime) -> Markup | None:
    if not status.points and not status.verdicts:
        return None
    points = list(exported_points(status).values())
    verdicts = {_series(item): item for item in status.verdicts}
    rows = [_result_row(point, verdicts.get(_series(point)), now) for point in points]
    # A run that printed no row has a verdict and no point: it is what a reader looks for.
    measured = {_series(point) for point in points}
    rows += [_unmeasured_row(item) for series, item in verdicts.items() if series not in measured]
    headings = ("Sweep", "GPU set", "Collective", "Type", "Size", "busbw GB/s", "algbw GB/s", "Time", "Wrong",
                "Verdict", "Measured")  # fmt: skip
    note = "The last measured value of each exported size. GB/s are 10^9 bytes per second, as nccl-tests prints them."
    return _section("Last results", _table(headings, rows, numeric=range(4, 9)), note)


def _series(item: LatestPoint | CollectiveVerdict) -> tuple[str, Engine, str, Collective]:
    return item.sweep, item.engine, item.gpu_set, item.collective


def _result_row(point: LatestPoint, verdict: CollectiveVerdict | None, now: datetime) -> list[Node]:
    wrong: Node = _NOTHING if point.wrong_elements is None else str(point.wrong_elements)
    if point.wrong_elements:
        wrong = _state(str(point.wrong_elements), "bad")
    return [
        label_value(point.sweep),
        label_value(point.gpu_set),
        point.collective.value,
        label_value(point.datatype),
        binary_size(point.size_bytes),
        gigabytes_per_second(point.busbw_bytes_per_second),
        gigabytes_per_second(point.algbw_bytes_per_second),
        duration(point.time_seconds),
        wrong,
        _NOTHING if verdict is None else _verdict(verdict),
        age(point.measured_at, now),
    ]


def _unmeasured_row(item: CollectiveVerdict) -> list[Node]:
    names = [label_value(item.sweep), label_value(item.gpu_set), item.collective.value]
    return [*names, *[_NOTHING] * 6, _verdict(item), _NOTHING]


def _verdict(item: CollectiveVerdict) -> Node:
    state = _state(item.verdict.value.replace("_", " "), _VERDICT_CLASSES.get(item.verdict, ""))
    return join((state, f" {label_value(item.reason)}")) if item.reason else state


def _sweeps(status: HostStatus, now: datetime) -> Markup:
    if not status.sweeps:
        return _section("Sweeps", "No sweep is configured: add a [[sweep]] table to the configuration.")
    headings = ("Sweep", "State", "Last run", "Took", "Due", "Runs", "Failed", "Skipped", "Given back")
    rows = [_sweep_row(sweep, now) for sweep in status.sweeps]
    return _section("Sweeps", _table(headings, rows, numeric=range(5, 9)))


def _sweep_row(sweep: SweepStatus, now: datetime) -> list[Node]:
    has_run = sweep.last_run_at is not None
    return [
        label_value(sweep.name),
        _sweep_state(sweep),
        age(sweep.last_run_at, now) if sweep.last_run_at else "never",
        duration(sweep.last_run_duration_seconds) if has_run else _NOTHING,
        age(sweep.due_at, now) if sweep.due_at else _NOTHING,
        str(sweep.runs),
        _by_reason(sweep.failures),
        _by_reason(sweep.skips),
        str(sweep.preemptions),
    ]


def _sweep_state(sweep: SweepStatus) -> Node:
    if sweep.running_since is not None:
        return join((_state("running", "good"), f" since {instant(sweep.running_since)}"))
    states = {True: _state("succeeded", "good"), False: _state("failed", "bad"), None: _state("waiting", "")}
    return states[sweep.last_run_success]


def _by_reason(counts: dict[str, int]) -> str:
    reasons = [f"{label_value(reason)} {count}" for reason, count in counts.items() if count]
    total = str(sum(counts.values()))
    return f"{total} ({', '.join(reasons)})" if reasons else total


def _collectors(status: HostStatus, now: datetime) -> Markup | None:
    if not status.collectors:
        return None
    rows = [_collector_row(collector, now) for collector in status.collectors]
    return _section(
        "Collectors", _table(("Collector", "State", "Last success", "Took", "Every", "Detail"), rows)
    )


def _collector_row(collector: CollectorStatus, now: datetime) -> list[Node]:
    return [
        label_value(collector.name),
        _collector_state(collector),
        age(collector.last_success, now) if collector.last_success else "never",
        duration(collector.duration_seconds),
        duration(collector.interval_seconds),
        label_value(collector.detail),
    ]


def _collector_state(collector: CollectorStatus) -> Markup:
    if not collector.is_evaluated:
        return _state("not evaluated", "")
    return _state("working", "good") if collector.is_successful else _state("failing", "bad")


def _section(title: str, content: Node, note: str = "") -> Markup:
    footnote = (element("p", note, class_="note"),) if note else ()
    return element("section", element("h2", title), content, *footnote)


def _table(
    headings: Iterable[str], rows: Iterable[list[Node]], *, numeric: range = range(0), class_: str = ""
) -> Markup:
    def alignment(column: int) -> str:
        return "number" if column in numeric else ""

    head = (element("th", text, scope="col", class_=alignment(i)) for i, text in enumerate(headings))
    body = (
        element("tr", *(element("td", cell, class_=alignment(i)) for i, cell in enumerate(row)))
        for row in rows
    )
    return element("table", element("thead", element("tr", *head)), element("tbody", *body), class_=class_)


def _state(text: str, kind: str) -> Markup:
    return element("span", text, class_=f"state {kind}".strip())


def _code(text: str) -> Markup:
    return element("code", label_value(text))


def _show(reading: Reading[str] | Reading[int] | Reading[tuple[object, ...]]) -> str:
    """A reading in a cell: the value, a dash where the hardware has none, a question mark where it could not be read."""
    if isinstance(reading, Value):
        return label_value(str(reading.value))
    return _UNKNOWN if isinstance(reading, Unreadable) else _NOTHING
