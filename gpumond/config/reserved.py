"""What an operator may hand to a benchmark, and what not, because gpumond sets it or could no longer read the result.

Pure. process/environment.py refuses the same names again when a child is made: there it is the last line of defence,
here the mistake has a file and a line. A check raises ValueError with a sentence that does not hold a value: an environment may carry a secret.
"""

from __future__ import annotations

import re
from typing import Final

ALLOWED_ENVIRONMENT_PREFIXES: Final = ("NCCL_", "RCCL_", "HSA_", "UCX_", "FI_", "OFI_NCCL_")
"""The libraries that carry the traffic: NCCL, RCCL, ROCm's runtime, UCX, libfabric and its NCCL plugin."""

_ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]*")

_SET_PER_RUN = "is set by gpumond for each run"
RESERVED_ENVIRONMENT: Final = {
    "CUDA_VISIBLE_DEVICES": "is set by gpumond from gpu_sets",
    "ROCR_VISIBLE_DEVICES": "is set by gpumond from gpu_sets",
    "HIP_VISIBLE_DEVICES": "would be applied on top of gpu_sets",
    "NCCL_TESTS_DEVICE": "would change which GPUs are measured",
    "NCCL_TESTS_SPLIT": "would change which GPUs are measured together",
    "NCCL_TESTS_SPLIT_MASK": "would change which GPUs are measured together",
    "CUDA_DEVICE_ORDER": "is set by gpumond to PCI_BUS_ID",
    "LD_LIBRARY_PATH": "is made from engines.nccl_tests.library_path",
    "PATH": "is made from engines.nccl_tests.directory",
    "NCCL_DEBUG_FILE": _SET_PER_RUN,
    "NCCL_CONF_FILE": _SET_PER_RUN,
}

RESERVED_ARGUMENTS: Final = {
    ("-b", "--minbytes"): "is min_size",
    ("-e", "--maxbytes"): "is max_size",
    ("-f", "--stepfactor"): "is step_factor",
    ("-i", "--stepbytes"): "is what step_factor replaces",
    ("-n", "--iters"): "is iterations",
    ("-w", "--warmup_iters"): "is warmup_iterations",
    ("-c", "--check"): "is check",
    ("-d", "--datatype"): "is datatype",
    ("-o", "--op"): "is redop",
    ("-g", "--ngpus"): "is decided by gpu_sets",
    ("-t", "--nthreads"): "is decided by gpu_sets",
    # Each of these leaves the layout of the table as it is and changes what it says (read in nccl-tests 2.19).
    ("-N", "--run_cycles"): "repeats the table without a mark",
    ("-C", "--report_cputime"): "prints CPU time in the place of GPU time",
    ("-h", "--help"): "prints a help text and exits with 0",
}


def check_environment_name(name: str) -> str:
    """A variable that changes how the libraries communicate, and nothing else about the benchmark."""
    if name in RESERVED_ENVIRONMENT:
        raise ValueError(RESERVED_ENVIRONMENT[name])
    if _ENVIRONMENT_NAME.fullmatch(name) is None:
        raise ValueError("must be a variable name of the characters A-Z, 0-9 and _")
    if not name.startswith(ALLOWED_ENVIRONMENT_PREFIXES):
        allowed = ", ".join(f"{prefix}*" for prefix in ALLOWED_ENVIRONMENT_PREFIXES)
        raise ValueError(f"is not a variable that benchmarks are given; allowed are {allowed}")
    return name


def check_environment_value(value: str) -> str:
    if any(character in value for character in "\0\n\r"):
        raise ValueError("must be one line without a NUL character")
    return value


def check_extra_argument(argument: str) -> str:
    """An option that does not take the place of one that gpumond sets, in any of getopt's spellings of it."""
    if "\0" in argument:
        raise ValueError("holds a NUL character")
    for (short, long), reason in RESERVED_ARGUMENTS.items():
        if _spells(argument, short, long):
            raise ValueError(f"cannot be set here: {short} {reason}")
    return argument


def _spells(argument: str, short: str, long: str) -> bool:
    """Whether getopt_long reads `argument` as the option: `-b8`, `--minbytes=8` and the abbreviation `--minb` too."""
    if argument.startswith("--"):
        word = argument.partition("=")[0]
        return len(word) > len("--") and long.startswith(word)
    return argument.startswith(short)
