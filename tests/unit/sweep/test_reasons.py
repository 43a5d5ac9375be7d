"""No reason is ever counted that monitoring did not know from the start."""

import re
from pathlib import Path

import gpumond.judge.verdict
import gpumond.sweep
from gpumond.guards.report import GuardName
from gpumond.judge.verdict import LEARNING, WRONG_RESULTS
from gpumond.model.run import PREEMPTED, Cause
from gpumond.sweep.permission import UNWATCHED
from gpumond.sweep.reasons import FAILURE_REASONS, SKIP_REASONS


def test_every_reason_in_the_code_is_listed():
    judge = Path(gpumond.judge.verdict.__file__).read_text()
    sweep = "".join(path.read_text() for path in Path(gpumond.sweep.__path__[0]).glob("*.py"))
    said = {WRONG_RESULTS, PREEMPTED, UNWATCHED, *GuardName}
    said |= set(re.findall(r'Judgement\(\s*Verdict\.\w+,\s*"(\w+)"', judge))
    said |= set(re.findall(r'RefusedError\(\s*SweepOutcome\.\w+,\s*"(\w+)"', sweep))
    said |= {cause.value for cause in Cause if cause is not Cause.EXITED}
    assert len(said) > 25
    assert said - {LEARNING} == set(FAILURE_REASONS) | set(SKIP_REASONS)
