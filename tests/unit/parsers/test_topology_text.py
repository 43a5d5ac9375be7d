"""Every topology case, every layout, and damage that loses nothing or says what it lost."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import topology_texts as texts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpumond.cli.topology_file import as_document
from gpumond.model.topology_text import LinkFact, P2pQuestion, TextProblemKind, Way
from gpumond.parsers.nvidia_smi_lines import MAX_DEVICES
from gpumond.parsers.topology_text import NO_MATRIX, parse_topology_text
from gpumond.topology.classify import classify_text

DATA = Path(__file__).parents[2] / "data" / "topology"
CASES = sorted((DATA / "cases").glob("*.json"))
COMMENTS = {"class", "class_alternatives", "recommended_parallelism", "notes", "source"}


def kinds(topology) -> set[TextProblemKind]:
    return {problem.kind for problem in topology.problems}


def capture(name: str) -> str:
    return (DATA / "h200x2" / f"smi_topo_{name}.txt").read_text()


def case_text(start: str) -> str:
    return next((DATA / "cases").glob(f"{start}-*.txt")).read_text()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    expected = json.loads(path.read_text())
    topology = parse_topology_text(path.with_suffix(".txt").read_text())
    document = as_document(topology, classify_text(topology))
    for key, value in expected.items():
        if key not in COMMENTS:
            assert document[key] == value, key
    assert document["class"] in {expected["class"], *expected.get("class_alternatives", [])}
    assert kinds(topology) <= {TextProblemKind.NO_PCIE_TREE}


def test_there_are_as_many_cases_as_there_were():
    assert len(CASES) == 18


# --- captures and several outputs in one paste -------------------------------------------------------------------------


def test_a_paste_of_every_view_of_one_host():
    views = ["m", "mp", *(f"p2p_{letter}" for letter in "rwnap")]
    options = ["-m", "-mp", *(f"-p2p {letter}" for letter in "rwnap")]
    paste = "".join(
        f"$ nvidia-smi topo {option}\n{capture(f'-{view}')}"
        for view, option in zip(views, options, strict=True)
    )
    topology = parse_topology_text(paste)
    assert topology.links == {Way("GPU0", "GPU1"): "NV18", Way("GPU1", "GPU0"): "NV18"}
    assert topology.shows_nvlinks
    answers = {matrix.question: set(matrix.statuses.values()) for matrix in topology.p2p}
    assert answers == {
        P2pQuestion.READ: {"OK"},
        P2pQuestion.WRITE: {"OK"},
        P2pQuestion.NVLINK: {"OK"},
        P2pQuestion.ATOMICS: {"OK"},
        P2pQuestion.PCI: {"NS"},
    }
    assert topology.problems == ()
    assert topology.tool.endswith("topo -m + " + " + ".join(f"topo {option}" for option in options[2:]))


@pytest.mark.parametrize("first", ["-m", "-mp"])
def test_the_order_of_matrix_and_pcie_matrix_does_not_matter(first):
    second = "-mp" if first == "-m" else "-m"
    topology = parse_topology_text(capture(first) + capture(second))
    assert set(topology.links.values()) == {"NV18"}
    assert topology.problems == ()


def test_a_pcie_matrix_alone_does_not_deny_nvlinks():
    topology = parse_topology_text(capture("-mp") + capture("-p2p_r"))
    assert not topology.shows_nvlinks
    assert topology.tool == "nvidia-smi topo -mp + topo -p2p"
    assert [matrix.question for matrix in topology.p2p] == [P2pQuestion.UNSTATED]


def test_a_p2p_matrix_alone():
    topology = parse_topology_text(capture("-p2p_r"))
    assert topology.gpus == ("GPU0", "GPU1")
    assert topology.links == {}
    assert topology.p2p[0].statuses == {Way("GPU0", "GPU1"): "OK", Way("GPU1", "GPU0"): "OK"}


def test_of_two_hosts_the_first_is_taken_and_the_second_is_told():
    topology = parse_topology_text(case_text("01") + "\nhost b:\n" + case_text("04") + capture("-p2p_r"))
    assert {topology.links[Way("GPU0", peer)] for peer in topology.gpus[1:]} == {"NV18"}
    assert topology.p2p == ()
    ignored = [problem for problem in topology.problems if problem.kind is TextProblemKind.OTHER_HOST]
    assert [problem.line for problem in ignored] == [41, 60]
    assert kinds(topology) == {TextProblemKind.OTHER_HOST}


def test_two_hosts_with_the_same_devices_are_told_apart_by_their_links():
    topology = parse_topology_text(case_text("09") + case_text("07"))
    assert topology.links[Way("GPU0", "GPU1")] == "NV12"
    assert kinds(topology) == {TextProblemKind.OTHER_HOST}


def test_the_p2p_matrix_of_a_second_host_says_nothing_of_the_first():
    names = [f"GPU{n}" for n in range(4)]
    p2p = texts.nvidia_p2p(texts.Host(4, labels={(a, b): "OK" for a in names for b in names}))
    assert len(parse_topology_text(case_text("09") + p2p).p2p) == 1
    topology = parse_topology_text(case_text("09") + case_text("07") + p2p)
    assert topology.p2p == ()
    assert [problem.kind for problem in topology.problems] == [TextProblemKind.OTHER_HOST] * 2


def test_the_same_host_twice_is_no_problem():
    assert parse_topology_text(case_text("04") * 2) == parse_topology_text(case_text("04"))


def test_two_answers_to_one_question_are_a_contradiction():
    prompt = "$ nvidia-smi topo -p2p r\n"
    other = capture("-p2p_r").replace("OK\t", "NS\t")
    topology = parse_topology_text(prompt + capture("-p2p_r") + prompt + other)
    assert set(topology.p2p[0].statuses.values()) == {"OK"}
    assert kinds(topology) == {TextProblemKind.CONTRADICTION}


def test_a_refused_option_is_no_question():
    refused = '$ nvidia-smi topo -p2p\nOption "-p2p" is missing its value.\n'
    assert parse_topology_text(refused + capture("-p2p_r")).p2p[0].question is P2pQuestion.UNSTATED


# --- damage that loses nothing -----------------------------------------------------------------------------------------

NV_AND_PCIE = ["NV1", "NV2", "NV4", "NV6", "NV12", "NV18", "SYS", "NODE", "PHB", "PXB", "PIX"]
CPU_LISTS = ["0-31,64-95", "32-63,96-127", "5", "6,14,22,30", "0-143"]


@st.composite
def hosts(draw, labels=tuple(NV_AND_PCIE)):
    gpus = draw(st.integers(2, 6))
    nics = draw(
        st.sampled_from(
            [(), ("NIC0",), ("NIC0", "NIC1", "NIC2"), ("mlx5_0", "mlx5_bond_0"), ("ibp24s0", "bnxt_re1")]
        )
    )
    names = [f"GPU{n}" for n in range(gpus)]
    devices = [*names, *nics]
    pcie = [label for label in labels if not label.startswith("NV")]
    cells = {
        (a, b): draw(st.sampled_from(labels if a in names and b in names else pcie))
        for a in devices
        for b in devices
        if a != b
    }
    several = st.lists(st.sampled_from(CPU_LISTS), min_size=gpus, max_size=gpus).map(tuple)
    numbers = st.lists(st.sampled_from(["0", "1", "8", "0-1"]), min_size=gpus, max_size=gpus).map(tuple)
    ids = draw(st.sampled_from([None, ("N/A",) * gpus, tuple(str(n * 8 + 2) for n in range(gpus))]))
    return texts.Host(gpus, nics, cells, draw(several), draw(numbers), ids)


def quote(text):
    return "".join(f"> {line}\n" for line in text.splitlines())


def comment(text):
    return "".join(f"# {line}\n" for line in text.splitlines())


def log_prefix(text):
    return "".join(f"2026-11-29 02:00:01,123 INFO worker-3 [gpu7]: {line}\n" for line in text.splitlines())


def indent(text):
    return "".join(f"    {line}\n" for line in text.splitlines())


def strip_left(text):
    return "".join(f"{line.lstrip()}\n" for line in text.splitlines())


def collapse(text):
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())


def half_lost_escapes(text):
    return text.replace("\x1b", "")


def escapes_moved(text):
    return text.replace("\t\x1b[4m", "\x1b[4m\t")


def visible_escapes(text):
    return text.replace("\x1b", "^[")


def crlf(text):
    return text.replace("\n", "\r\n")


def surrounded(text):
    return (
        "GPU0: NVIDIA H200 (UUID: GPU-1)\nGPU0 Utilization: 3 %\nGPU0 and GPU1 are fine\n"
        + text
        + "\nThanks, GPU1!\n"
    )


HARMLESS = [
    quote, comment, log_prefix, indent, strip_left, collapse, half_lost_escapes, escapes_moved,
    visible_escapes, crlf, surrounded, lambda text: text, lambda text: "\ufeff" + text,
]  # fmt: skip


def check_nvidia(topology, host):
    assert topology.gpus == tuple(host.gpu_names)
    assert topology.nics == host.nics
    assert topology.links == {Way(*pair): label for pair, label in host.labels.items()}
    assert list(topology.cpu_affinity.values()) == list(host.cpus)
    assert list(topology.numa.values()) == list(host.numa)
    if host.gpu_numa is None:
        assert topology.gpu_numa_ids is None
    else:
        assert list(topology.gpu_numa_ids.values()) == [None if n == "N/A" else n for n in host.gpu_numa]
    assert set(topology.nic_names) == set(host.nics)
    assert kinds(topology) <= {TextProblemKind.ASYMMETRIC, TextProblemKind.FUSED_CELLS}


@given(
    hosts(),
    st.sampled_from([texts.nvidia_tabs, texts.nvidia_spaces]),
    st.lists(st.sampled_from(HARMLESS), max_size=3),
)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
def test_what_pastes_do_to_a_matrix_changes_nothing(host, render, damages):
    text = render(host)
    for damage in damages:
        text = damage(text)
    check_nvidia(parse_topology_text(text), host)


@given(hosts(), st.data())
@settings(max_examples=150)
def test_cells_that_grew_together_are_told_apart(host, data):
    header, *rows = texts.nvidia_rows(host)
    gap = st.sampled_from(["", "\t", "  "])
    lines = []
    for row in [header, *rows]:
        line = row[0]
        for place, cell in enumerate(row[1:], start=1):
            is_behind = place > len(host.devices)
            after_name = row[place - 1].strip() in host.devices and not row[place - 1].startswith(
                ("GPU", "NIC", "mlx")
            )
            before = row[place - 1].strip()
            # `NV12` and `4-7` in one word can be read in two ways; see the test below.
            must_part = is_behind and (place > len(host.devices) + 1 or before.startswith("NV"))
            must_part = must_part or (row is header and (before.startswith(("ibp", "bnxt")) or after_name))
            line += (
                "\t" if must_part or (place == 1 and row is not header) else data.draw(gap)
            ) + cell.strip()
        lines.append(line)
    check_nvidia(parse_topology_text("\n".join(lines) + "\n" + texts.nic_legend(host)), host)


@pytest.mark.parametrize(
    ("last", "cpus", "expected"),
    [
        ("NV18", "0-31,64-95", "NV18"),  # 80-31 is no list of CPUs
        ("NV1", "0-31", "NV1"),  # NV10 and -31 is not either
        ("NV3", "5-7", "NV3"),
        ("NV12", "4-47", None),  # or NV1 and 24-47
        ("SYS", "0-35,72-107", "SYS"),
        ("X", "0-31", None),
    ],
)
def test_a_label_fused_with_the_cpu_list(last, cpus, expected):
    text = f"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t{last}{cpus}\t0\nGPU1\t{last}\t X \t{cpus}\t0\n"
    topology = parse_topology_text(text)
    assert topology.links.get(Way("GPU0", "GPU1")) == expected
    if expected is not None:
        assert topology.cpu_affinity == {"GPU0": cpus, "GPU1": cpus}
    elif last != "X":
        assert TextProblemKind.UNREADABLE_CELL in kinds(topology)
        assert topology.links[Way("GPU1", "GPU0")] == last


def test_fused_affinity_of_real_pastes():
    text = (
        "GPU0 GPU1 NIC0NIC1 CPU AffinityNUMA AffinityGPU NUMA ID\n"
        "GPU0  X  SYS NODENODE 0-35,72-107 0N/A\n"
        "GPU1 SYS X SYSSYS0-35,72-107 1 N/A\n"
        "NIC0 NODESYS X PIX\n"
        "NIC1 NODESYS PIXX\n"
    )
    topology = parse_topology_text(text)
    assert topology.nics == ("NIC0", "NIC1")
    assert topology.links[Way("GPU1", "NIC1")] == "SYS"
    assert topology.cpu_affinity == {"GPU0": "0-35,72-107", "GPU1": "0-35,72-107"}
    assert topology.numa == {"GPU0": "0", "GPU1": "1"}
    assert kinds(topology) == {TextProblemKind.FUSED_CELLS, TextProblemKind.NIC_UNNAMED}


def test_header_and_rows_broken_at_the_width_of_a_terminal():
    text = (
        "        GPU0    GPU1    NIC0\n    NIC1    CPU Affinity    NUMA Affinity\n"
        "GPU0     X      NV18    PIX\n    SYS     0-31    0\n"
        "GPU1    NV18     X      SYS     PIX\n    32-63   1\n"
        "NIC0    PIX     SYS      X\n    NODE\n"
        "NIC1    SYS     PIX     NODE     X\n\nNIC Legend:\n\n NIC0: mlx5_0 NIC1: mlx5_1\n"
    )
    topology = parse_topology_text(text)
    assert topology.nic_names == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert topology.links[Way("GPU0", "NIC1")] == "SYS"
    assert topology.links[Way("NIC0", "NIC1")] == "NODE"
    assert topology.cpu_affinity == {"GPU0": "0-31", "GPU1": "32-63"}
    assert topology.problems == ()


# --- damage that loses something, and says so --------------------------------------------------------------------------


def test_half_a_matrix_by_rows():
    lines = case_text("04").splitlines()
    topology = parse_topology_text("\n".join(lines[:5]))
    assert len(topology.links) == 4 * 7
    assert kinds(topology) == {TextProblemKind.MISSING_ROW}
    assert "GPU4, GPU5, GPU6, GPU7" in topology.problems[0].detail


def test_half_a_matrix_by_columns():
    cut = "\n".join(line[:28] for line in case_text("07").splitlines())
    topology = parse_topology_text(cut)
    assert topology.gpus == ("GPU0", "GPU1", "GPU2")
    assert topology.links[Way("GPU0", "GPU2")] == "PHB"
    assert Way("GPU0", "GPU3") not in topology.links


def test_a_row_cut_off_is_right_as_far_as_it_goes():
    text = case_text("09").replace(
        "GPU0     X      NV12    SYS     SYS     0-23    0               N/A", "GPU0     X      NV12"
    )
    topology = parse_topology_text(text)
    assert {way.peer: label for way, label in topology.links.items() if way.device == "GPU0"} == {
        "GPU1": "NV12"
    }
    assert kinds(topology) == {TextProblemKind.SHORT_ROW}


def test_a_cell_lost_in_the_middle_moves_no_label_to_another_column():
    before = "GPU0     X      NV12    SYS     SYS     0-23    0               N/A"
    after = "GPU0     X      SYS     SYS     0-23    0               N/A"
    topology = parse_topology_text(case_text("09").replace(before, after))
    assert not [way for way in topology.links if way.device == "GPU0"]
    assert topology.links[Way("GPU1", "GPU0")] == "NV12"
    assert kinds(topology) == {TextProblemKind.SHORT_ROW}


def test_a_row_whose_x_is_elsewhere_is_not_believed():
    topology = parse_topology_text(case_text("09").replace("GPU1    NV12     X  ", "GPU1     X   NV12   "))
    assert not [way for way in topology.links if way.device == "GPU1"]
    assert kinds(topology) == {TextProblemKind.MISPLACED_DIAGONAL}


def test_a_cell_that_is_no_label_is_no_link():
    topology = parse_topology_text(case_text("09").replace("GPU1    NV12", "GPU1    ERR!"))
    assert Way("GPU1", "GPU0") not in topology.links
    assert topology.links[Way("GPU1", "GPU2")] == "SYS"
    assert kinds(topology) == {TextProblemKind.UNREADABLE_CELL}


def test_the_two_directions_can_differ_as_they_do_beside_mig():
    text = case_text("09").replace("GPU1    NV12", "GPU1    SYS ")
    topology = parse_topology_text(text)
    assert topology.links[Way("GPU0", "GPU1")] == "NV12"
    assert topology.links[Way("GPU1", "GPU0")] == "SYS"
    assert [problem.detail for problem in topology.problems] == ["GPU0 to GPU1 is NV12, the way back SYS"]
    document = as_document(topology, classify_text(topology))
    assert document["links"]["GPU0->GPU1"] == "NV12"
    assert document["links"]["GPU1->GPU0"] == "SYS"
    assert "GPU0-GPU1" not in document["links"]


@pytest.mark.parametrize(
    ("cpus", "is_cut"),
    [
        ("0,2,4,6,8,10", True),
        ("1,3,5,7,9,11", True),
        ("0,2,4,6,8", False),
        ("0,2,4,6,8,10,12", False),
        ("0,2,4,6,8,11", False),
        ("0-31,64-95", False),
    ],
)
def test_a_cpu_list_that_nvidia_smi_cut(cpus, is_cut):
    topology = parse_topology_text(case_text("07").replace("0-47", cpus))
    assert (TextProblemKind.CPU_LIST_CUT in kinds(topology)) == is_cut
    assert topology.cpu_affinity["GPU0"] == cpus


def test_affinity_that_cannot_be_told_apart_is_left_out():
    topology = parse_topology_text("GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X SYS 3\nGPU1 SYS X 0-7 1\n")
    assert topology.cpu_affinity == {"GPU0": None, "GPU1": "0-7"}
    assert topology.numa == {"GPU0": None, "GPU1": "1"}
    assert kinds(topology) == {TextProblemKind.AFFINITY_UNCLEAR}


def test_a_numa_node_without_cpus_in_a_restricted_cpuset():
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tSYS\t\t1\t\tN/A\nGPU1\tSYS\t X \t\t0\t\tN/A\n"
    topology = parse_topology_text(text)
    assert topology.cpu_affinity == {"GPU0": None, "GPU1": None}
    assert topology.numa == {"GPU0": "1", "GPU1": "0"}


def test_a_second_row_of_a_device_changes_nothing():
    topology = parse_topology_text(case_text("09") + "GPU0 X SYS SYS SYS 0-23 0 N/A\n")
    assert topology.links[Way("GPU0", "GPU1")] == "NV12"
    assert kinds(topology) == {TextProblemKind.CONTRADICTION}


def test_a_64_gpu_matrix():
    names = [f"GPU{n}" for n in range(64)]
    labels = {(a, b): "NV18" for a in names for b in names if a != b}
    host = texts.Host(64, (), labels, ("0-31",) * 64, ("0",) * 64, ("N/A",) * 64)
    check_nvidia(parse_topology_text(texts.nvidia_spaces(host)), host)
    assert classify_text(parse_topology_text(texts.nvidia_tabs(host))).topology_class == "nvswitch"


def test_more_devices_than_any_host_has_are_refused():
    header = " ".join(f"GPU{n}" for n in range(MAX_DEVICES + 1))
    topology = parse_topology_text(header + "\nGPU0 X " + "SYS " * MAX_DEVICES + "\n")
    assert topology.gpus == ()
    assert kinds(topology) == {TextProblemKind.TOO_MANY_DEVICES}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "Legend:\n  X = Self\n",
        "GPU0 GPU1\n",
        "no devices were found",
        "[]",
        "{}",
        "gpu,x_gpu_0\n",
    ],
)
def test_no_matrix(text):
    assert parse_topology_text(text) == NO_MATRIX


# --- AMD ---------------------------------------------------------------------------------------------------------------

AMD_TITLES = {
    "ACCESS": "access",
    "WEIGHT": LinkFact.WEIGHT,
    "HOPS": LinkFact.HOPS,
    "LINK TYPE": "links",
    "NUMA BW": LinkFact.BANDWIDTH,
    "CACHE COHERANCY": LinkFact.COHERENT,
    "ATOMICS": LinkFact.ATOMICS,
    "DMA": LinkFact.DMA,
    "BI-DIRECTIONAL": LinkFact.BI_DIRECTIONAL,
}
AMD_KEYED = {
    "link_accessibility": "access",
    "weight": LinkFact.WEIGHT,
    "hops": LinkFact.HOPS,
    "link_type": "links",
    "numa_bandwidth": LinkFact.BANDWIDTH,
}
AMD_LINKS = {"link_status": "access", "weight": LinkFact.WEIGHT, "num_hops": LinkFact.HOPS, "link_type": "links", "bandwidth": LinkFact.BANDWIDTH, "coherent": LinkFact.COHERENT, "atomics": LinkFact.ATOMICS, "dma": LinkFact.DMA, "bi_dir": LinkFact.BI_DIRECTIONAL}  # fmt: skip
AMD_CSV = {**AMD_KEYED, "coherent": LinkFact.COHERENT, "atomics": LinkFact.ATOMICS, "dma": LinkFact.DMA, "bi_dir": LinkFact.BI_DIRECTIONAL}  # fmt: skip
ROCM_TITLES = {
    "Weight": LinkFact.WEIGHT,
    "Hops": LinkFact.HOPS,
    "Link Type": "links",
    "Link accessibility": "access",
}
VALUES = {
    "access": ["ENABLED", "DISABLED"],
    "links": ["XGMI", "PCIE"],
    LinkFact.WEIGHT: ["15", "40", "0"],
    LinkFact.HOPS: ["1", "2"],
    LinkFact.BANDWIDTH: ["50000-100000", "0-0", "N/A"],
    LinkFact.COHERENT: ["C", "NC", "N/A"],
    LinkFact.ATOMICS: ["64,32", "N/A"],
    LinkFact.DMA: ["T", "F"],
    LinkFact.BI_DIRECTIONAL: ["T", "F"],
}


@st.composite
def amd_tables(draw, names):
    """GPUs, and some of the tables with random cells."""
    host = texts.Host(draw(st.integers(2, 5)))
    chosen = draw(st.lists(st.sampled_from(sorted(names)), min_size=1, unique=True))
    pairs = [(a, b) for a in host.gpu_names for b in host.gpu_names if a != b]
    return host, {
        name: {pair: draw(st.sampled_from(VALUES[names[name]])) for pair in pairs} for name in chosen
    }


def check_amd(topology, host, tables, names):
    meant = {
        names[name]: {Way(*pair): cell for pair, cell in cells.items()} for name, cells in tables.items()
    }
    assert topology.gpus == tuple(host.gpu_names)
    assert topology.links == meant.get("links", {})
    assert [matrix.statuses for matrix in topology.p2p] == ([meant["access"]] if "access" in meant else [])
    assert topology.facts == {fact: cells for fact, cells in meant.items() if isinstance(fact, LinkFact)}
    assert topology.problems == ()


@given(amd_tables(AMD_TITLES), st.sampled_from([quote, log_prefix, indent, collapse, crlf, str]))
def test_amd_text(generated, damage):
    host, tables = generated
    check_amd(parse_topology_text(damage(texts.amd_text(host, tables))), host, tables, AMD_TITLES)


@given(
    amd_tables(AMD_KEYED),
    st.sampled_from([quote, indent, crlf, str, lambda text: "$ amd-smi topology --json\n" + text + "\n$ "]),
)
def test_amd_json_of_6_0(generated, damage):
    host, tables = generated
    check_amd(parse_topology_text(damage(texts.amd_json_keyed(host, tables))), host, tables, AMD_KEYED)


@given(
    amd_tables(AMD_LINKS),
    st.sampled_from([quote, indent, crlf, str, lambda text: "[WARNING] low power\n" + text]),
)
def test_amd_json_of_6_2(generated, damage):
    host, tables = generated
    topology = parse_topology_text(damage(texts.amd_json_links(host, tables)))
    check_amd(topology, host, tables, AMD_LINKS)
    assert topology.pci_bus_ids["GPU1"] == "0000:04:00.0"


@given(amd_tables(AMD_CSV))
def test_amd_csv(generated):
    host, tables = generated
    check_amd(parse_topology_text(texts.amd_csv(host, tables)), host, tables, AMD_CSV)


@given(
    amd_tables(ROCM_TITLES), st.sampled_from([quote, log_prefix, indent, collapse, crlf, str]), st.booleans()
)
def test_rocm_text(generated, damage, has_numa):
    host, tables = generated
    numa = tuple(str(n // 2) for n in range(host.gpus)) if has_numa else ()
    topology = parse_topology_text(damage(texts.rocm_text(host, tables, numa)))
    check_amd(topology, host, tables, ROCM_TITLES)
    assert list(topology.numa.values()) == list(numa)


def test_rocm_json_has_one_triangle():
    pairs = {"0 and 1": "XGMI", "0 and 2": "PCIE", "1 and 2": "PCIE"}
    system = {f"(Topology) Link type between DRM devices {pair}": kind for pair, kind in pairs.items()}
    document = {
        "card0": {"(Topology) Numa Node": "0"},
        "card1": {"(Topology) Numa Node": "-1"},
        "system": system,
    }
    topology = parse_topology_text(
        "WARNING: AMD GPU device(s) is/are in a low-power state.\n" + json.dumps(document)
    )
    assert topology.links[Way("GPU1", "GPU0")] == "XGMI"
    assert topology.links[Way("GPU2", "GPU1")] == "PCIE"
    assert topology.numa == {"GPU0": "0", "GPU1": None}
    assert topology.problems == ()


def test_numbers_of_gpus_that_do_not_begin_at_zero_or_stand_in_order():
    document = [
        {
            "gpu": gpu,
            "links": [{"gpu": peer, "link_type": "XGMI" if gpu != peer else "SELF"} for peer in (4, 1)],
        }
        for gpu in (4, 1)
    ]
    topology = parse_topology_text(json.dumps(document))
    assert topology.gpus == ("GPU4", "GPU1")
    assert topology.links == {Way("GPU4", "GPU1"): "XGMI", Way("GPU1", "GPU4"): "XGMI"}


@pytest.mark.parametrize("cell", ["XXXX", "N/A", "UNKNOWN"])
def test_an_unreadable_link_type_is_no_link(cell):
    host = texts.Host(2)
    tables = {"Link Type": {("GPU0", "GPU1"): "XGMI", ("GPU1", "GPU0"): cell}}
    topology = parse_topology_text(texts.rocm_text(host, tables))
    assert topology.links == {Way("GPU0", "GPU1"): "XGMI"}
    assert TextProblemKind.UNREADABLE_CELL in kinds(topology)


def test_amd_rows_that_lost_a_cell_and_other_hosts_are_told():
    host, other = texts.Host(2), texts.Host(3)
    whole = {("GPU0", "GPU1"): "XGMI", ("GPU1", "GPU0"): "XGMI"}
    text = texts.amd_text(host, {"LINK TYPE": whole}).replace("SELF", "", 1)
    three = {(a, b): "PCIE" for a in other.gpu_names for b in other.gpu_names if a != b}
    topology = parse_topology_text(text + texts.amd_text(other, {"LINK TYPE": three}))
    assert topology.links == {Way("GPU1", "GPU0"): "XGMI"}
    assert kinds(topology) == {
        TextProblemKind.SHORT_ROW,
        TextProblemKind.OTHER_HOST,
        TextProblemKind.MISSING_ROW,
    }


def test_json_cannot_smuggle_control_characters():
    document = [{"gpu": n, "links": [{"gpu": 1 - n, "link_type": "XG\u0007MI\n"}]} for n in (0, 1)]
    topology = parse_topology_text(json.dumps(document))
    assert set(topology.links.values()) == {"XGMI"}


# --- hostile text ------------------------------------------------------------------------------------------------------

PIECES = [
    "GPU0", "GPU1", "NIC0", "mlx5_0", "X", "NV18", "NV", "SYS", "NODE", "OK", "GNS", "U", "0-31", "N/A", "\t", " ", "\n", "\n\n",
    "CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "\x1b[4m", "[0m", "> ", "NIC0: mlx5_0", "topo -p2p r", "topo -mp", "Legend:",
    "ACCESS TABLE:", "LINK TYPE TABLE:", "0000:03:00.0", "XGMI", "SELF", "Link Type between two GPUs", "GPU[0]\t\t: (Topology) Numa Node: 0",
    "gpu,bdf,link_type_gpu_0", "0,0000:03:00.0,XGMI", '[{"gpu": 0, "links": [{"gpu": 0}]}]', '{"system": {}}', "[", "{", '"', "\0", "é", "…",
]  # fmt: skip


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=80).map("".join)))
@settings(max_examples=500)
def test_any_text_is_answered(text):
    topology = parse_topology_text(text)
    assert json.dumps(as_document(topology, classify_text(topology)))
    assert set(topology.gpus) >= {way.device for way in topology.links if way.device.startswith("GPU")}
    assert all(way.device != way.peer for way in topology.links)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["gpu", "bdf", "links", "weight", "gpu_0", "system", "link_type", "card0", "(Topology) Weight between DRM devices 0 and 1"]), inner)))  # fmt: skip
def test_any_json_is_answered(document):
    topology = parse_topology_text(json.dumps(document))
    assert json.dumps(as_document(topology, classify_text(topology)))


HOSTILE = {
    "one endless word": lambda n: "X" * n,
    "one endless name": lambda n: "ib1" + "a" * n,
    "blanks": lambda n: "GPU0" + " " * n,
    "rows": lambda n: "GPU0 GPU1\n" + "GPU0 X SYS\n" * (n // 11),
    "headers": lambda n: "GPU0 GPU1\n" * (n // 10),
    "open rows": lambda n: " ".join(f"GPU{i}" for i in range(1000)) + "\nGPU0 X\n" + "NV1\n" * (n // 4),
    "wide header, long legend": lambda n: (
        " ".join(f"GPU{i}" for i in range(1000)) + "\nGPU0 X\n" + "a\n" * (n // 2)
    ),
    "escapes": lambda n: "\x1b[" * (n // 2),
    "brackets": lambda n: "[" * n,
    "lines of brackets": lambda n: "[\n" * (n // 2),
    "names": lambda n: "NIC0: " + "a" * n,
    "digits": lambda n: "GPU0 GPU1 CPU Affinity\nGPU0 X NV1" + "1" * n + "\n",
    "commas": lambda n: "GPU0 GPU1 CPU Affinity\nGPU0 X NV1" + "0," * (n // 2) + "\n",
    "bus ids": lambda n: "ACCESS TABLE:\n" + "0000:03:00.0 " * (n // 13) + "\n",
    "csv": lambda n: "gpu,a_gpu_0," + "," * n + "\n0\n",
    "prompts": lambda n: "topo -p2p r " * (n // 12),
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_time_is_linear(make):
    """Eight times the text takes at most sixteen times as long."""
    took = []
    for size in (40_000, 320_000):
        text = make(size)
        start = time.process_time()
        parse_topology_text(text)
        took.append(time.process_time() - start)
    assert took[1] < max(16 * took[0], 1.0)
