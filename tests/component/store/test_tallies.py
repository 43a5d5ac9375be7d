"""What monitoring remembers of a sweep: counted once, never lowered."""

from __future__ import annotations

from datetime import timedelta

import pytest
from history_values import NIGHT, ended, make_sweep

from gpumond.model.run import SweepOutcome
from gpumond.store.records import SWEEP_PREEMPTIONS, Counter, SweepHistory

SUCCESS, FAILURE, SKIPPED = SweepOutcome.SUCCESS, SweepOutcome.FAILURE, SweepOutcome.SKIPPED


@pytest.fixture
def finish(store):
    def _finish(*outcomes, name="nightly"):
        for night, outcome in enumerate(outcomes):
            word, _, reason = outcome.partition(":")
            sweep = make_sweep(name, NIGHT + timedelta(days=night))
            store.start_sweep(sweep)
            store.finish_sweep(ended(sweep, SweepOutcome(word), reason))
        return store.sweep_history(name)

    return _finish


def test_a_sweep_that_never_ran_is_all_zero(store):
    assert store.sweep_history("nightly") == SweepHistory("nightly")


@pytest.mark.parametrize(
    ("outcomes", "consecutive_failures", "consecutive_skips", "success"),
    [
        (["success"], 0, 0, True),
        (["failure:no_rows"], 1, 0, False),
        (["failure:no_rows", "failure:total_timeout"], 2, 0, False),
        (["failure:no_rows", "success"], 0, 0, True),
        (["skipped:busy"], 0, 1, None),
        (["success", "skipped:busy", "skipped:locked"], 0, 2, True),
        (["failure:no_rows", "skipped:busy"], 1, 1, False),
        (["failure:no_rows", "skipped:busy", "failure:no_rows"], 2, 0, False),
        (["skipped:busy", "success"], 0, 0, True),
    ],
)
def test_runs_of_failures_and_skips(finish, outcomes, consecutive_failures, consecutive_skips, success):
    history = finish(*outcomes)
    assert (history.consecutive_failures, history.consecutive_skips) == (
        consecutive_failures,
        consecutive_skips,
    )
    assert history.last_run_success is success


def test_totals_by_reason_and_the_last_facts(finish):
    history = finish("success", "failure:no_rows", "failure:no_rows", "skipped:busy", "skipped:locked")
    assert history == SweepHistory(
        name="nightly",
        runs=3,
        failures={"no_rows": 2},
        skips={"busy": 1, "locked": 1},
        consecutive_failures=2,
        consecutive_skips=2,
        last_run_at=NIGHT + timedelta(days=2, seconds=20),
        last_run_duration_seconds=20.0,
        last_run_success=False,
        last_success_at=NIGHT + timedelta(seconds=20),
    )


def test_sweeps_are_counted_apart(finish):
    finish("failure:no_rows", name="weekly")
    assert finish("success").failures == {}


def test_a_sweep_is_counted_once_however_often_its_end_is_stored(store):
    """After an error nobody knows whether the commit had reached the disk, so the daemon tries again."""
    sweep = ended(make_sweep())
    for _ in range(3):
        store.finish_sweep(sweep)
    assert store.sweep_history("nightly").runs == 1
    assert store.sweeps(limit=9) == (sweep,)


def test_preemptions_are_a_counter_of_whoever_preempts(store):
    store.increment(SWEEP_PREEMPTIONS, {"sweep": "nightly"})
    store.increment(SWEEP_PREEMPTIONS, {"sweep": "nightly"})
    store.increment(SWEEP_PREEMPTIONS, {"sweep": "weekly"})
    assert store.sweep_history("nightly").preemptions == 2


def test_labels_are_the_same_in_any_order(store):
    store.increment("changes", {"kind": "link_down", "level": "critical"})
    store.increment("changes", {"level": "critical", "kind": "link_down"}, by=1.5)
    assert store.counters() == (Counter("changes", {"kind": "link_down", "level": "critical"}, 2.5),)


def test_a_counter_never_falls(store):
    store.increment("changes")
    with pytest.raises(ValueError, match="cannot grow by -1"):
        store.increment("changes", by=-1)
    assert store.counters()[0].value == 1.0
