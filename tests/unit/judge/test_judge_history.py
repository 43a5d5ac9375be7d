"""Histories through `judge_history`: what is found, what is not, and the properties that the judge promises."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly_history import (
    FINGERPRINT,
    HEALTHY,
    LEARNED,
    Host,
    judged,
    kinds_of,
    make_row,
    night_at,
    verdicts_of,
)

from gpumond.judge.history import judge_history


def learned(host):
    return host.nights(0, LEARNED)


def test_a_healthy_host_learns_and_then_is_ok():
    history = judged(Host().nights(0, 30))
    verdicts = verdicts_of(history)
    assert verdicts[:13] == [("not_evaluated", "learning")] * 13
    assert set(verdicts[14:]) == {("ok", "within_noise")}
    assert kinds_of(history) == []


def test_a_first_night_has_no_score_and_no_basis():
    only = judged(Host().nights(0, 1)).verdicts[0].assessment
    assert (only.score, only.basis) == (None, "none")


def test_a_step_is_found_on_its_second_night():
    host = Host()
    history = judged(learned(host) + host.nights(28, 32, factor=0.95))
    (finding,) = history.findings
    assert finding.kind == "step"
    assert finding.first_at.isoformat() == "2026-01-29T02:00:00+00:00"
    assert finding.confirmed_at.isoformat() == "2026-01-30T02:00:00+00:00"
    assert finding.cause == ()
    assert "nothing that we record changed" in finding.detail
    assert verdicts_of(history)[-4:] == [("degraded", "unconfirmed")] + [("degraded", "step")] * 3
    last = history.verdicts[-1].assessment
    assert last.basis == "baseline"
    assert last.score == pytest.approx(0.95, abs=0.01)


def test_a_drop_of_a_tenth_is_provisional_at_once_and_confirmed_by_the_next_night():
    host = Host()
    first = judged(learned(host) + host.nights(28, 29, factor=0.88))
    assert [(item.kind, item.level, item.confirmed_at) for item in first.findings] == [
        ("provisional", "info", None)
    ]
    host = Host()
    both = judged(learned(host) + host.nights(28, 30, factor=0.88))
    assert kinds_of(both) == ["provisional", "step"]
    assert both.findings[0].confirmed_at == both.findings[1].confirmed_at


def test_one_bad_night_ends_as_a_provisional_finding_that_nobody_confirmed():
    host = Host()
    history = judged([*learned(host), host.line(28, factor=0.85), *host.nights(29, 33)])
    (finding,) = history.findings
    assert (finding.kind, finding.confirmed_at) == ("provisional", None)
    assert finding.closed_at is not None


def test_a_rerun_of_the_same_night_clears_it():
    host = Host()
    low = host.line(28, factor=0.85)
    again = host.line(28, minutes=12, rerun_of=low["at"])
    history = judged([*learned(host), low, again])
    assert verdicts_of(history)[-2:] == [("not_evaluated", "disturbed"), ("ok", "within_noise")]
    assert kinds_of(history) == []


def test_a_decline_is_a_drift():
    host = Host(noise=0.004)
    decline = [host.line(28 + day, factor=1 - 0.002 * day) for day in range(12)]
    history = judged(learned(host) + decline)
    assert kinds_of(history) == ["drift"]


def test_a_driver_upgrade_that_costs_is_named_and_waits_for_a_person():
    host = Host()
    upgraded = {**FINGERPRINT, "driver": "590.12"}
    history = judged(learned(host) + host.nights(28, 40, factor=0.95, fingerprint=upgraded))
    step = next(item for item in history.findings if item.kind == "step")
    assert step.cause == ("driver",)
    assert "driver 580.95 -> 590.12" in step.detail
    candidate = next(item for item in history.findings if item.kind == "baseline_candidate")
    assert (candidate.level, candidate.confirmed_at, candidate.closed_at) == ("warning", None, None)


def test_a_driver_upgrade_that_costs_nothing_is_accepted_after_a_week():
    host = Host()
    upgraded = {**FINGERPRINT, "driver": "590.12"}
    history = judged(learned(host) + host.nights(28, 40, fingerprint=upgraded))
    (candidate,) = history.findings
    assert candidate.kind == "baseline_candidate"
    assert candidate.confirmed_at == candidate.closed_at
    assert candidate.confirmed_at.isoformat() == "2026-02-04T02:00:00+00:00"
    assert set(verdicts_of(history)[28:]) == {("ok", "within_noise")}


def test_other_hardware_always_waits_for_a_person():
    host = Host()
    replaced = {**FINGERPRINT, "gpu_uuids": "GPU-a,GPU-c"}
    history = judged(learned(host) + host.nights(28, 60, fingerprint=replaced))
    (candidate,) = history.findings
    assert (candidate.kind, candidate.level, candidate.closed_at) == ("baseline_candidate", "warning", None)


def test_a_rolled_back_upgrade_closes_its_candidate():
    host = Host()
    upgraded = {**FINGERPRINT, "nccl": "2.28.9"}
    history = judged(learned(host) + host.nights(28, 31, fingerprint=upgraded) + host.nights(31, 33))
    (candidate,) = history.findings
    assert candidate.confirmed_at is None
    assert candidate.closed_at.isoformat() == "2026-02-01T02:00:00+00:00"


def test_small_accepted_losses_do_not_add_up():
    """Three upgrades of -1.8 % each: the third would be 5.3 % below the best that was ever normal."""
    host = Host(noise=0.001)
    lines, factor = learned(host), 1.0
    for number in range(3):
        factor *= 0.982
        first = 28 + 30 * number
        lines += host.nights(
            first, first + 30, factor=factor, fingerprint={**FINGERPRINT, "nccl": f"3.{number}"}
        )
    candidates = [item for item in judged(lines).findings if item.kind == "baseline_candidate"]
    assert [item.confirmed_at is not None for item in candidates] == [True, True, False]


def test_a_value_that_cannot_be_read_is_no_change():
    host = Host()
    for value in ("", "unreadable", None):
        lines = learned(host) + host.nights(28, 31, fingerprint={**FINGERPRINT, "driver": value})
        assert kinds_of(judged(lines)) == []


def test_a_new_key_is_learned_not_a_change():
    host = Host()
    lines = learned(host) + host.nights(28, 31, fingerprint={**FINGERPRINT, "power_limit": "700"})
    assert kinds_of(judged(lines)) == []


def test_a_slower_transport_is_degraded_without_statistics():
    host = Host()
    lines = host.nights(0, LEARNED, transport="P2P/CUMEM:24") + host.nights(28, 29, transport="SHM:2")
    history = judged(lines)
    assert verdicts_of(history)[-1] == ("degraded", "transport_change")
    assert kinds_of(history) == ["transport_change"]
    again = judged(
        host.nights(0, LEARNED, transport="P2P/CUMEM:24") + host.nights(28, 29, transport="P2P/IPC:16")
    )
    assert kinds_of(again) == []


def test_events_of_several_collectives_in_one_night_are_one_finding():
    host = Host()
    lines = [
        host.line(night, factor=1.0 if night < LEARNED else 0.95, collective=name)
        for night in range(32)
        for name in ("all_reduce", "all_gather", "broadcast")
    ]
    (finding,) = judged(lines).findings
    assert set(finding.collectives) == {"all_reduce", "all_gather", "broadcast"}


def test_latency_alone_is_found_while_large_sizes_are_fine():
    """NVIDIA/nccl#2094: small all_reduce slower from one release to the next."""
    host = Host()
    newer = {**FINGERPRINT, "nccl": "2.29.1"}
    history = judged(learned(host) + host.nights(28, 32, slower=1.4, fingerprint=newer))
    step = next(item for item in history.findings if item.kind == "step")
    assert step.cause == ("nccl",)
    assert "small sizes" in step.detail
    assert verdicts_of(history)[-1] == ("degraded", "latency")


