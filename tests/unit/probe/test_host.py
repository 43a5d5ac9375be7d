from __future__ import annotations

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Value
from gpumond.probe import host
from gpumond.probe.sysfs import pci_inventory


@pytest.fixture
def proc(tmp_path):
    root = tmp_path / "proc"
    for name, text in {
        "sys/kernel/osrelease": "6.8.0-45-generic\n",
        "sys/kernel/random/boot_id": "11111111-2222-4333-8444-555555555555\n",
        "uptime": "1152.65 2000.00\n",
        "cpuinfo": "processor\t: 0\nflags\t\t: fpu vme hypervisor avx\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def read(tree, proc):
    return host.read(tree.root, proc, pci_inventory(tree.root))


def test_kernel_boot_and_uptime(tree, proc):
    around = read(tree, proc)
    assert around.kernel == "6.8.0-45-generic"
    assert around.boot_id == "11111111-2222-4333-8444-555555555555"
    assert around.uptime_seconds == 1152.65


def test_cpus_are_those_of_sysfs(tree, proc):
    cpu = tree.root / "devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "online").write_text("0-31,64-95\n")
    assert read(tree, proc).cpu_count == 64


@pytest.mark.parametrize(
    ("cpuinfo", "is_virtual"),
    [
        ("flags\t\t: fpu hypervisor\n", Value(True)),
        ("flags\t\t: fpu avx\n", Value(False)),
        ("Features\t: fp asimd\n", NOT_SUPPORTED),  # Arm does not say
        ("", NOT_SUPPORTED),
    ],
)
def test_a_virtual_machine_is_known_by_its_cpu_flags(tree, proc, cpuinfo, is_virtual):
    (proc / "cpuinfo").write_text(cpuinfo)
    assert read(tree, proc).is_virtual == is_virtual


def test_iommu_is_off_where_the_gpus_have_no_group(tree, proc):
    tree.add_pci("pci0000:00/0000:00:06.0")
    assert read(tree, proc).iommu == Value("off")


def test_iommu_says_everything_where_gpus_differ(tree, proc):
    tree.add_iommu_group(tree.add_pci("pci0000:00/0000:00:06.0"), 1, "identity")
    tree.add_iommu_group(tree.add_pci("pci0000:00/0000:00:07.0"), 2, "DMA")
    assert read(tree, proc).iommu == Value("DMA,identity")


def test_iommu_of_a_host_without_gpus_is_not_asked(tree, proc):
    assert read(tree, proc).iommu == NOT_SUPPORTED


def test_an_empty_proc_is_an_answer(tree, tmp_path):
    around = host.read(tree.root, tmp_path / "nothing", pci_inventory(tree.root))
    assert (around.kernel, around.uptime_seconds, around.is_virtual) == ("", 0.0, NOT_SUPPORTED)
