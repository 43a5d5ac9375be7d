"""The probe on AMD hosts that are not as they should be: with the real amdsmi, on the fake library and a sysfs tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import fields, replace
from importlib.util import find_spec

import pytest

from gpumond import codec
from gpumond.clock import SystemClock
from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Unreadable, UnreadableReason, Value
from gpumond.model.topology import P2pStatus, Snapshot, Vendor
from gpumond.probe import amd
from gpumond.probe.amd import AmdSmiLibrary
from gpumond.probe.launcher import ProbeFailure, ProbeLauncher, default_probe_command
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.sysfs import write_sysfs
from gpumond.topology.classify import classify_snapshot

PATIENT_SECONDS = 60.0
HASTY_SECONDS = 3.0
PATH = "/usr/bin:/bin"
NO_ROCM = {"ROCM_PATH": "/nowhere"}


@pytest.fixture
def take(fake_amdsmi, tmp_path):
    """`take("gpu_lost,gpu=1")` -> what the launcher made of the probe's run on eight MI300X with these faults.

    `environment` is there instead of the fake library's.
    """

    def take(*faults, change=None, environment=None, deadline_seconds=PATIENT_SECONDS):
        host = with_faults(load_scenario("mi300x-8"), [parse_fault(fault) for fault in faults])
        host = host if change is None else change(host)
        roots = write_sysfs(host, tmp_path / f"roots-{len(list(tmp_path.iterdir()))}")
        launcher = ProbeLauncher(
            (*default_probe_command(), "--sysfs", str(roots.sysfs), "--proc", str(roots.proc)),
            {"PATH": PATH, **(fake_amdsmi.environment(host) | (environment or {}))},
            deadline_seconds=deadline_seconds,
            clock=SystemClock(),
        )
        return launcher.take()

    return take


def snapshot_of(result) -> Snapshot:
    assert result.snapshot is not None, result.detail
    return result.snapshot


def test_without_amdsmi_kfd_tells_who_is_there_and_how_they_are_connected(take):
    whole = snapshot_of(take())
    bare = snapshot_of(take(environment=NO_ROCM))
    assert bare.driver == whole.driver == Value("6.12.12")
    assert isinstance(bare.host.driver_library_version, Unreadable)
    assert bare.host.driver_library_version.reason is UnreadableReason.NO_LIBRARY
    assert "libamd_smi.so" in bare.host.driver_library_version.detail
    assert classify_snapshot(bare) == classify_snapshot(whole)
    assert [gpu.uuid for gpu in bare.gpus] == [gpu.uuid for gpu in whole.gpus]


def test_a_library_that_breaks_overnight_changes_no_fact(take):
    """Each field is what it was, or could not be read: never another value, never suddenly not supported."""
    whole, bare = snapshot_of(take()), snapshot_of(take(environment=NO_ROCM))
    pairs = [*zip(whole.gpus, bare.gpus, strict=True), *zip(whole.pairs, bare.pairs, strict=True)]
    for before, after in pairs:
        for field in fields(before):
            was, now = getattr(before, field.name), getattr(after, field.name)
            if field.name in {"pcie", "p2p", "xgmi"}:
                continue
            assert now == was or isinstance(now, Unreadable), field.name
    for before, after in zip(whole.pairs, bare.pairs, strict=True):
        assert after.p2p["read"] == before.p2p["read"] == Value("OK")
        assert isinstance(after.p2p["atomics"], Unreadable)
        assert replace(after.xgmi.value, capabilities=before.xgmi.value.capabilities) == before.xgmi.value
    assert {gpu.pcie.width_lanes for gpu in bare.gpus} == {Value(16)}


def test_a_library_older_than_the_module_is_like_none(take, fake_amdsmi):
    """AttributeError when it is imported (ROCm/amdsmi#98, #186)."""
    old = str(fake_amdsmi.rocm(absent=("amdsmi_get_link_metrics",)))
    snapshot = snapshot_of(take(environment={"ROCM_PATH": old}))
    assert len(snapshot.gpus) == 8
    assert "undefined symbol: amdsmi_get_link_metrics" in snapshot.host.driver_library_version.detail


def test_without_amdsmi_and_without_a_link_nothing_is_said_of_access(take):
    def unlinked(host):
        pairs = [
            replace(
                pair, xgmi=None, p2p=dict.fromkeys(pair.p2p, P2pStatus.NS if pair.gpu == 0 else P2pStatus.OK)
            )
            for pair in host.pairs
        ]
        return replace(host, gpus=tuple(replace(gpu, xgmi=None) for gpu in host.gpus), pairs=tuple(pairs))

    snapshot = snapshot_of(take(change=unlinked, environment=NO_ROCM))
    first, second = snapshot.gpus[:2]
    assert isinstance(snapshot.pair(first.uuid, second.uuid).p2p["read"], Unreadable)
    assert snapshot.pair(second.uuid, first.uuid).p2p["read"] == Value("OK")  # a link through the host
    assert {pair.xgmi for pair in snapshot.pairs} == {NOT_SUPPORTED}


def test_without_amdsmi_a_lost_and_a_sleeping_gpu_are_silent(take):
    def third_sleeps(host):
        gpus = [replace(gpu, is_runtime_suspended=n == 2) for n, gpu in enumerate(host.gpus)]
        return replace(host, gpus=tuple(gpus))

    snapshot = snapshot_of(take("gpu_lost,gpu=1", change=third_sleeps, environment=NO_ROCM))
    assert {silent.pci_bus_id: silent.cause.reason for silent in snapshot.silent_gpus} == {
        "0000:22:00.0": UnreadableReason.GPU_LOST,
        "0000:38:00.0": UnreadableReason.ASLEEP,
    }
    assert len(snapshot.gpus) == 6
    assert len(snapshot.pairs) == 6 * 5


def test_a_sleeping_gpu_is_not_asked(take):
    def third_sleeps(host):
        gpus = [replace(gpu, is_runtime_suspended=n == 2) for n, gpu in enumerate(host.gpus)]
        return replace(host, gpus=tuple(gpus))

    snapshot = snapshot_of(take("call_hangs,call=amdsmi_get_gpu_asic_info,gpu=2", change=third_sleeps))
    assert [silent.cause.reason for silent in snapshot.silent_gpus] == [UnreadableReason.ASLEEP]
    assert len(snapshot.gpus) == 7


@pytest.mark.parametrize("call", ["amdsmi_init", "amdsmi_get_gpu_asic_info", "amdsmi_topo_get_link_type"])
def test_a_call_that_never_returns_costs_the_deadline_and_no_more(take, call):
    """ROCm/rocm-systems#6462."""
    result = take(f"call_hangs,call={call}", deadline_seconds=HASTY_SECONDS)
    assert result.failure is ProbeFailure.TIMEOUT
    assert "did not end within 3 s" in result.detail


def test_a_library_that_crashes_is_named_by_its_signal(take):
    result = take("call_crashes,call=amdsmi_get_gpu_activity,gpu=1")
    assert result.failure is ProbeFailure.CRASHED
    assert "SIGSEGV" in result.detail


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("call_fails,call=amdsmi_init,status=10", UnreadableReason.NO_PERMISSION),
        ("call_fails,call=amdsmi_init,status=18", UnreadableReason.DRIVER),
        ("driver_not_loaded", UnreadableReason.DRIVER_NOT_LOADED),
    ],
)
def test_a_driver_that_cannot_be_used_is_one_answer_and_not_one_for_each_gpu(take, fault, reason):
    snapshot = snapshot_of(take(fault))
    assert isinstance(snapshot.driver, Unreadable)
    assert snapshot.driver.reason is reason
    assert snapshot.vendor is Vendor.AMD
    assert (snapshot.gpus, snapshot.silent_gpus) == ((), ())