def test_latency_is_not_judged_on_a_busy_cpu():
    host = Host()
    lines = learned(host) + host.nights(28, 34, slower=1.8, cpu_load_per_core=0.8)
    assert kinds_of(judged(lines)) == []


# What must never be a value


BAD = (
    {"tainted": True},
    {"preempted": True},
    {"skipped": True},
    {"imported": True},
    {"outcome": "truncated"},
    {"rows": []},
)


@pytest.mark.parametrize("change", BAD, ids=lambda change: next(iter(change)))
def test_what_is_no_measurement_finds_nothing(change):
    host = Host()
    history = judged(learned(host) + host.nights(28, 40, factor=0.5, **change))
    assert kinds_of(history) == []
    assert {verdict for verdict, _ in verdicts_of(history)[28:]} == {"not_evaluated"}


@pytest.mark.parametrize("value", [0.0, -300.0, float("nan"), float("inf")])
def test_impossible_values_are_unreadable(value):
    host = Host()
    line = host.line(28)
    line["rows"][0]["out_of_place"]["busbw_gbps"] = value
    history = judged([*learned(host), line, host.line(29)])
    assert verdicts_of(history)[-2:] == [("not_evaluated", "unreadable_rows"), ("ok", "within_noise")]
    assert kinds_of(history) == []


