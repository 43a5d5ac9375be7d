"""KFD's list of processes: who is on a GPU, and who has only opened the driver."""

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, Value
from gpumond.model.topology import GpuProcess
from gpumond.probe import kfd_processes
from gpumond.probe.kfd_processes import read_processes

FIRST, SECOND = 40001, 40002


@pytest.fixture
def proc(tmp_path):
    directory = tmp_path / "class/kfd/kfd/proc"
    directory.mkdir(parents=True)
    return directory


def add(proc, pid, memory, queues=()):
    entry = proc / str(pid)
    for gpu_id, used in memory.items():
        write(entry / f"vram_{gpu_id}", used)
        write(entry / f"sdma_{gpu_id}", 0)
    write(entry / "pasid", 32770)
    for number, gpu_id in enumerate(queues):
        write(entry / f"queues/{number}/gpuid", gpu_id)
        write(entry / f"queues/{number}/size", 4096)


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def test_memory_or_a_queue_is_use_and_an_open_driver_is_none(tmp_path, proc):
    add(proc, 900, {FIRST: 4096, SECOND: 0}, queues=(FIRST, FIRST))
    add(proc, 77, {FIRST: 0, SECOND: 0}, queues=(SECOND,))
    add(proc, 5, {FIRST: 0, SECOND: 0})
    add(proc, 8, {FIRST: 1})
    assert read_processes(tmp_path) == Value(
        {
            FIRST: (GpuProcess(8, "compute", 1), GpuProcess(900, "compute", 4096)),
            SECOND: (GpuProcess(77, "compute", 0),),
        }
    )


def test_nobody(tmp_path, proc):
    assert read_processes(tmp_path) == Value({})


def test_a_kernel_without_the_list(tmp_path):
    assert read_processes(tmp_path) == NOT_SUPPORTED


def test_a_driver_that_does_not_say_which_gpus_a_process_is_on(tmp_path, proc):
    add(proc, 5, {})
    assert isinstance(read_processes(tmp_path), Unreadable)


def test_a_file_that_holds_no_number_is_a_no_and_not_nobody(tmp_path, proc):
    add(proc, 5, {FIRST: "many"})
    assert isinstance(read_processes(tmp_path), Unreadable)


def test_a_process_that_ends_while_it_is_read(tmp_path, proc, monkeypatch):
    add(proc, 5, {FIRST: 1})
    add(proc, 6, {FIRST: 1})
    real = kfd_processes._number

    def number(path):
        if path.parent.name == "5":
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(kfd_processes, "_number", number)
    assert read_processes(tmp_path) == Value({FIRST: (GpuProcess(6, "compute", 1),)})
