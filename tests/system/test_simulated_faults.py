"""A made-up host that breaks under a running daemon, as `gpumond demo --fault` shows it."""

from __future__ import annotations

from daemon_process import wait_until

CONFIG = """
[simulate]
scenario = "h200-2-vm"
faults = ["gpu_lost,gpu=1,after_seconds={seconds}"]
"""
XID = "gpumond_gpu_xid_last_timestamp_seconds"


def lost(daemon):
    return daemon.value("gpumond_gpu_present", gpu="1") == 0


def test_a_fault_strikes_when_its_time_has_come_and_the_kernel_tells_of_it(write_config, daemons):
    daemon = daemons(write_config(CONFIG.format(seconds=20))).start()
    assert daemon.value("gpumond_gpu_present", gpu="1") == 1
    assert daemon.value(XID, gpu="1", xid="79", level="critical") is None
    wait_until(lambda: lost(daemon), seconds=60, what="the loss of GPU 1")
    wait_until(lambda: daemon.value(XID, gpu="1", xid="79", level="critical"), what="the Xid")
    opened = {"kind": "gpu_missing", "level": "critical"}
    wait_until(lambda: daemon.value("gpumond_topology_open_changes", **opened) == 1, what="the change")
    assert daemon.terminate() == 0


def test_a_fault_that_nobody_knows_is_refused_at_the_start(write_config, daemons):
    config = write_config(CONFIG.format(seconds=0).replace("gpu_lost", "gremlins"))
    daemon = daemons(config)
    daemon.launch()
    assert daemon.process.wait(60) == 2
    assert "unknown fault 'gremlins'" in daemon.log.read_text()