def test_fewer_rows_and_fewer_ranks_are_not_compared():
    host = Host()
    fewer_rows = host.line(28)
    fewer_rows["rows"] = fewer_rows["rows"][:3]
    implied = Host(ranks=7).line(29, nranks=8)  # asked for 8, busbw / algbw says 7
    seven = Host(ranks=7).line(30)
    history = judged([*learned(host), fewer_rows, implied, seven])
    assert [reason for _, reason in verdicts_of(history)[-3:]] == ["fewer_rows", "fewer_ranks", "fewer_ranks"]
    assert kinds_of(history) == []


def test_a_baseline_of_another_host_is_not_used():
    host = Host()
    other = {**FINGERPRINT, "gpu_uuids": "GPU-x,GPU-y"}
    history = judged(learned(host) + host.nights(28, 31, factor=0.5, fingerprint=other))
    assert set(verdicts_of(history)[28:]) == {("not_evaluated", "other_host")}
    assert kinds_of(history) == ["baseline_candidate"]


def test_after_a_year_without_nights_the_old_baseline_still_counts_and_one_night_is_not_two():
    host = Host()
    gap = [host.line(400, factor=0.95), host.line(401, factor=0.95)]
    history = judged([*learned(host), host.line(28, factor=0.95), *gap])
    (finding,) = history.findings
    assert finding.first_at.isoformat().startswith("2027-02-05")


def test_wrong_results_are_one_finding_with_a_rate():
    host = Host()
    lines = [host.line(night, wrong_at=(64 << 20,) if night in (3, 6, 8) else ()) for night in range(10)]
    history = judged(lines)
    (finding,) = history.findings
    assert (finding.kind, finding.level, finding.closed_at) == ("wrong_results", "critical", None)
    assert "3 of the last 9 runs" in finding.detail
    assert str(64 << 20) in finding.evidence
    assert verdicts_of(history)[3] == ("failed", "wrong_results")


def test_a_failed_night_is_a_warning_and_a_second_one_critical():
    host = Host()
    failed = host.nights(28, 30, rows=[], outcome="failed")
    (one,) = judged([*learned(host), failed[0]]).findings
    assert (one.kind, one.level, one.confirmed_at) == ("failed", "warning", None)
    (two,) = judged([*learned(host), *failed]).findings
    assert two.level == "critical"
    assert two.confirmed_at is not None
    (over,) = judged([*learned(host), *failed, host.line(30)]).findings
    assert over.closed_at is not None


# Properties


def story(seed):
    """A history in which everything happens: noise, a disturbed night, a step, an upgrade, three collectives."""
    host = Host(seed=seed, noise=0.004)
    lines = []
    for night in range(50):
        for name in ("all_reduce", "all_gather"):
            factor = 0.94 if night >= 40 else 0.9 if night == 33 else 1.0
            nccl = "2.28.9" if night >= 40 else "2.27.3"
            fingerprint = {**FINGERPRINT, "nccl": nccl}
            lines.append(host.line(night, factor=factor, collective=name, fingerprint=fingerprint))
    return lines


