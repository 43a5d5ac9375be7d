"""`gpumond sanity` on a made-up host: which GPUs, what is printed, what the exit status says."""

from __future__ import annotations

import json

import pytest

from gpumond.cli.main import main
from gpumond.clock import SystemClock
from gpumond.guards.lock import hold_lock
from gpumond.model.run import Purpose
from gpumond.store.sqlite import Store

CONFIG = """
[store]
directory = "{directory}/state"
min_free = "0"
[benchmark]
lock_file = "{directory}/gpu.lock"
[guards]
quiet_by_hand = "0s"
inhibit_file = "{directory}/inhibit"
"""
SIMULATED = '[simulate]\nscenario = "h200-2-vm"\npace = 1000.0\n'


@pytest.fixture
def sanity(tmp_path, capsys):
    """`sanity(*words, extra=...)` -> exit status, standard output, standard error."""

    def call(*words, extra=SIMULATED):
        config = tmp_path / "config.toml"
        config.write_text(CONFIG.format(directory=tmp_path) + extra)
        code = main(["sanity", "--config", str(config), "--quiet", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_all_gpus_are_asked_and_the_check_belongs_to_no_series(sanity, tmp_path):
    code, out, _ = sanity()
    assert (code, out.splitlines()) == (
        0,
        ["all: 2 GPUs, ok: every rank saw the sum of all (simulated, NCCL 2.28.9)"],
    )
    with Store.open(tmp_path / "state", clock=SystemClock(), read_only=True) as store:
        (run,) = store.runs(limit=9)
        assert run.purpose is Purpose.SANITY
        assert store.latest_points() == ()


def test_any_gpus_can_be_asked(sanity, two_gpus):
    uuid = two_gpus.gpus[1].uuid
    code, out, _ = sanity("--gpu", uuid, "--json")
    assert code == 0
    (run,) = json.loads(out)["runs"]
    assert run["gpu_set"] == {"name": "sanity", "uuids": [uuid]}


def test_what_cannot_be_checked_says_why(sanity, tmp_path):
    code, _, err = sanity("--gpu-set", "numa7")
    assert (code, "no GPU set is called numa7" in err) == (2, True)
    code, out, _ = sanity("--gpu", "GPU-nowhere")
    assert (code, "GPU-nowhere is not on this host" in out) == (2, True)
    with hold_lock(tmp_path / "gpu.lock", purpose="somebody's benchmark", clock=SystemClock()):
        code, out, _ = sanity()
    assert (code, "somebody's benchmark" in out) == (11, True)
