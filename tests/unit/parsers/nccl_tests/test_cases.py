"""Every published case and every capture, read as their authors typed them (tests/data/nccl, tests/data/captures)."""

import json
import math
from pathlib import Path

import pytest

from gpumond import codec
from gpumond.model.benchmark import NoteKind, TextOutcome
from gpumond.parsers.nccl_tests import parse_bytes

DATA = Path(__file__).parents[3] / "data"
CASES = sorted((DATA / "nccl").glob("*.txt"))
CAPTURES = DATA / "captures" / "h200x2"
NOT_TO_BE_CHECKED_WHERE_NULL = ("collective", "nranks")


def equal(expected, found):
    if isinstance(expected, dict):
        return expected.keys() == found.keys() and all(equal(expected[key], found[key]) for key in expected)
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(equal, expected, found))
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-6)
    return expected == found


def test_all_cases_are_here():
    assert len(CASES) == 20


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    found = json.loads(codec.encode(parse_bytes(path.read_bytes())))
    assert expected.keys() <= found.keys()
    assert (found["error"] is None) == (expected.pop("error") is None)
    for key, value in expected.items():
        if value is not None or key not in NOT_TO_BE_CHECKED_WHERE_NULL:
            assert equal(value, found[key]), key
    assert found["rejected"] == []


def capture(name):
    """stdout and stderr, merged as a log store would."""
    error = CAPTURES / f"{name}.err"
    return parse_bytes(
        (CAPTURES / f"{name}.out").read_bytes() + (error.read_bytes() if error.exists() else b"")
    )


OK = TextOutcome.OK
# name: (outcome, collective, ranks, rows), from the command in index.txt.
RUNS = {
    "ar_std": (OK, "all_reduce", 2, 29),
    "ag": (OK, "all_gather", 2, 6),
    "rs": (OK, "reduce_scatter", 2, 6),
    "a2a": (OK, "alltoall", 2, 6),
    "bc": (OK, "broadcast", 2, 6),
    "red": (OK, "reduce", 2, 6),
    "sr": (OK, "sendrecv", 2, 6),
    "hy": (OK, "hypercube", 2, 3),
    "sc": (OK, "scatter", 2, 3),
    "ga": (OK, "gather", 2, 3),
    "a2av": (OK, "alltoallv", 2, 3),
    "ar_json": (OK, "all_reduce", 2, 4),
    "ar_c0": (OK, "all_reduce", 2, 4),
    "ar_iter": (OK, "all_reduce", 2, 4),
    "ar_ts": (OK, "all_reduce", 2, 4),
    "ar_cyc": (OK, "all_reduce", 2, 6),
    "ar_graph": (OK, "all_reduce", 2, 2),
    "ar_all": (OK, "all_reduce", 2, 72),  # 12 types x 6 operations
    "bc_roots": (OK, "broadcast", 2, 3),  # -r all is parsed as root 0
    "ar_g1": (OK, "all_reduce", 1, 3),
    "ar_g3": (TextOutcome.FAILED, "all_reduce", None, 0),
    "ar_bad": (TextOutcome.FAILED, "all_reduce", None, 0),
    "ar_badsize": (TextOutcome.FAILED, None, None, 0),
    "ar_oom": (OK, "all_reduce", 2, 1),
    "ar_nop2p": (OK, "all_reduce", 2, 5),
    "ar_noshm": (OK, "all_reduce", 2, 4),
    "ar_dbg": (OK, "all_reduce", 2, 4),
    "ar_dbgall": (OK, "all_reduce", 2, 1),
    "ar_dbgfile": (OK, "all_reduce", 2, 1),
    "ar_t1": (TextOutcome.FAILED, "all_reduce", 2, 0),
    "ar_term": (TextOutcome.TRUNCATED, "all_reduce", 2, 0),
    "ar_vis": (TextOutcome.FAILED, "all_reduce", None, 0),
    "ar_uuid": (OK, "all_reduce", 2, 3),
    "ar_t2": (OK, "all_reduce", 2, 4),
    **{f"rep{number}": (OK, "all_reduce", 2, 3) for number in range(1, 11)},
    **{f"busy{number}": (OK, "all_reduce", 2, 3) for number in range(1, 4)},
}


def test_every_capture_of_a_benchmark_is_expected_here():
    assert {path.stem for path in CAPTURES.glob("*.out")} == RUNS.keys()


