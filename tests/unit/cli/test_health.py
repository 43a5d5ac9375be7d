"""What is called healthy, what is not, and what nobody can say; and the same as Nagios hears it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.cli.health import Doubt, HostRecord, age_text, assess
from gpumond.cli.nagios import NagiosState, render, render_unknown, state_of
from gpumond.model.benchmark import Collective
from gpumond.model.change import Change, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.run import Engine, Verdict
from gpumond.model.status import CollectiveScore, CollectiveVerdict, InventoryEntry

NOW = datetime(2026, 11, 29, 8, 0, tzinfo=UTC)
LONGEST_SECONDS = 240.0
FRESH = NOW - timedelta(seconds=20)
GPUS = tuple(
    InventoryEntry(number, GpuUuid(f"GPU-{number}"), PciBusId(f"0000:0{number}:00.0"), "NVIDIA H200")
    for number in range(2)
)


def verdict(value=Verdict.OK, reason="", collective=Collective.ALL_REDUCE):
    return CollectiveVerdict("nightly", Engine.NCCL_TESTS, "all", collective, value, reason)


def change(kind=ChangeKind.GPU_MISSING, level=Level.CRITICAL, sentence="GPU 1 is missing"):
    return OpenChange(
        Change(kind, level, Subject(SubjectKind.GPU, ("GPU-1",)), sentence, "here", "gone"), FRESH
    )


def finding(kind=FindingKind.STEP, level=Level.WARNING, confirmed_at=FRESH):
    return Finding(kind, level, "all", f"{kind.value} it is", "", FRESH, FRESH, confirmed_at=confirmed_at)


def record(**changes):
    known = {
        "at": NOW,
        "verdicts": (verdict(),),
        "inventory": GPUS,
        "daemon_seen_at": FRESH,
        "gpus_seen_at": FRESH,
    }
    return HostRecord(**known | changes)


def look(fail_on=Level.WARNING, **changes):
    return assess(record(**changes), fail_on=fail_on, snapshot_seconds_max=LONGEST_SECONDS)


def test_a_healthy_host():
    report = look()
    assert (report.verdict, report.reason, report.is_failing) == (Verdict.OK, "", False)
    assert report.detail == "2 GPUs as accepted; 1 of 1 collectives as fast as their baseline"


LEARNING = verdict(Verdict.NOT_EVALUATED, "learning")


@pytest.mark.parametrize(
    ("changes", "reason", "state"),
    [
        ({"daemon_seen_at": None}, Doubt.NO_DATA, NagiosState.UNKNOWN),
        ({"gpus_seen_at": None}, Doubt.NO_DATA, NagiosState.UNKNOWN),
        ({"daemon_seen_at": NOW - timedelta(seconds=301)}, Doubt.STALE, NagiosState.UNKNOWN),
        ({"daemon_seen_at": NOW - timedelta(seconds=299)}, "", NagiosState.OK),
        ({"gpus_seen_at": NOW - timedelta(seconds=241)}, Doubt.UNREADABLE, NagiosState.UNKNOWN),
        ({"gpus_seen_at": NOW - timedelta(seconds=241), "is_measuring": True}, "", NagiosState.OK),
        ({"daemon_seen_at": NOW + timedelta(days=1)}, "", NagiosState.OK),  # the clock was set back
        ({"verdicts": ()}, Doubt.NOT_MEASURED, NagiosState.OK),
        ({"verdicts": (LEARNING,)}, Doubt.LEARNING, NagiosState.OK),
        ({"verdicts": (LEARNING, verdict())}, "", NagiosState.OK),
        ({"verdicts": (verdict(Verdict.NOT_EVALUATED, "tainted"),)}, "tainted", NagiosState.OK),
        ({"findings": (finding(confirmed_at=None),)}, Doubt.UNCONFIRMED, NagiosState.OK),
        (
            {"changes": (change(ChangeKind.VISIBILITY_LOST, Level.WARNING),)},
            Doubt.UNREADABLE,
            NagiosState.UNKNOWN,
        ),
    ],
)
def test_what_is_not_evaluated_never_fails_and_says_why(changes, reason, state):
    report = look(fail_on=Level.INFO, **changes)
    assert (report.reason, report.is_failing) == (reason, False)
    assert report.verdict is (Verdict.NOT_EVALUATED if reason else Verdict.OK)
    assert state_of(report) is state


@pytest.mark.parametrize(
    ("changes", "verdict_", "reason", "fails_at"),
    [
        ({"changes": (change(),)}, Verdict.FAILED, "gpu_missing", Level.CRITICAL),
        ({"findings": (finding(),)}, Verdict.DEGRADED, "step", Level.WARNING),
        ({"findings": (finding(), finding(FindingKind.WRONG_RESULTS, Level.CRITICAL))}, Verdict.FAILED, "wrong_results", Level.CRITICAL),
        ({"findings": (finding(FindingKind.HANG, Level.CRITICAL, None),)}, Verdict.FAILED, "hang", Level.CRITICAL),
        ({"changes": (change(ChangeKind.GPU_ADDED, Level.INFO),)}, Verdict.OK, "", Level.INFO),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fail_on", list(Level))
def test_confirmed_trouble_fails_at_its_level_and_above(changes, verdict_, reason, fails_at, fail_on):
    report = look(fail_on, **changes)
    assert (report.verdict, report.reason) == (verdict_, reason)
    levels = list(Level)
    assert report.is_failing == (levels.index(fails_at) >= levels.index(fail_on))


def test_trouble_outlives_the_daemon_and_says_how_old_the_news_is():
    report = look(changes=(change(),), daemon_seen_at=NOW - timedelta(hours=5))
    assert report.is_failing
    assert report.detail == "GPU 1 is missing (the daemon has been silent for 5 h)"


def test_the_worst_comes_first_and_what_is_confirmed_before_what_is_not():
    report = look(
        findings=(finding(FindingKind.FAILED, Level.CRITICAL, None), finding()), changes=(change(),)
    )
    assert [trouble.kind for trouble in report.troubles] == ["gpu_missing", "step", "failed"]


@given(
    levels=st.lists(st.tuples(st.sampled_from(Level), st.booleans()), max_size=4),
    fail_on=st.sampled_from(Level),
    daemon_age=st.integers(0, 10_000),
)
def test_nothing_but_confirmed_trouble_of_that_level_fails(levels, fail_on, daemon_age):
    findings = tuple(finding(level=level, confirmed_at=FRESH if sure else None) for level, sure in levels)
    report = look(fail_on, findings=findings, daemon_seen_at=NOW - timedelta(seconds=daemon_age))
    order = list(Level)
    assert report.is_failing == any(
        sure and order.index(level) >= order.index(fail_on) for level, sure in levels
    )
    assert state_of(report) in NagiosState
    assert (state_of(report) in {NagiosState.WARNING, NagiosState.CRITICAL}) == report.is_failing


# --- Nagios ---

PERFORMANCE = re.compile(r"(?:'[^'=]+'|[^ '=]+)=-?[0-9.]+(?:s|%|B|c|us|ms)?(?:;[0-9.]*){0,4}")


def test_nagios_reads_one_line_with_performance_data():
    score = CollectiveScore("nightly", Engine.NCCL_TESTS, "all", Collective.ALL_REDUCE, 0.9712)
    report = look(findings=(finding(),), scores=(score,))
    first, *rest = render(report, Level.WARNING).splitlines()
    text, bar, performance = first.partition(" | ")
    assert text == "GPUMOND WARNING: degraded (step): step it is"
    assert bar
    words = re.findall(r"(?:'[^']+'|[^ '])+", performance)
    assert all(PERFORMANCE.fullmatch(word) for word in words), words
    assert "findings_warning=1;;;0" in words
    assert "'score nightly/nccl-tests/all/all_reduce'=0.9712;;;0" in words
    assert rest == ["warning, step, since 2026-11-29 07:59Z: step it is"]


def test_nothing_in_a_sentence_can_end_the_line_or_begin_performance_data():
    report = look(changes=(change(sentence="a | b=1\nc\x1b[31m"),))
    first, *_ = render(report, Level.WARNING).splitlines()
    assert first.count("|") == 1
    assert first.startswith("GPUMOND CRITICAL: failed (gpu_missing): a / b=1 c")
    assert "\x1b" not in render(report, Level.WARNING)
    assert render_unknown("no\nhistory | here") == "GPUMOND UNKNOWN: no history / here"


def test_trouble_below_the_level_is_shown_and_is_ok():
    report = look(Level.CRITICAL, findings=(finding(),))
    assert state_of(report) is NagiosState.OK
    assert "below the level asked for" in render(report, Level.CRITICAL)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 days")]
)
def test_ages(seconds, text):
    assert age_text(seconds) == text
