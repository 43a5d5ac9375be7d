"""The packaged measurements and the link model: what is in them, and that no published result is called degraded."""

import pytest
from nightly_history import Host, judged, make_row, verdicts_of

from gpumond.judge.reference import LINK_MODELS, find, link_model_busbw, measurements
from gpumond.topology.expected import RING_MODELS

CLASSES = {
    "HGX": ("nvswitch", 18),
    "GB200": ("nvswitch", 18),
    "MI": ("xgmi", 7),
    "A100 PCIe": ("nvlink-partial", 12),
}
LINKS = {"A100": 12, "H800": 8}


def topology_of(platform):
    """What gpumond would find on such a host."""
    for word, (topology_class, links) in CLASSES.items():
        if word in platform:
            return {
                "class": topology_class,
                "links": next((count for name, count in LINKS.items() if name in platform), links),
            }
    return {"class": "pcie-p2p", "links": 0}


def test_the_table_holds_measurements_with_sources_only():
    assert len(measurements()) == 109
    for item in measurements():
        assert item.busbw_bytes_per_second > 1e9
        assert item.source
        assert "threshold" not in item.note
        assert item.gpus >= 2


@pytest.mark.parametrize("with_name", [True, False])
@pytest.mark.parametrize(
    "item", measurements(), ids=lambda item: f"{item.platform}-{item.gpus}-{item.size_bytes}"
)
def test_no_published_result_is_degraded_on_a_first_night(item, with_name):
    size = item.size_bytes or 8 << 30
    line = Host(ranks=item.gpus).line(0, collective=item.collective)
    line["rows"] = [
        make_row(size, item.busbw_bytes_per_second / 1e9, collective=item.collective, ranks=item.gpus)
    ]
    line["topology"] = topology_of(item.platform)
    if with_name:
        line["topology"]["gpu_model"] = item.platform
    assert verdicts_of(judged([line]))[0][0] == "not_evaluated"


def first_night(factor, **topology):
    host = Host(noise=0.0)
    return judged(host.nights(0, 3, factor=factor, topology={"class": "nvswitch", "links": 18, **topology}))


def test_half_a_host_is_seen_on_its_first_night_and_is_a_step_on_its_second():
    history = first_night(0.5)
    assert verdicts_of(history) == [("degraded", "below_model")] * 3
    assert [(item.kind, item.confirmed_at is not None) for item in history.findings] == [
        ("provisional", True),
        ("step", True),
    ]
    first = history.verdicts[0].assessment
    assert (first.basis, round(first.score, 2)) == ("model", 0.68)


def test_a_quarter_is_within_what_a_model_can_tell():
    assert verdicts_of(first_night(0.62)) == [("not_evaluated", "learning")] * 3


def test_what_is_below_the_model_is_never_learned():
    host = Host(noise=0.0)
    topology = {"class": "nvswitch", "links": 18}
    history = judged(host.nights(0, 30, factor=0.5, topology=topology))
    assert verdicts_of(history)[-1] == ("degraded", "below_model")


@pytest.mark.parametrize(
    ("topology", "ranks", "collective", "expected_gbps"),
    [
        ({"class": "nvswitch", "links": 18}, 8, "all_reduce", 344.8),
        ({"class": "nvswitch", "links": 18, "gpu_model": "NVIDIA H200"}, 8, "all_reduce", 359.7),
        ({"class": "nvswitch", "links": 18, "gpu_model": "NVIDIA B200"}, 8, "all_gather", 671.3),
        ({"class": "nvswitch", "links": "NV17", "gpu_model": "NVIDIA H200"}, 8, "all_reduce", 339.7),
        ({"class": "nvswitch", "links": [18, 18, 17], "gpu_model": "H100"}, 8, "all_reduce", 339.7),
        (
            {"class": "nvswitch", "links": {"GPU-a": 18, "GPU-b": 9}, "gpu_model": "H100"},
            8,
            "all_reduce",
            179.8,
        ),
        ({"class": "xgmi", "links": 7, "gpu_model": "AMD Instinct MI300X"}, 8, "all_reduce", 312.5),
        ({"class": "xgmi", "links": 7, "gpu_model": "AMD Instinct MI300X"}, 2, "all_reduce", 44.6),
        ({"class": "nvswitch", "links": 18, "gpu_model": "NVIDIA H800"}, 8, "all_reduce", None),
        ({"class": "nvswitch", "links": 18, "gpu_model": "A100"}, 8, "all_reduce", 232.8),  # it has twelve
        ({"class": "nvswitch", "links": 18}, 16, "all_reduce", None),  # several hosts
        ({"class": "nvswitch", "links": 18}, 8, "broadcast", None),
        ({"class": "nvswitch", "links": 18}, 2, "all_gather", None),
        ({"class": "nvswitch"}, 8, "all_reduce", None),
        ({"class": "nvswitch", "links": 0}, 8, "all_reduce", None),
        ({"class": "nvswitch", "links": {}}, 8, "all_reduce", None),
        ({"class": "nvswitch", "links": True}, 8, "all_reduce", None),
        ({"class": "nvlink-partial", "links": 12}, 2, "all_reduce", None),
        ({}, 8, "all_reduce", None),
    ],
)
def test_the_link_model(topology, ranks, collective, expected_gbps):
    found = link_model_busbw(topology, {}, collective, ranks)
    assert found is None if expected_gbps is None else found == pytest.approx(expected_gbps * 1e9, rel=1e-3)


def test_both_models_of_a_ring_say_the_same():
    """The exporter's needs a snapshot, this one a few words; the constants are of the same source."""
    ours = {model.product: model for model in LINK_MODELS}
    for model in RING_MODELS:
        mine = ours[model.product]
        assert (mine.link_bytes_per_second, mine.fraction) == (model.link_bytes_per_second, model.fraction)


def test_find_wants_every_word():
    assert {item.platform for item in find("azure h200")} == {"HGX H200 (Azure ND H200 v5)"}
    assert find("abacus") == ()
    assert find("") == measurements()
