"""What the two engines of our own have in common: the options of their programs, and what those cannot measure.

The programs print nccl-tests' table themselves (torch_benchmark.py, nccl4py_benchmark.py); a run of either is read by the
same parser.
"""

from __future__ import annotations

from gpumond.errors import HostError
from gpumond.model.run import Engine, Purpose
from gpumond.sweep.engines.torch_benchmark import COLLECTIVES, ELEMENT_BYTES, REDOPS
from gpumond.sweep.plan import Step, nccl_tests_arguments

_ONLY_NCCL_TESTS = 'nccl-tests can: set engine = "nccl-tests" in this sweep, or leave it out.'


def own_arguments(step: Step, engine: Engine) -> tuple[str, ...]:
    """The command line of our programs for a step. Raises HostError where they cannot measure it."""
    parameters = step.parameters
    if step.collective.value not in COLLECTIVES:
        raise HostError(f"{engine.value} cannot measure {step.collective.value}", hint=_ONLY_NCCL_TESTS)
    if parameters.datatype not in ELEMENT_BYTES:
        raise HostError(
            f"{engine.value} cannot measure with datatype {parameters.datatype}", hint=_ONLY_NCCL_TESTS
        )
    if COLLECTIVES[step.collective.value].reduces and parameters.redop not in REDOPS:
        raise HostError(f"{engine.value} has no reduction {parameters.redop}", hint=_ONLY_NCCL_TESTS)
    if parameters.extra_arguments:
        words = " ".join(parameters.extra_arguments)
        raise HostError(
            f"{engine.value} does not know extra_arguments: {words}",
            hint='They are options of nccl-tests; take them out, or set engine = "nccl-tests".',
        )
    sanity = ("--sanity",) if step.purpose is Purpose.SANITY else ()
    return ("--collective", step.collective.value, *sanity, *nccl_tests_arguments(step))
