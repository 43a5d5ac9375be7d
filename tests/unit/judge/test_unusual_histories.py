"""Histories that an experienced engineer would be asked about, and the answer that they would give, as tables.

Each row: what happened, and every finding as (kind, level, night of its start, night of its confirmation, night of its
end, cause). Nights are counted from the first; None: not confirmed, or still open.
"""

import json
from datetime import timedelta

import pytest
from nightly_history import FINGERPRINT, FIRST_NIGHT, LEARNED, Host, judged, night_at, verdicts_of

DRIVER = {**FINGERPRINT, "driver": "590.12"}
NVSWITCH = {"class": "nvswitch", "links": 18}


def night_of(at):
    return None if at is None else (at - FIRST_NIGHT + timedelta(hours=12)).days


def findings_of(history):
    return {
        (
            item.kind.value,
            item.level.value,
            night_of(item.first_at),
            night_of(item.confirmed_at),
            night_of(item.closed_at),
            item.cause,
        )
        for item in history.findings
    }


def after(*changes, noise=0.002):
    """28 healthy nights, then for each (nights, changes) so many with these."""
    host, lines, night = Host(noise=noise), [], LEARNED
    lines += host.nights(0, LEARNED, **(changes[0][1] if changes and changes[0][0] == 0 else {}))
    for count, change in changes:
        lines += host.nights(night, night + count, **change)
        night += count
    return lines


