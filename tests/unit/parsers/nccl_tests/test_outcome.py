"""How a run ended, from its text alone (cases/nccl README, rules 2 and 3)."""

import pytest

from gpumond.model.benchmark import NoteKind, TextOutcome
from gpumond.parsers.nccl_tests import parse

RUN = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
"""
RANK = "#  Rank  0 Group  0 Pid   1 on     node-a device  0 [0x31] NVIDIA A40\n"
HEADER = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
ROW = "256 64 float sum -1 34.24 0.01 0.00 0 33.65 0.01 0.00 0\n"
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.01 \n#\n"
BEGUN = RUN + RANK + HEADER + ROW
WHOLE = BEGUN + FOOTER
CALLER = " .. node-a pid 30701: Test failure common.cu:1189\n"

OK, FAILED, WRONG, TRUNCATED = (
    TextOutcome.OK,
    TextOutcome.FAILED,
    TextOutcome.WRONG_RESULTS,
    TextOutcome.TRUNCATED,
)

CAUSES = {
    "node-a: Test CUDA failure common.cu:732 'invalid device ordinal'": "CUDA failure: invalid device ordinal",
    "node-a: Test HIP failure common.cu:732 'out of memory'": "HIP failure: out of memory",
    "node-a: Test NCCL failure common.cu:5 'remote process exited / Net: x'": "NCCL failure: remote process exited / Net: x",
    "NCCL failure all_reduce.cu:95 'unhandled cuda error'": "NCCL failure: unhandled cuda error",
    "Cuda failure common.cu:95 'unknown error'": "CUDA failure: unknown error",
    "node-a: Test timeout (30s) common.cu:526": "timeout: an operation took more than 30 s",
    CALLER.strip("\n"): "test failure at common.cu:1189",
    " .. node-a: Test failure common.cu:1189": "test failure at common.cu:1189",
    "Invalid number of GPUs: 3 requested but only 2 were found.": "Invalid number of GPUs: 3 requested but only 2 were found.",
    "[ERROR] The number of requested GPUs (8) is greater than the number of GPUs available (4)": "The number of requested GPUs (8) is greater than the number of GPUs available (4)",
    "invalid size specified for 'minbytes'": "invalid size specified for 'minbytes'",
    "all_reduce_perf: unrecognized option '--nonsense'": "unrecognized option '--nonsense'",
    "CuRAND error 203 at common.cu:95": "CuRAND error 203 at common.cu:95",
    "Device implementation 3 is not supported by this test": "Device implementation 3 is not supported by this test",
    "Incompatible NCCL versions. nccl-tests was compiled with 2.29": "Incompatible NCCL versions. nccl-tests was compiled with 2.29",
    "./all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open": "error while loading shared libraries: libnccl.so.2",
    "bash: ./build/all_reduce_perf: No such file or directory": "./build/all_reduce_perf: No such file or directory",
    "env: 'all_reduce_perf': Permission denied": "'all_reduce_perf': Permission denied",
    "node-a:1:9 Segmentation fault (core dumped)": "crashed: Segmentation fault",
    "==== backtrace (tid:    600) ====": "crashed: backtrace",
    "terminate called after throwing an instance of 'std::bad_alloc'": "crashed: terminate called after throwing an instance of 'std::bad_alloc'",
    "malloc(): corrupted top size": "crashed: malloc(): corrupted top size",
    "all_reduce_perf: x.c:1: main: Assertion `x' failed.": "crashed: Assertion `x' failed",
    "Memory access fault by GPU node-1 on address (nil)": "crashed: Memory access fault by GPU node-1 on address (nil)",
}  # fmt: skip


@pytest.mark.parametrize("line", CAUSES)
def test_a_failure_line_before_the_footer(line):
    parsed = parse(f"{BEGUN}{line}\n")
    assert (parsed.outcome, parsed.error, len(parsed.rows)) == (FAILED, CAUSES[line], 1)


NOISE = [
    "node-a:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Cuda failure 'out of memory'",
    "node-a:1:1 [0] NCCL INFO Test CUDA failure x.cu:1 'this is a quotation'",
    "srun: error: node-a: task 3: Exited with exit code 3",
    "slurmstepd: error: *** STEP 1.0 ON node-a CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
    "mpirun noticed that process rank 0 with PID 1 on node node-a exited on signal 9 (Killed).",
    "Warning: Permanently added 'node-a' (ED25519) to the list of known hosts.",
    "Authorization required, but no authorization protocol specified",
    "[sudo] password for user: ",
    "# error: Net plugin is not compatible",
    "Option -R not supported before NCCL 2.19. Ignoring",
    "Killed",
]


@pytest.mark.parametrize("line", NOISE)
def test_noise_is_no_failure(line):
    assert parse(f"{BEGUN}{line}\n").outcome is TRUNCATED
    assert parse(f"{RUN}{line}\n{RANK}{HEADER}{line}\n{ROW}{FOOTER}{line}\n").outcome is OK


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", TRUNCATED),
        (RUN, TRUNCATED),
        (BEGUN, TRUNCATED),
        (BEGUN + "# Out of bounds values : 0 OK\n", TRUNCATED),
        (BEGUN + "# Avg bus bandwidth    : 0.01 \n", TRUNCATED),
        (WHOLE, OK),
        (WHOLE + CALLER, OK),
        (BEGUN + CALLER + FOOTER, OK),  # another rank's way out, printed early
        (BEGUN + FOOTER.replace("0 OK", "4 FAILED"), WRONG),
        (BEGUN + FOOTER.replace("0 OK", "4 FAILED") + CALLER, WRONG),
        (BEGUN.replace("0.00 0\n", "0.00 12\n"), WRONG),
        (BEGUN.replace("0.00 0\n", "0.00 12"), WRONG),  # cut inside the count: no row, but data were wrong
        (BEGUN + CALLER + FOOTER.replace("0 OK", "4 FAILED"), WRONG),
        (BEGUN.replace("0.00 0\n", "0.00 12\n") + "Segmentation fault\n", FAILED),
        (ROW + FOOTER, OK),  # the tail of a log
        (WHOLE + ROW, TRUNCATED),
        (WHOLE + WHOLE, OK),
        (WHOLE + BEGUN, TRUNCATED),
        (BEGUN + WHOLE, TRUNCATED),
        (WHOLE + RUN + "node-a: Test CUDA failure c.cu:1 'x'\n", FAILED),
        (RUN + "node-a: Test CUDA failure c.cu:1 'x'\n" + WHOLE, FAILED),
        (WHOLE + "./all_reduce_perf: error while loading shared libraries: libnccl.so.2: x\n", FAILED),
        (WHOLE + RUN + CALLER, FAILED),
        (RUN + RUN + RANK + RANK + HEADER + HEADER + ROW + ROW + FOOTER + FOOTER, OK),
        (RUN + RUN + RANK + RANK + HEADER + HEADER + ROW + ROW + FOOTER, TRUNCATED),
    ],
)
def test_outcome(text, outcome):
    parsed = parse(text)
    assert parsed.outcome is outcome
    assert (parsed.error is not None) == (outcome is FAILED)


@pytest.mark.parametrize(
    ("last", "rows"), [("0", 1), ("N/A", 1), ("4e+06", 1), ("9", 0), ("96", 0), ("1.04858e+0", 0), ("N/", 0)]
)
def test_a_count_that_the_end_of_the_text_may_have_cut_makes_no_row(last, rows):
    assert len(parse(BEGUN.replace("0.00 0\n", f"0.00 {last}")).rows) == rows


def test_a_run_that_measured_nothing_is_ok_without_rows_and_without_an_average():
    text = RUN + HEADER + "nRanks 3 is not a power of 2, skipping\n" + FOOTER.replace("0.01", "-nan")
    parsed = parse(text)
    assert (parsed.outcome, parsed.rows, parsed.avg_busbw_gbps) == (OK, (), None)
    assert [note.kind for note in parsed.notes] == [NoteKind.NOTHING_MEASURED]


@pytest.mark.parametrize(
    ("end", "average"),
    [("93.96 \n", 93.96), ("93.96\n", 93.96), ("93.96 ", 93.96), ("93.96", None), ("1e-05 \n", 1e-05), ("nan\n", None), ("inf \n", None), ("1e-0", None)],
)  # fmt: skip
def test_an_average_that_the_end_of_the_text_may_have_cut_is_not_believed(end, average):
    parsed = parse(f"{BEGUN}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {end}")
    assert (parsed.avg_busbw_gbps, parsed.outcome) == (average, OK)


NOTED = {
    NoteKind.SIZES_REDUCED: BEGUN + "# Reducing maxBytes to 48247057066 due to memory limitation\n",
    NoteKind.ARGUMENT_REPLACED: "invalid type x, defaulting to float .. \n" + BEGUN,
    NoteKind.AVERAGE_TOO_LOW: BEGUN + FOOTER.replace("0.01 ", "0.01 FAILED"),
    NoteKind.BITWISE_MISMATCH: BEGUN + "# Bitwise mismatches   : 3 FAILED\n",
    NoteKind.ERROR_AFTER_FOOTER: WHOLE + "node-a: Test CUDA failure c.cu:1 'x'\n",
    NoteKind.SEVERAL_RUNS: RUN + RUN + RANK + RANK,
}


@pytest.mark.parametrize("kind", NOTED)
def test_what_a_person_should_know_besides(kind):
    assert [note.kind for note in parse(NOTED[kind]).notes] == [kind]


def test_two_runs_at_once_are_told_from_two_in_a_row():
    at_once = parse(NOTED[NoteKind.SEVERAL_RUNS]).notes[0].text
    in_a_row = parse(WHOLE + WHOLE).notes[0].text
    assert "without MPI" in at_once
    assert "one after the other" in in_a_row


@pytest.mark.parametrize(
    ("line", "collective"),
    [
        ("# Collective test starting: all_reduce_perf", "all_reduce"),
        ("# Collective test starting: all_reduce_perf_mpi", "all_reduce"),
        ("# Collective test concluded: alltoallv_perf.exe", "alltoallv"),
        ("# Collective test starting: my_own_perf", "my_own"),
        ("+ mpirun -np 2 ./build/all_gather_perf -g 1", "all_gather"),
        ("12 0x1 RunTest()  /opt/nccl_tests/src/reduce_scatter.cu:103", "reduce_scatter"),
        ("USAGE: sendrecv_perf ", "sendrecv"),
        ("$ ./all_reduce_bias_perf", "all_reduce_bias"),
        ("./all_reduce_perf && ./broadcast_perf", "all_reduce"),
        ("common.cu:1189", None),
        ("the all_reduce of torch", None),
    ],
)
def test_the_collective_is_the_program_that_the_text_names(line, collective):
    assert parse(f"{line}\n").collective == collective


def test_two_programs_are_no_collective_and_a_stated_one_outranks_echoed_ones():
    echoed = "$ ./all_reduce_perf\n$ ./broadcast_perf\n"
    assert parse(echoed).collective is None
    assert parse(echoed + "# Collective test starting: broadcast_perf\n").collective == "broadcast"


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        ("# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809", "nccl-tests"),
        ("# rccl-tests version 2.18.3-branch:hash+ rccl-headers=22707 rccl-library=22707", "rccl-tests"),
        ("rccl-tests: Version develop:ae3e635", "rccl-tests"),
        ("On gfx942 architecture, using FNUZ FP8 types# rccl-tests version 2.18.3", "rccl-tests"),
        ("# Errors with asterisks indicate errors that have exceeded the maximum threshold.", "rccl-tests"),
        ("# nThreads: 1 nGpus: 4 nRanks: 1 minBytes: 8 maxBytes: 134217728", "rccl-tests"),
        ("# nThread: 1 nGpus: 4 minBytes: 8 maxBytes: 134217728", "rccl-tests"),
        ("node-a: Test HIP failure common.cu:1 'x'", "rccl-tests"),
        ("node-a:1:1 [0] NCCL INFO RCCL version 2.20", "nccl-tests"),
    ],
)
def test_rccl_tests_show_themselves(line, tool):
    assert parse(f"{line}\n").tool == tool


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809", "2.28.9"),
        ("# nccl-tests version 2.20.0 (b4d5bee) nccl-headers=23007 nccl-library=23007", "2.30.7"),
        ("# nccl-tests version 2.17.4 nccl-headers=2708 nccl-library=2708", "2.7.8"),
        ("NCCL version 2.9.6+cuda11.2", "2.9.6+cuda11.2"),
        ("vm:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda12.9", "2.28.9+cuda12.9"),
        ("RCCL version : 2.20.5-HEAD:abc", "2.20.5-HEAD:abc"),
        ("NCCL version", None),
    ],
)
def test_the_library_version_as_people_write_it(line, version):
    assert parse(f"{line}\n").library_version == version
