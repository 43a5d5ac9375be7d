"""The pause, the findings, and how long the GPUs took to be given back."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families
from status import two_gpu_status

from gpumond.exporter.metrics import Exposition
from gpumond.exporter.negotiate import Format
from gpumond.model.change import Level
from gpumond.model.finding import LEVELS, Finding, FindingKind
from gpumond.model.status import PREEMPTION_BOUNDS_SECONDS, DurationCounts, Pause

NOW = datetime(2026, 11, 29, 2, tzinfo=UTC)
HANG = Finding(FindingKind.HANG, LEVELS[FindingKind.HANG], "all", "it hangs", "", NOW, NOW)


def samples(status):
    text = Exposition().render_steady(status, Format.TEXT).text.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("pause", [None, Pause(NOW, "root", "maintenance")])
def test_a_pause_shows(pause):
    assert samples(replace(two_gpu_status(), pause=pause))["gpumond_paused", ()] == (pause is not None)


def test_every_known_kind_of_finding_has_a_sample_and_open_ones_are_counted():
    found = samples(replace(two_gpu_status(), findings=(HANG, replace(HANG, subject="numa0"))))
    of_kind = {
        dict(labels)["kind"]: value for (name, labels), value in found.items() if name == "gpumond_finding"
    }
    assert of_kind["hang"] == 2
    assert of_kind["p2p_path"] == 0
    assert set(of_kind) == {kind.value for kind in FindingKind}


def test_a_finding_of_another_level_has_a_series_of_its_own():
    other = replace(HANG, level=Level.INFO)
    found = samples(replace(two_gpu_status(), findings=(other,)))
    assert found["gpumond_finding", (("kind", "hang"), ("level", "info"))] == 1
    assert found["gpumond_finding", (("kind", "hang"), ("level", "critical"))] == 0


def test_the_histogram_adds_up_as_prometheus_wants_it():
    counts = [0] * (len(PREEMPTION_BOUNDS_SECONDS) + 1)
    counts[2], counts[5], counts[-1] = 3, 2, 1
    status = replace(
        two_gpu_status(),
        preemptions=DurationCounts(PREEMPTION_BOUNDS_SECONDS, tuple(counts), sum_seconds=17.5),
    )
    found = samples(status)
    assert found["gpumond_preemption_seconds_bucket", (("le", "0.2"),)] == 0
    assert found["gpumond_preemption_seconds_bucket", (("le", "0.3"),)] == 3
    assert found["gpumond_preemption_seconds_bucket", (("le", "1.0"),)] == 5
    assert found["gpumond_preemption_seconds_bucket", (("le", "+Inf"),)] == 6
    assert found["gpumond_preemption_seconds_count", ()] == 6
    assert found["gpumond_preemption_seconds_sum", ()] == 17.5