def test_outside_the_group_render_the_library_shows_no_gpu(take, fake_amdsmi, tmp_path):
    """It starts, lists nothing, and says nothing (ROCm/amdsmi#184)."""
    nobody = fake_amdsmi.environment(replace(load_scenario("mi300x-8"), gpus=(), pairs=()))
    snapshot = snapshot_of(take(environment=nobody))
    assert isinstance(snapshot.driver, Unreadable)
    assert snapshot.driver.reason is UnreadableReason.NO_PERMISSION
    assert "/dev/kfd" in snapshot.driver.detail


@pytest.mark.parametrize(
    "start", ["call_fails,call=amdsmi_init,status=0", "call_fails,call=amdsmi_init,status=18"]
)
def test_with_no_driver_bound_to_any_gpu_that_is_the_answer(take, start):
    """Whether the library starts then or not."""
    every = [f"gpu_lost,gpu={gpu}" for gpu in range(8)]
    snapshot = snapshot_of(take(start, *every))
    assert snapshot.driver == Unreadable(
        UnreadableReason.DRIVER_NOT_LOADED, "no kernel driver is bound to the 8 GPUs of this host"
    )


def test_the_module_of_the_installed_rocm_comes_first(take, fake_amdsmi, tmp_path):
    """Its structures are those of the library beside it; a wheel's need not be."""
    rocm = tmp_path / "rocm"
    shutil.copytree(fake_amdsmi.rocm(), rocm)
    wheel = find_spec("amdsmi").submodule_search_locations[0]
    shutil.copytree(wheel, rocm / "share/amd_smi/amdsmi")
    (rocm / "share/amd_smi/amdsmi/_version.py").write_text('__version__ = "26.0.2"\n')
    snapshot = snapshot_of(take(environment={"ROCM_PATH": str(rocm)}))
    assert snapshot.host.driver_library_version == Value("26.0.2 (Python module 26.0.2)")