CASES = {
    "nothing": (after((10, {})), set()),
    "a drop that stays": (after((4, {"factor": 0.95})), {("step", "warning", 28, 29, None, ())}),
    "a drop that ends after five nights: over on the third good one": (
        after((5, {"factor": 0.95}), (5, {})),
        {("step", "warning", 28, 29, 35, ())},
    ),
    "a drop that ends, and comes again": (
        after((5, {"factor": 0.95}), (7, {}), (3, {"factor": 0.95})),
        {("step", "warning", 28, 29, 35, ()), ("step", "warning", 40, 41, None, ())},
    ),
    "a tenth, for one night": (
        after((1, {"factor": 0.88}), (3, {})),
        {("provisional", "info", 28, None, 29, ())},
    ),
    "a tenth that stays": (
        after((2, {"factor": 0.88})),
        {("provisional", "info", 28, 29, 29, ()), ("step", "warning", 28, 29, None, ())},
    ),
    "two low nights that do not look alike are two disturbed ones": (
        after((1, {"factor": 0.95}), (1, {"factor": 0.92}), (3, {})),
        set(),
    ),
    "a new driver that costs nothing": (
        after((10, {"fingerprint": DRIVER})),
        {("baseline_candidate", "info", 28, 34, 34, ("driver",))},
    ),
    "a new driver that is faster is accepted too": (
        after((10, {"fingerprint": DRIVER, "factor": 1.06})),
        {("baseline_candidate", "info", 28, 34, 34, ("driver",))},
    ),
    "what a faster driver gave is missed when it is lost again": (
        after((10, {"fingerprint": DRIVER, "factor": 1.06}), (3, {"fingerprint": DRIVER, "factor": 1.02})),
        {
            ("baseline_candidate", "info", 28, 34, 34, ("driver",)),
            ("step", "warning", 38, 39, None, ()),
        },
    ),
    "a new driver that costs a twentieth": (
        after((10, {"fingerprint": DRIVER, "factor": 0.95})),
        {
            ("step", "warning", 28, 29, None, ("driver",)),
            ("baseline_candidate", "warning", 28, None, None, ("driver",)),
        },
    ),
    "a drop after three good nights is not the new driver's": (
        after((3, {"fingerprint": DRIVER}), (3, {"fingerprint": DRIVER, "factor": 0.95})),
        {
            ("step", "warning", 31, 32, None, ()),
            ("baseline_candidate", "info", 28, None, None, ("driver",)),
        },
    ),
    "a drop on the night on which the new driver is accepted": (
        after((6, {"fingerprint": DRIVER}), (3, {"fingerprint": DRIVER, "factor": 0.95})),
        {
            ("baseline_candidate", "info", 28, 34, 34, ("driver",)),
            ("step", "warning", 34, 35, None, ()),
        },
    ),
    "a variable that somebody set": (
        after((2, {"fingerprint": {**FINGERPRINT, "env.NCCL_P2P_DISABLE": "1"}, "factor": 0.95})),
        {
            ("step", "warning", 28, 29, None, ("env.NCCL_P2P_DISABLE",)),
            ("baseline_candidate", "info", 28, None, None, ("env.NCCL_P2P_DISABLE",)),
        },
    ),
    "inputs that were not recorded are no change": (after((10, {"fingerprint": {}})), set()),
    "several inputs at once: hardware, library, driver, the rest": (
        after(
            (
                2,
                {
                    "fingerprint": {
                        "driver": "1",
                        "nccl": "1",
                        "kernel": "1",
                        "gpu_uuids": "GPU-a,GPU-c",
                        "topology_hash": "t1",
                    },
                    "factor": 0.95,
                },
            )
        ),
        {
            ("step", "warning", 28, 29, None, ("gpu_uuids", "nccl", "driver", "kernel")),
            ("baseline_candidate", "warning", 28, None, None, ("gpu_uuids", "nccl", "driver", "kernel")),
        },
    ),
    "a link that is lost": (
        after((0, {"topology": NVSWITCH}), (2, {"topology": {**NVSWITCH, "links": 17}, "factor": 17 / 18})),
        {
            ("step", "warning", 28, 29, None, ("topology.links",)),
            ("baseline_candidate", "warning", 28, None, None, ("topology.links",)),
        },
    ),
    "a link that is lost, with a fingerprint that knows the topology": (
        after(
            (0, {"topology": NVSWITCH}),
            (
                2,
                {
                    "topology": {**NVSWITCH, "links": 17},
                    "fingerprint": {**FINGERPRINT, "topology_hash": "t2"},
                    "factor": 17 / 18,
                },
            ),
        ),
        {
            ("step", "warning", 28, 29, None, ("topology_hash",)),
            ("baseline_candidate", "warning", 28, None, None, ("topology_hash",)),
        },
    ),
    "another path at the same speed": (
        after((0, {"transport": "P2P/CUMEM:48"}), (2, {"transport": "SHM/direct:4"})),
        {("transport_change", "warning", 28, 28, None, ())},
    ),
    "a path that is back": (
        after(
            (0, {"transport": "P2P/CUMEM:48"}), (2, {"transport": "SHM"}), (2, {"transport": "P2P/CUMEM:48"})
        ),
        {("transport_change", "warning", 28, 28, 30, ())},
    ),
    "a better path is worth a line, not a warning": (
        after((0, {"transport": "SHM"}), (2, {"transport": "P2P"})),
        {("transport_change", "info", 28, 28, None, ())},
    ),
    "a path that changes while a baseline is learned is not learned": (
        [
            *Host().nights(0, 10, transport="P2P"),
            *Host(seed=2).nights(10, 12, transport="SHM"),
        ],
        {("transport_change", "warning", 10, 10, None, ())},
    ),
    "a path that changes in the first nights begins the learning anew": (
        [*Host().nights(0, 3, transport="SHM"), *Host(seed=2).nights(3, 20, transport="P2P")],
        set(),
    ),
    "corrupt data outranks the drop": (
        after((2, {"factor": 0.5, "wrong_at": (1 << 30,)})),
        {("wrong_results", "critical", 28, 28, None, ())},
    ),
    "corrupt data that only the footer tells": (
        after((1, {"outcome": "wrong_results"})),
        {("wrong_results", "critical", 28, 28, None, ())},
    ),
    "corrupt data is forgotten after fourteen clean runs": (
        after((1, {"wrong_at": (1 << 30,)}), (14, {})),
        {("wrong_results", "critical", 28, 28, 42, ())},
    ),
    "corrupt data since the night of an upgrade": (
        after((2, {"fingerprint": {**FINGERPRINT, "nccl": "2.28.9"}, "wrong_at": (1 << 20,)})),
        {("wrong_results", "critical", 28, 28, None, ("nccl",))},
    ),
    "a benchmark that fails since the night of an upgrade": (
        after((2, {"fingerprint": DRIVER, "rows": [], "outcome": "failed"})),
        {("failed", "critical", 28, 29, None, ("driver",))},
    ),
    "corrupt data long after an upgrade": (
        after((9, {"fingerprint": DRIVER}), (1, {"fingerprint": DRIVER, "wrong_at": (1 << 20,)})),
        {
            ("baseline_candidate", "info", 28, 34, 34, ("driver",)),
            ("wrong_results", "critical", 37, 37, None, ()),
        },
    ),
    "a benchmark that fails twice": (
        after((2, {"rows": [], "outcome": "failed"}), (1, {})),
        {("failed", "critical", 28, 29, 30, ())},
    ),
    "tainted nights at half the speed, then a real loss": (
        after((4, {"factor": 0.5, "tainted": True}), (2, {"factor": 0.95})),
        {("step", "warning", 32, 33, None, ())},
    ),
    "heat or power holds the GPUs back": (
        after((2, {"factor": 0.94, "throttled": "GPU-a: power brake"})),
        {("step", "warning", 28, 29, None, ())},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name):
    lines, expected = CASES[name]
    assert findings_of(judged(lines)) == expected


def test_a_history_that_begins_with_a_host_far_below_its_links():
    low = Host().nights(0, 2, factor=0.4, topology=NVSWITCH)
    history = judged(low)
    assert verdicts_of(history) == [("degraded", "below_model")] * 2
    assert [item.assessment.basis.value for item in history.verdicts] == ["model"] * 2
    assert findings_of(history) == {
        ("provisional", "info", 0, 1, 1, ()),
        ("step", "warning", 0, 1, None, ()),
    }
    mended = judged(low + Host().nights(2, 30, topology=NVSWITCH))
    assert ("step", "warning", 0, 1, 2, ()) in findings_of(mended)
    assert verdicts_of(mended)[-1] == ("ok", "within_noise")


@pytest.mark.parametrize("noise", [0.001, 0.0025, 0.005, 0.01])
def test_a_slow_decline_ends_up_as_a_drift_and_only_as_that(noise):
    host = Host(noise=noise)
    lines = host.nights(0, LEARNED) + [host.line(28 + day, factor=1 - 0.002 * (day + 1)) for day in range(20)]
    history = judged(lines)
    still_open = [item for item in history.findings if item.closed_at is None]
    assert [item.kind.value for item in still_open] == ["drift"]
    assert {item.kind.value for item in history.findings} <= {"drift", "step"}
    assert still_open[0].first_at >= FIRST_NIGHT + timedelta(days=27)
    assert night_of(still_open[0].confirmed_at) <= 28 + 11
    last = history.verdicts[-1].assessment
    assert (last.verdict.value, str(last.reason)) == ("degraded", "drift")


def test_an_open_step_says_how_low_it_is_now_and_blames_nothing_that_changed_later():
    lines = after((3, {"factor": 0.95}), (3, {"factor": 0.7, "fingerprint": DRIVER}))
    step = next(item for item in judged(lines).findings if item.kind == "step")
    assert "at 70" in step.detail
    assert step.cause == ()
    assert night_of(step.last_at) == 33


def test_a_step_of_two_engines_and_two_gpu_sets_belongs_to_the_one_that_shows_it():
    host = Host()
    lines = [
        host.line(
            night,
            engine=engine,
            gpu_set=gpu_set,
            factor=0.93 if night >= 28 and (engine, gpu_set) == ("torch", "numa0") else 1.0,
        )
        for night in range(30)
        for engine in ("nccl-tests", "torch")
        for gpu_set in ("all", "numa0")
    ]
    history = judged(lines)
    (step,) = history.findings
    assert step.subject.startswith("nightly/torch/numa0 since ")
    degraded = {
        (item.engine, item.gpu_set)
        for item in history.verdicts
        if item.assessment.verdict.value == "degraded"
    }
    assert degraded == {("torch", "numa0")}


@pytest.mark.parametrize(("later", "groups"), [(0, 1), (1, 1), (3, 1), (14, 2)])
def test_collectives_that_drop_within_days_are_one_event(later, groups):
    host = Host()
    lines = [
        host.line(night, collective=name, factor=0.95 if night >= first else 1.0)
        for night in range(50)
        for name, first in (("all_reduce", 28), ("all_gather", 28 + later))
    ]
    steps = [set(item.collectives) for item in judged(lines).findings]
    both = {"all_reduce", "all_gather"}
    assert steps == ([both] if groups == 1 else [{"all_reduce"}, {"all_gather"}])


@pytest.mark.parametrize(("days", "is_found"), [(6, True), (7, True), (9, False)])
def test_two_low_nights_around_a_gap(days, is_found):
    host = Host()
    lines = [*host.nights(0, LEARNED), host.line(28, factor=0.95), host.line(28 + days, factor=0.95)]
    assert bool(judged(lines).findings) is is_found


def test_reruns_that_are_all_low_are_one_night():
    host = Host()
    first = host.line(28, factor=0.88)
    again = [host.line(28, minutes=12 * count, factor=0.88, rerun_of=first["at"]) for count in range(1, 6)]
    one_night = judged([*host.nights(0, LEARNED), first, *again])
    assert findings_of(one_night) == {("provisional", "info", 28, None, None, ())}
    assert verdicts_of(one_night)[-6:] == [("degraded", "severe")] * 6


def test_a_rerun_of_the_next_morning_still_clears_its_night():
    host = Host()
    lines = [*host.nights(0, LEARNED), host.line(28, factor=0.88)]
    lines.append(host.line(28, minutes=7 * 60, rerun_of=night_at(28)))
    history = judged(lines)
    assert verdicts_of(history)[-2:] == [("not_evaluated", "disturbed"), ("ok", "within_noise")]
    assert findings_of(history) == set()


def without(line, *sizes):
    return {**line, "rows": [row for row in line["rows"] if row["bytes"] not in sizes]}


def test_ladders():
    """A small size that is missing changes no score, a large one does; more sizes than before are not needed."""
    host = Host()
    past = host.nights(0, LEARNED)
    small = judged([*past, *(without(line, 8) for line in host.nights(28, 30, factor=0.93))])
    large = judged([*past, *(without(line, 2 << 30) for line in host.nights(28, 31, factor=0.93))])
    more = judged([without(line, 2 << 30) for line in past] + host.nights(28, 30, factor=0.93))
    assert [item.kind.value for item in small.findings] == ["step"]
    assert large.findings == ()
    assert [reason for _, reason in verdicts_of(large)[-3:]] == ["fewer_rows"] * 3
    assert [item.kind.value for item in more.findings] == ["step"]


def test_in_place_alone_is_judged_too():
    lines = after((2, {"factor": 0.95}))
    for line in lines:
        for row in line["rows"]:
            row["out_of_place"] = None
    assert [item.kind.value for item in judged(lines).findings] == ["step"]


def test_a_gpu_less_is_a_series_of_its_own():
    """7 of 8 H200s cost all_reduce 2.8 %: no verdict may come from the old series, and none from too few nights."""
    lines = Host().nights(0, LEARNED) + Host(ranks=7).nights(28, 32, factor=0.97)
    history = judged(lines)
    assert {reason for _, reason in verdicts_of(history)[-4:]} == {"fewer_ranks"}
    assert history.findings == ()


def test_zero_and_negative_values_teach_nothing():
    host = Host()
    bad = host.nights(0, 5, factor=0.0) + host.nights(5, 10, factor=-1.0)
    history = judged(bad + host.nights(10, 10 + LEARNED))
    assert verdicts_of(history)[:10] == [("not_evaluated", "unreadable_rows")] * 10
    assert verdicts_of(history)[-1] == ("ok", "within_noise")


def test_the_sentence_names_what_is_no_input():
    lines = after((0, {"transport": "P2P/CUMEM:48"}), (2, {"transport": "SHM:4", "factor": 0.5}))
    step = next(item for item in judged(lines).findings if item.kind == "step")
    assert "changed: transport P2P/CUMEM:48 -> SHM:4" in step.detail
    held = judged(after((2, {"factor": 0.94, "throttled": "GPU-a: power brake"})))
    assert verdicts_of(held)[-2:] == [("degraded", "throttled")] * 2
    assert "throttled (GPU-a: power brake)" in held.findings[0].detail
    busy = judged(after((2, {"factor": 0.94, "cpu_load_per_core": 0.9})))
    assert "changed: CPU load 0.90 a core" in busy.findings[0].detail


def test_a_throttled_night_that_is_good_is_good_and_is_not_learned():
    lines = after((1, {"throttled": "GPU-a: power brake"}))
    with_it, without_it = judged(lines), judged(lines[:-1])
    assert verdicts_of(with_it)[-1] == ("ok", "within_noise")

    def baselines(history):
        return [track.baseline for memory in history.memories.values() for track in memory.tracks.values()]

    assert baselines(with_it) == baselines(without_it)


def test_the_night_that_ends_an_alarm_is_not_learned():
    """It was chosen for being good: noise learned from such nights is too small."""
    lines = after((2, {"factor": 0.95}), (3, {}))

    def scores(history):
        (memory,) = history.memories.values()
        (track,) = memory.tracks.values()
        return len(track.baseline.scores)

    assert scores(judged(lines)) == scores(judged(lines[:LEARNED])) == LEARNED
    host = Host()
    assert scores(judged(lines + host.nights(33, 34))) == LEARNED + 1


def test_keys_that_nobody_knows_are_ignored():
    line = {**Host().line(0), "comment": "from a ticket", "rows": Host().line(0)["rows"]}
    assert verdicts_of(judged([json.loads(json.dumps(line))])) == [("not_evaluated", "learning")]
