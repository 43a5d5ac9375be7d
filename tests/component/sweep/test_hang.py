"""After a hang: evidence, one re-run without P2P, a finding. The re-run is on record, and never a value."""

import pytest
from benchmark_stand_in import Ending, Script, calls_of

from gpumond.model.benchmark import Collective
from gpumond.model.finding import FindingKind
from gpumond.model.run import Cause, Purpose, SweepOutcome
from gpumond.sweep.plan import Deadlines

HANGS = Script(ending=Ending.HANG, after_row=3)
HANGS_OVER_P2P = Script(ending=Ending.HANG, after_row=3, runs_without_p2p=True)
SOON = Deadlines(first_row_seconds=20, row_seconds=1)


def test_a_hang_that_p2p_explains_is_a_finding_about_the_path(host):
    host.install(all_reduce=HANGS_OVER_P2P)
    report = host.sweep(deadlines=SOON)
    hung, again = report.runs
    assert (hung.purpose, hung.cause) == (Purpose.MEASUREMENT, Cause.ROW_STALLED)
    assert (again.purpose, again.cause, again.exit_status) == (Purpose.HANG_CHECK, Cause.EXITED, 0)
    assert again.environment["NCCL_P2P_DISABLE"] == "1"
    assert "NCCL_P2P_DISABLE" not in hung.environment
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.FAILURE, "row_stalled")
    (finding,) = host.store.findings()
    assert (finding.kind, finding.subject) == (FindingKind.P2P_PATH, "all")
    assert "NCCL_P2P_DISABLE=1" in finding.detail
    # wchan, load and IOMMU: what a person asks first
    assert "its threads were" in finding.evidence
    assert " W" in finding.evidence
    assert "IOMMU" in finding.evidence


def test_the_re_run_is_never_a_value_and_never_a_verdict(host):
    host.install(all_reduce=HANGS_OVER_P2P)
    host.sweep(deadlines=SOON)
    assert host.store.latest_points() == ()
    (verdict,) = host.store.latest_verdicts()
    assert verdict.reason == "row_stalled"


def test_a_hang_without_p2p_too_is_called_a_hang(host):
    host.install(all_reduce=HANGS)
    hung, again = host.sweep(deadlines=SOON).runs
    assert (hung.cause, again.cause) == (Cause.ROW_STALLED, Cause.ROW_STALLED)
    (finding,) = host.store.findings()
    assert finding.kind is FindingKind.HANG


def test_there_is_exactly_one_re_run_and_no_further_collective(host):
    host.install(all_reduce=HANGS, all_gather=HANGS)
    host.sweep(Collective.ALL_REDUCE, Collective.ALL_GATHER, deadlines=SOON)
    assert len(calls_of(host.programs / "all_reduce_perf")) == 2
    assert calls_of(host.programs / "all_gather_perf") == []


def test_the_next_healthy_run_closes_the_finding(host):
    host.install(all_reduce=HANGS_OVER_P2P)
    host.sweep(deadlines=SOON)
    host.install(all_reduce=Script())
    host.sweep()
    assert host.store.findings() == ()
    (finding,) = host.store.findings(open_only=False)
    assert finding.closed_at is not None


@pytest.mark.parametrize("ending", [Ending.SIGNAL, Ending.EXIT])
def test_a_benchmark_that_ends_by_itself_is_no_hang(host, ending):
    host.install(all_reduce=Script(ending=ending, after_row=3))
    assert len(host.sweep().runs) == 1
    assert host.store.findings() == ()
