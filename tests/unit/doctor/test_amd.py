"""What doctor says of AMD hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from gpumond.config.schema import Config
from gpumond.doctor.checks import Level
from gpumond.doctor.gpus import check_gpus
from gpumond.model.reading import Unreadable, UnreadableReason
from gpumond.probe.launcher import ProbeResult
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot


def checks_of(snapshot):
    return {check.name: check for check in check_gpus(Config(), ProbeResult(snapshot))}


def amd_host():
    return render_snapshot(load_scenario("mi300x-8"), taken_at=datetime(2026, 11, 29, tzinfo=UTC))


def test_nobody_has_tried_it_on_hardware_and_doctor_says_so():
    checks = checks_of(amd_host())
    assert checks["amd"].level is Level.WARNING
    assert "never tried on hardware" in checks["amd"].detail
    assert checks["driver"].detail == "6.12.12, ROCm 7.0.2"
    assert checks["GPUs"].detail == "8 x AMD Instinct MI300X"
    assert "ROCm library" not in checks


def test_without_amdsmi_it_says_what_is_missing():
    host = amd_host()
    lost = Unreadable(UnreadableReason.NO_LIBRARY, "amdsmi cannot be imported: no such file")
    bare = replace(host, host=replace(host.host, driver_library_version=lost, rocm_version=lost))
    checks = checks_of(bare)
    assert checks["ROCm library"].level is Level.WARNING
    assert checks["ROCm library"].detail.startswith("amdsmi cannot be imported: no such file; only links")
    assert checks["driver"].detail == "6.12.12"
