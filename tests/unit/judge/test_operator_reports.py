"""The eight reproducible reports of operators (public issues), as histories: what the judge says of each.

The hang of R4 and R5 and the topology of R6 have evidence of their own (re-run without P2P, typed changes); here is what
the results alone show.
"""

import pytest
from nightly_history import FINGERPRINT, LEARNED, Host, judged, kinds_of, verdicts_of


def found(history, kind):
    return next(item for item in history.findings if item.kind == kind)


def test_r1_a_new_nccl_release_is_ten_times_slower():
    """NVIDIA/nccl#770: 2.14.3 -> 2.16.2 on 8 x A40; three collectives."""
    host = Host()
    old, new = {**FINGERPRINT, "nccl": "2.14.3"}, {**FINGERPRINT, "nccl": "2.16.2"}
    lines = [
        host.line(
            night,
            collective=name,
            fingerprint=old if night < LEARNED else new,
            factor=1.0 if night < LEARNED else 0.1,
        )
        for night in range(LEARNED + 2)
        for name in ("all_reduce", "all_gather", "reduce_scatter")
    ]
    history = judged(lines)
    assert kinds_of(history).count("step") == 1
    step = found(history, "step")
    assert step.cause == ("nccl",)
    assert "nccl 2.14.3 -> 2.16.2" in step.detail
    assert len(step.collectives) == 3


def test_r2_gpu_direct_is_off_after_an_upgrade_of_the_os():
    """NVIDIA/nccl#1676: 180 -> 10 GB/s; the release of the OS and a kernel module changed."""
    host = Host()
    before = {**FINGERPRINT, "os_release": "DGX OS 5", "module.nv_peer_mem": "1.1"}
    after = {**FINGERPRINT, "os_release": "DGX OS 6", "module.nv_peer_mem": "absent"}
    lines = host.nights(0, LEARNED, fingerprint=before, transport="NET/IB/GDRDMA")
    lines += host.nights(LEARNED, LEARNED + 2, fingerprint=after, factor=0.055, transport="NET/IB")
    step = found(judged(lines), "step")
    assert set(step.cause) == {"os_release", "module.nv_peer_mem"}
    assert "transport NET/IB/GDRDMA -> NET/IB" in step.detail


def test_r3_corrupt_data_in_three_runs_of_ten_is_a_rate_and_not_a_flap():
    """NVIDIA/nccl#2001: GH200, `#wrong` above 0 at 1 MiB in 30 % of the runs."""
    host = Host()
    lines = [host.line(night, wrong_at=(1 << 20,) if night in (2, 5, 9) else ()) for night in range(10)]
    history = judged(lines)
    assert kinds_of(history) == ["wrong_results"]
    (finding,) = history.findings
    assert (finding.level, finding.closed_at) == ("critical", None)
    assert "3 of the last 10 runs" in finding.detail
    assert "at 1048576 bytes" in finding.evidence
    failed = [night for night, item in enumerate(history.verdicts) if item.assessment.verdict == "failed"]
    assert failed == [2, 5, 9]


@pytest.mark.parametrize("report", ["R4", "R5"])
def test_r4_r5_a_hang_is_failed_and_never_a_bandwidth(report):
    """tinygrad/open-gpu-kernel-modules#45 and NVIDIA/nccl#606: hangs unless P2P is off, or with one pair of GPUs."""
    host = Host()
    history = judged(host.nights(0, LEARNED) + host.nights(LEARNED, LEARNED + 2, rows=[], outcome="failed"))
    assert [reason for _, reason in verdicts_of(history)[-2:]] == ["benchmark_error"] * 2
    assert kinds_of(history) == ["failed"], report


def test_r6_nvlinks_that_are_missing_after_a_boot_explain_the_drop():
    """Azure/azhpc-images#443: NV12 became SYS; a boot id changed with it."""
    host = Host()
    before = {"class": "nvlink-partial", "links": 12}
    after = {"class": "pcie-p2p", "links": 0}
    lines = host.nights(0, LEARNED, topology=before)
    lines += host.nights(LEARNED, LEARNED + 2, topology=after, factor=0.1)
    step = found(judged(lines), "step")
    assert set(step.cause) == {"topology.class", "topology.links"}


def test_r6_another_order_of_the_gpus_is_nothing():
    """Inputs name GPUs by UUID and topology by a hash of what is connected, so an index is no part of them."""
    host = Host()
    assert kinds_of(judged(host.nights(0, LEARNED) + host.nights(LEARNED, LEARNED + 3))) == []


def test_r7_twelve_of_eighteen_links_by_design_are_normal_and_eleven_are_not():
    """Azure/azurehpc-health-checks#162: H100 NVL; a fixed limit of 335 GB/s raised false alarms at 256."""
    host = Host(ranks=2)
    first = judged(host.nights(0, 1, topology={"class": "nvlink-partial", "links": 12}, factor=0.5))
    assert verdicts_of(first) == [("not_evaluated", "learning")]
    host = Host(ranks=2)
    lines = host.nights(0, LEARNED, topology={"class": "nvlink-partial", "links": 12})
    lines += host.nights(
        LEARNED, LEARNED + 2, topology={"class": "nvlink-partial", "links": 11}, factor=11 / 12
    )
    history = judged(lines)
    assert found(history, "step").cause == ("topology.links",)
    assert found(history, "baseline_candidate").level == "warning"


def test_r8_a_counter_that_cannot_be_read_is_neither_a_change_nor_green():
    """ROCm/rocm-systems#11468: `xgmi_error` answers EINVAL."""
    host = Host()
    readable, unreadable = {**FINGERPRINT, "xgmi_error": "0"}, {**FINGERPRINT, "xgmi_error": "unreadable"}
    history = judged(
        host.nights(0, LEARNED, fingerprint=readable)
        + host.nights(LEARNED, LEARNED + 3, fingerprint=unreadable)
    )
    assert kinds_of(history) == []
