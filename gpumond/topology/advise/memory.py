"""What a model needs of GPU memory, by a formula that can be printed. Pure.

Weights, gradients and optimiser states are arithmetic (mixed-precision Adam: Rajbhandari et al., "ZeRO", 2020, section
3.1: 2 + 2 + 12 bytes a parameter). Activations depend on batch and sequence length, which nobody has told us: a margin
stands for them, and it is an assumption.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TRAINING_USABLE_RATIO: Final = 0.8
"""Assumed: a fifth for activations (with recomputation), NCCL's buffers and fragmentation."""
SERVING_USABLE_RATIO: Final = 0.9
"""What vLLM takes of a GPU unless told otherwise (--gpu-memory-utilization)."""
SERVING_OVERHEAD: Final = 1.2
"""Assumed: KV cache and activations take a fifth of the weights at least."""

ADAM_MIXED_BYTES: Final = 12
"""Master weights, momentum and variance in fp32."""
ADAM_FP32_BYTES: Final = 8
"""Momentum and variance; the weights are fp32 themselves."""


class Task(StrEnum):
    TRAIN = "train"
    SERVE = "serve"


class Dtype(StrEnum):
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


BYTES_OF: Final = {
    Dtype.FP32: 4.0,
    Dtype.BF16: 2.0,
    Dtype.FP16: 2.0,
    Dtype.FP8: 1.0,
    Dtype.INT8: 1.0,
    Dtype.INT4: 0.5,
}
TRAINING_DTYPES: Final = (Dtype.BF16, Dtype.FP16, Dtype.FP32)
"""fp8 training keeps its weights in one of these."""


class Sharding(StrEnum):
    """What data-parallel ranks no longer hold whole."""

    DDP = "DDP"
    ZERO1 = "ZeRO-1"  # optimiser states are shared out
    ZERO2 = "ZeRO-2"  # and gradients
    ZERO3 = "FSDP2 (ZeRO-3)"  # and weights


PARAMETERS_MAX: Final = 10**14
_PARAMETERS = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMBT]?)", re.IGNORECASE)
_FACTORS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True)
class Job:
    """A model and what is to be done with it."""

    parameters: int
    dtype: Dtype
    task: Task

    @property
    def weights_bytes(self) -> float:
        return self.parameters * BYTES_OF[self.dtype]

    @property
    def gradients_bytes(self) -> float:
        return self.weights_bytes

    @property
    def optimiser_bytes(self) -> float:
        return self.parameters * (ADAM_FP32_BYTES if self.dtype is Dtype.FP32 else ADAM_MIXED_BYTES)


def parse_parameters(text: str) -> int:
    """`70B`, `1.5b`, `350M` or a plain number. Raises ValueError for anything else."""
    match = _PARAMETERS.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a number of parameters: {text!r}")
    count = round(float(match[1]) * _FACTORS[match[2].upper()])
    if not 0 < count <= PARAMETERS_MAX:
        raise ValueError(f"between 1 and {PARAMETERS_MAX:g} parameters, not {text!r}")
    return count


def training_bytes_per_gpu(job: Job, sharding: Sharding, *, data: int, split: int = 1) -> float:
    """What one of `data` data-parallel ranks holds, where tensor and pipeline parallelism have cut the model by `split`."""
    weights, gradients, optimiser = job.weights_bytes, job.gradients_bytes, job.optimiser_bytes
    held = {
        Sharding.DDP: weights + gradients + optimiser,
        Sharding.ZERO1: weights + gradients + optimiser / data,
        Sharding.ZERO2: weights + (gradients + optimiser) / data,
        Sharding.ZERO3: (weights + gradients + optimiser) / data,
    }
    return held[sharding] / split


def serving_bytes_per_gpu(job: Job, *, split: int) -> float:
    return job.weights_bytes * SERVING_OVERHEAD / split


def usable_bytes(memory_bytes: int, task: Task) -> float:
    """Of one GPU."""
    return memory_bytes * (TRAINING_USABLE_RATIO if task is Task.TRAIN else SERVING_USABLE_RATIO)
