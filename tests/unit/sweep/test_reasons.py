"""No reason is ever counted that monitoring did not know from the start."""

import re
from pathlib import Path

import gpumond.judge.verdict
import gpumond.sweep.runner
from gpumond.judge.verdict import LEARNING
from gpumond.model.run import Cause
from gpumond.sweep.reasons import FAILURE_REASONS, SKIP_REASONS


def test_every_reason_in_the_code_is_listed():
    judge = Path(gpumond.judge.verdict.__file__).read_text()
    runner = Path(gpumond.sweep.runner.__file__).read_text()
    said = set(re.findall(r'Judgement\(\s*Verdict\.\w+,\s*"(\w+)"', judge))
    said |= set(re.findall(r'_RefusedError\(\s*SweepOutcome\.\w+,\s*"(\w+)"', runner))
    said |= {cause.value for cause in Cause if cause is not Cause.EXITED}
    assert len(said) > 15
    assert said - {LEARNING} == set(FAILURE_REASONS) | set(SKIP_REASONS)