@pytest.mark.parametrize("name", RUNS)
def test_a_capture_is_what_its_command_says(name):
    outcome, collective, ranks, rows = RUNS[name]
    parsed = capture(name)
    assert (parsed.outcome, parsed.collective, parsed.nranks, len(parsed.rows)) == (
        outcome,
        collective,
        ranks,
        rows,
    )
    assert parsed.rejected == ()
    if outcome is OK:
        assert parsed.out_of_bounds == 0
        assert (parsed.tool, parsed.tool_version, parsed.library_version) == (
            "nccl-tests",
            "2.19.6",
            "2.28.9",
        )


# The last row, typed from the captures: size, count, type, redop, root, then time, algbw, busbw, wrong twice.
LAST_ROWS = {
    "ar_std": (2147483648, 536870912, "float", "sum", -1, (6351.22, 338.12, 338.12, 0), (6325.99, 339.47, 339.47, 0)),
    "ag": (1073741824, 134217728, "float", "none", -1, (1986.41, 540.54, 270.27, 0), (1857.16, 578.16, 289.08, 0)),
    "rs": (1073741824, 134217728, "float", "sum", -1, (1960.68, 547.64, 273.82, 0), (1958.17, 548.34, 274.17, 0)),
    "a2a": (1073741824, 134217728, "float", "none", -1, (1619.47, 663.02, 331.51, 0), (1512.43, 709.94, 354.97, None)),
    "bc": (1073741824, 268435456, "float", "none", 0, (2941.53, 365.03, 365.03, 0), (2914.36, 368.43, 368.43, 0)),
    "red": (1073741824, 268435456, "float", "sum", 0, (2900.89, 370.14, 370.14, 0), (2903.52, 369.81, 369.81, 0)),
    "hy": (16777216, 2097152, "float", None, -1, (55.49, 151.18, 151.18, 0), (48.70, 172.24, 172.24, 0)),
    "ar_c0": (67108864, 16777216, "float", "sum", -1, (251.84, 266.47, 266.47, None), (251.90, 266.41, 266.41, None)),
    "ar_iter": (67108864, 16777216, "float", "sum", -1, (254.13, 264.08, 264.08, 0), (254.30, 263.89, 263.89, 0)),
    "ar_ts": (67108864, 16777216, "float", "sum", -1, (249.83, 268.61, 268.61, 0), (250.76, 267.62, 267.62, 0)),
    "ar_all": (65536, 65536, "f8e5m2", "mulsum", -1, (20.27, 3.23, 3.23, 0), (23.01, 2.85, 2.85, 0)),
    "ar_g1": (4194304, 1048576, "float", "sum", -1, (9.59, 437.20, 0.0, 0), (1.03, 4078.3, 0.0, 0)),
    "ar_oom": (68719476736, 17179869184, "float", "sum", -1, (197678, 347.63, 347.63, None), (196999, 348.83, 348.83, None)),
    "ar_dbgall": (1048576, 262144, "float", "sum", -1, (33.24, 31.55, 31.55, 0), (33.78, 31.04, 31.04, 0)),
    "ar_nop2p": (268435456, 67108864, "float", "sum", -1, (9774.36, 27.46, 27.46, 0), (9732.96, 27.58, 27.58, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAST_ROWS)
def test_the_last_row_of_a_capture(name):
    row = capture(name).rows[-1]
    timings = (row.out_of_place, row.in_place)
    found = [(timing.time_us, timing.algbw_gbps, timing.busbw_gbps, timing.wrong) for timing in timings]
    assert (row.bytes, row.count, row.type, row.redop, row.root, *found) == LAST_ROWS[name]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ar_g3", "Invalid number of GPUs: 3 requested but only 2 were found."),
        ("ar_vis", "Invalid number of GPUs: 2 requested but only 1 were found."),
        ("ar_bad", "invalid option '?'"),
        ("ar_badsize", "invalid sizes for 'minbytes' and 'maxbytes': 2147483648 > 1073741824"),
        ("ar_t1", "timeout: an operation took more than 1 s"),
    ],
)
def test_the_error_of_a_capture_names_the_cause_not_the_stack(name, error):
    assert capture(name).error == error


def test_a_clamped_size_is_noted():
    (note,) = capture("ar_oom").notes
    assert note.kind is NoteKind.SIZES_REDUCED
    assert "72370585600" in note.text