def test_a_module_that_prints_and_raises_is_a_state(take, tmp_path):
    package = tmp_path / "rocm/share/amd_smi/amdsmi"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('print("no library for you")\nraise KeyError("libamd_smi.so")\n')
    snapshot = snapshot_of(take(environment={"ROCM_PATH": str(tmp_path / "rocm")}))
    assert snapshot.host.driver_library_version.detail == "amdsmi cannot be imported: no library for you"


@pytest.mark.parametrize(
    ("nvidia", "expected"), [("rtx5090-2-no-p2p", Vendor.AMD), ("rtxpro6000-8-pcie", Vendor.NVIDIA)]
)
def test_of_two_vendors_the_one_with_more_gpus_is_watched(fake_nvml, fake_amdsmi, tmp_path, nvidia, expected):
    """At a tie NVIDIA's: the one AMD GPU of most such hosts is the CPU's own."""
    snapshot = on_both(fake_nvml, fake_amdsmi, tmp_path, load_scenario(nvidia), load_scenario("mi300x-8"))
    assert snapshot.vendor is expected
    assert isinstance(snapshot.driver, Value)


def test_where_that_one_does_not_answer_the_other_is(fake_nvml, fake_amdsmi, tmp_path):
    amd_host = with_faults(load_scenario("mi300x-8"), [parse_fault("driver_not_loaded")])
    nvidia_host = load_scenario("rtx5090-2-no-p2p")
    snapshot = on_both(fake_nvml, fake_amdsmi, tmp_path, nvidia_host, amd_host)
    assert (snapshot.vendor, len(snapshot.gpus)) == (Vendor.NVIDIA, 2)


def test_where_neither_answers_both_are_named(fake_nvml, fake_amdsmi, tmp_path):
    amd_host, nvidia_host = (
        with_faults(load_scenario(name), [parse_fault("driver_not_loaded")])
        for name in ("mi300x-8", "rtx5090-2-no-p2p")
    )
    snapshot = on_both(fake_nvml, fake_amdsmi, tmp_path, nvidia_host, amd_host)
    assert snapshot.vendor is Vendor.AMD
    assert snapshot.driver.reason is UnreadableReason.DRIVER_NOT_LOADED
    assert snapshot.driver.detail.endswith("whose driver does not answer: 2 of NVIDIA")


def on_both(fake_nvml, fake_amdsmi, directory, nvidia_host, amd_host):
    """One host with the GPUs of two. The trees meet in one directory, as their bus ids allow."""
    roots = write_sysfs(amd_host, directory / "host")
    other = write_sysfs(nvidia_host, directory / "other")
    for entry in (other.sysfs / "bus/pci/devices").iterdir():
        link = roots.sysfs / "bus/pci/devices" / entry.name
        if not link.is_symlink():
            link.symlink_to(entry.resolve())
    environment = {**fake_nvml.environment(nvidia_host), **fake_amdsmi.environment(amd_host)}
    document = subprocess.run(
        [*default_probe_command(), "--sysfs", roots.sysfs, "--proc", roots.proc],
        env={"PATH": PATH, **environment},
        capture_output=True,
        check=True,
        timeout=PATIENT_SECONDS,
    ).stdout
    return codec.decode(Snapshot, document)


@pytest.mark.parametrize(
    "call", ["amdsmi_set_gpu_compute_partition", "amdsmi_reset_gpu_xgmi_error", "amdsmi_reset_gpu", "getattr"]
)
def test_the_door_opens_for_reading_calls_alone(call):
    with pytest.raises(ValueError, match="not a reading call"):
        AmdSmiLibrary(None).ask(call, convert=int)


class RefusalError(Exception):
    def __init__(self, code=None):
        self._code = code

    def get_error_code(self):
        return self._code


class Binding:
    """What an older amdsmi looks like: calls are missing, and one raises what nobody expects."""

    AmdSmiLibraryException = RefusalError

    def amdsmi_get_gpu_xgmi_link_status(self, handle):
        raise KeyError(3)  # an enumeration value of a newer library

    def amdsmi_get_gpu_memory_partition(self, handle):
        raise RefusalError(10)


def test_whatever_a_call_raises_is_an_answer():
    library = AmdSmiLibrary(Binding())
    handle = amd.Handle(object())
    assert library.ask("amdsmi_get_gpu_xgmi_link_status", handle, convert=list) == Unreadable(
        UnreadableReason.MALFORMED, "amdsmi_get_gpu_xgmi_link_status: KeyError: 3"
    )
    assert library.ask("amdsmi_get_gpu_memory_partition", handle, convert=str) == Unreadable(
        UnreadableReason.NO_PERMISSION, "amdsmi_get_gpu_memory_partition: NO_PERM (10)"
    )
    for reading in (library.version(), library.memory_bytes("total", handle), library.rocm_version()):
        assert isinstance(reading, NotSupported)
    assert library.is_own(handle) is False
    assert library.handles() == NOT_SUPPORTED


def test_importing_amdsmi_is_left_to_the_child():
    """The daemon imports everything but the probe's inside; amdsmi must not come with it."""
    source = "import sys, gpumond.probe.amd, gpumond.probe.rocm; print('amdsmi' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