def summary(history):
    return (
        [
            (item.at, item.collective, item.assessment.verdict, item.assessment.reason)
            for item in history.verdicts
        ],
        [
            (item.kind, item.first_at, item.confirmed_at, item.closed_at, item.cause)
            for item in history.findings
        ],
    )


@pytest.fixture(scope="module")
def stories():
    return {seed: (lines := story(seed), summary(judged(lines))) for seed in range(3)}


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2), shuffle=st.randoms(use_true_random=False))
def test_the_order_of_the_lines_does_not_matter(stories, seed, shuffle):
    lines, expected = stories[seed]
    shuffled = list(lines)
    shuffle.shuffle(shuffled)
    assert summary(judged(shuffled)) == expected


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2), scale=st.floats(0.01, 100))
def test_scaling_every_value_changes_no_verdict(stories, seed, scale):
    lines, expected = stories[seed]
    scaled = json.loads(json.dumps(lines))
    for line in scaled:
        for row in line["rows"]:
            for placement in ("out_of_place", "in_place"):
                row[placement]["busbw_gbps"] *= scale
                row[placement]["algbw_gbps"] *= scale
                row[placement]["time_us"] /= scale
    assert summary(judged(scaled)) == expected


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2),
    when=st.tuples(st.integers(0, 55), st.integers(-300, 300)),
    factor=st.floats(0.01, 2),
    wrong=st.booleans(),
)
def test_adding_a_tainted_run_changes_nothing(stories, seed, when, factor, wrong):
    lines, (verdicts, findings) = stories[seed]
    night, minutes = when
    tainted = Host(seed=9).line(
        night,
        factor=factor,
        minutes=minutes,
        tainted=True,
        wrong_at=tuple(HEALTHY) if wrong else (),
        fingerprint={"driver": "1"},
        transport="SHM",
    )
    tainted["collective"] = "all_reduce"
    all_verdicts, all_findings = summary(judged([*lines, tainted]))
    assert all_findings == findings
    assert [item for item in all_verdicts if item[3] != "tainted"] == verdicts


@settings(max_examples=30, deadline=None)
@given(factors=st.lists(st.floats(0.3, 3), min_size=1, max_size=25), seed=st.integers(0, 5))
def test_no_history_raises_and_every_line_gets_a_verdict(factors, seed):
    host = Host(seed=seed)
    days = random.Random(seed).choices(range(60), k=len(factors))
    lines = [host.line(day, factor=factor) for day, factor in zip(days, factors, strict=True)]
    assert len(judged(lines).verdicts) == len(lines)


# Documents that are none


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        '{"at": "2026-01-01T00:00:00Z"}',
        '{"at": "yesterday", "sweep": "a", "engine": "b", "gpu_set": "c", "collective": "d"}',
    ],
)
def test_a_line_that_is_no_run_names_its_number(text):
    with pytest.raises(ValueError, match="line 2"):
        judge_history([json.dumps(Host().line(0)), text])


def test_empty_lines_and_an_empty_history_are_fine():
    assert judge_history(["", "  "]).verdicts == ()


def test_an_instant_without_a_zone_is_utc_and_is_given_back_as_written():
    line = Host().line(0)
    line["at"] = "2026-01-01T02:00:00"
    assert judged([line]).verdicts[0].at == "2026-01-01T02:00:00"


def test_an_unknown_collective_is_judged_like_any_other():
    host = Host()
    lines = [{**host.line(night), "collective": "my_pattern"} for night in range(20)]
    assert verdicts_of(judged(lines))[-1] == ("ok", "within_noise")


def test_rows_without_arithmetic_columns_can_be_judged():
    """Another benchmark may know busbw only."""
    lines = Host().nights(0, 20)
    for line in lines:
        for row in line["rows"]:
            for placement in ("out_of_place", "in_place"):
                del row[placement]["algbw_gbps"]
    assert verdicts_of(judged(lines))[-1] == ("ok", "within_noise")


def test_only_small_sizes_are_not_evaluated():
    line = Host().line(0)
    line["rows"] = [make_row(1 << 20, 40.0)]
    assert verdicts_of(judged([line])) == [("not_evaluated", "no_large_sizes")]


def test_night_at_is_what_the_lines_say():
    assert Host().line(3)["at"] == night_at(3)
