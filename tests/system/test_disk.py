"""A disk that fills up under a running daemon, on a small file system of its own."""

import subprocess

import pytest
from daemon_process import wait_until

from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults

pytestmark = pytest.mark.system


@pytest.fixture
def small_disk(tmp_path):
    directory = tmp_path / "state"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)], check=True)
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(path):
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def test_a_full_disk_hides_no_hardware_and_loses_nothing(small_disk, write_config, daemons, fake_nvml):
    scenario = load_scenario("h200-2-vm")
    driver = fake_nvml.host(scenario)
    daemon = daemons(write_config(), driver.environment).start()
    assert daemon.value("gpumond_state_write_success") == 1

    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        fill(ballast)
    driver.show(with_faults(scenario, [parse_fault("link_down,gpu=0,link=3")]))
    wait_until(
        lambda: daemon.value("gpumond_gpu_link_up", gpu="0", link="3") == 0, what="the link that is down"
    )
    wait_until(lambda: daemon.value("gpumond_state_write_success") == 0, seconds=60, what="the full disk")
    assert daemon.get("/-/healthy")[0] == 200

    ballast.unlink()
    wait_until(lambda: daemon.value("gpumond_state_write_success") == 1, seconds=60, what="the freed disk")
    assert daemon.terminate() == 0
    again = daemons(daemon.config, driver.environment).start()
    assert again.value("gpumond_gpus_expected") == 2
