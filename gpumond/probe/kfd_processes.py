"""Who computes on AMD GPUs, as the kernel driver (KFD) lists it in sysfs: no library, no call into a driver that may hang.

Every process that has opened /dev/kfd has a directory with a file for each GPU of the host, used or not. It is on a GPU
where it has memory or a queue there (kfd_process.c). Readable by everyone, also for processes of other users. Pids are
those of the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess

_MEMORY = "vram_"

ProcessesOfGpu = Mapping[int, tuple[GpuProcess, ...]]
"""By the number that KFD gives a GPU (`KfdGpu.gpu_id`); a GPU without processes is not in it."""


def read_processes(sysfs: Path) -> Reading[ProcessesOfGpu]:
    """Not supported where the kernel driver has no such list, or is not loaded."""
    directory = sysfs / "class/kfd/kfd/proc"
    found: dict[int, list[GpuProcess]] = {}
    try:
        for entry in directory.iterdir():
            if entry.name.isdecimal():
                for gpu_id, used_bytes in _read_process(entry).items():
                    found.setdefault(gpu_id, []).append(GpuProcess(int(entry.name), "compute", used_bytes))
    except FileNotFoundError:
        return NOT_SUPPORTED
    except PermissionError as error:
        return Unreadable(UnreadableReason.NO_PERMISSION, f"{error.filename}: {error.strerror}")
    except (OSError, ValueError) as error:
        return Unreadable(UnreadableReason.ERROR, f"{directory}: {error}")
    return Value({gpu_id: tuple(sorted(it, key=lambda one: one.pid)) for gpu_id, it in found.items()})


def _read_process(entry: Path) -> dict[int, int]:
    """The bytes on each GPU that it is on; empty where it has ended meanwhile."""
    try:
        memory = {int(it.name.removeprefix(_MEMORY)): _number(it) for it in entry.glob(f"{_MEMORY}*")}
        queues = set(_queues(entry / "queues"))
    except (FileNotFoundError, ProcessLookupError):
        return {}
    if not memory and not queues:
        # An older driver: "nobody" would be no answer.
        raise ValueError(f"process {entry.name} has no file for any GPU")
    memory = {gpu_id: used for gpu_id, used in memory.items() if used}
    return dict.fromkeys(queues, 0) | memory


def _queues(directory: Path) -> Iterator[int]:
    """The GPU of each queue. One that is destroyed while we look is no queue any more."""
    if not directory.exists():
        return
    for queue in directory.iterdir():
        try:
            yield _number(queue / "gpuid")
        except FileNotFoundError:
            continue


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))
